// The kitchen timeline on its page: presets and sliders, the drawing with its player, the chefs' cards, a profiled step.
import { button, choices, copyButton, select, toggle } from "../common/controls.js";
import { fill, h, withCode } from "../common/dom.js";
import { number } from "../common/format.js";
import { open } from "../common/state.js";
import { cards, signed, termSlider } from "./cards.js";
import { drawing } from "./drawing.js";
import { flame } from "./flame.js";
import * as logic from "./logic.js";
import { player } from "./player.js";
import { blockSentence, laneName, presetName, symbol, tidy, us, what } from "./says.js";

const COMMON = Object.keys(logic.TERMS).filter((term) => logic.TERMS[term].chef === "");
const CLEAR = Object.fromEntries(Object.keys(logic.TERMS).map((term) => [term, null]));

function specOf({ presets, profiles }) {
  const terms = Object.entries(logic.TERMS).map(([term, { max, whole }]) => [term, { kind: "number", min: logic.least(term), max, whole: Boolean(whole), fallback: null }]);
  const steps = profiles.map(({ machine }) => machine);
  return {
    preset: { kind: "choice", of: presets.map(({ id }) => id), fallback: presets[0].id },
    device: { kind: "choice", of: ["", "cpu", "gpu"], fallback: "" },
    ...Object.fromEntries(terms),
    steps: { kind: "number", min: 1, max: 4, whole: true, fallback: 1 },
    record: { kind: "flag", fallback: false },
    chefs: { kind: "list", of: logic.CHEFS, fallback: logic.CHEFS },
    zoom: { kind: "choice", of: ["longest", ...logic.CHEFS], fallback: "longest" },
    at: { kind: "number", min: 0, fallback: 0 },
    step: { kind: "choice", of: steps.length ? steps : [""], fallback: steps[0] ?? "" },
    from: { kind: "number", fallback: null },
    to: { kind: "number", fallback: null },
    event: { kind: "number", min: 0, whole: true, fallback: null },
  };
}

export function mount(place, payload) {
  const { words, names, presets, machines, records } = payload;
  const root = new URL("../../../", new URL(place.dataset.ckSource, location.href));
  const state = open(specOf(payload), place);
  const linkOf = (record, text) => h("a", { href: new URL(records[record].url, root).href }, text);
  linkOf.provenance = (record) => {
    const { machine, torch, date, stale } = records[record];
    return [stale ? h("span", { class: "ck-badge ck-badge--stale" }, words.stale) : null, fill(words.provenance, { machine, torch, date }), linkOf(record, words.record)].filter(Boolean);
  };

  // ---- controls
  const presetOf = (now) => presets.find(({ id }) => id === now.preset);
  const deviceOf = (now) => now.device || presetOf(now).device;
  const preset = select(words.preset, presets.map((one) => [one.id, presetName(words, one, machines)]), (id) => state.set({ ...CLEAR, preset: id, device: "", at: 0 }));
  const device = choices(words.device, [["cpu", words.device_cpu], ["gpu", words.device_gpu]], (value) => state.set({ device: value === presetOf(state.get()).device ? "" : value, at: 0 }));
  const steps = choices(words.steps, ["1", "2", "3", "4"].map((count) => [count, count]), (count) => state.set({ steps: Number(count) }));
  const zoom = select(words.zoom, [["longest", words.zoom_longest], ...logic.CHEFS.map((chef) => [chef, names.chef[chef]])], (value) => state.set({ zoom: value }));
  const record = toggle(words.record_shown, (on) => state.set({ record: on }));
  const sliders = new Map(COMMON.map((term) => [term, termSlider(words, term, (value) => state.set({ [term]: value }))]));
  const example = h("p", { class: "ck-timeline__example" });

  // ---- what they show
  const folded = (title, ...inside) => h("details", { class: "ck-timeline__fold" }, h("summary", {}, title), inside);
  const answer = h("p", { class: "ck-tool__answer", "aria-live": "polite" });
  const said = h("p", { class: "ck-timeline__said", "aria-live": "polite" }, words.hint);
  const nows = h("ul", { class: "ck-timeline__nows", "aria-label": words.nows });
  const legend = h("ul", { class: "ck-timeline__legend" });
  let rows = [];
  const place_ = (time, done) => {
    picture.cursor(time);
    drawNows(time);
    if (done) state.set({ at: Number(time.toPrecision(6)) });
  };
  const picture = drawing(words, {
    say: (row, block) => blockSentence(words, names, row.one, block, state.get().steps),
    onSay: (sentence, kind) => {
      said.textContent = sentence;
      for (const term of place.querySelectorAll(".ck-timeline__term")) term.toggleAttribute("data-lit", term.dataset.kind === kind);
    },
    onCursor: (time, done) => {
      walk.moved(time);
      place_(time, done);
    },
  });
  const walk = player(words, place_);
  const kitchen = cards(words, names, {
    onTerm: (term, value) => state.set({ [term]: value }),
    onChefs: (chefs) => state.set({ chefs }),
    linkOf,
  });
  const numbers = h("div", { class: "ck-scroll", tabindex: "0", role: "region", "aria-label": words.numbers });
  const sources = h("div", { class: "ck-scroll", tabindex: "0", role: "region", "aria-label": words.sources });
  const clock = h("div", { class: "ck-scroll", tabindex: "0", role: "region", "aria-label": words.against_clock });
  const clockWords = h("p", {});
  const clockFold = folded(words.against_clock, clockWords, clock);
  const profiled = payload.profiles.length ? flame(payload, { state, linkOf }) : null;

  const row = (heads, cells, first = "row") => h("tr", {}, cells.map((cell, index) => h(index ? "td" : "th", { scope: index ? null : first, class: heads[index]?.num ? "num" : null }, cell)));
  const tableOf = (heads, lines) => h("table", { class: "ck-table" },
    h("thead", {}, h("tr", {}, heads.map(({ text, num }) => h("th", { scope: "col", class: num ? "num" : null }, text)))),
    h("tbody", {}, lines.map((cells) => row(heads, cells))));
  const num = (text) => ({ text, num: true });

  function drawNows(time) {
    nows.replaceChildren(...rows.map(({ one, list, end, name }) => {
      const doing = (lane) => {
        const block = logic.at(list, lane, time);
        const thing = block ? what(words, one, block) : words.idle;
        return one.device === "cpu" ? thing : fill(words.doing, { lane: laneName(words, one.device, lane), what: thing });
      };
      const busy = one.device === "cpu" ? [logic.at(list, "host", time) ? "host" : "device"] : ["host", "device"];
      return h("li", {}, h("strong", {}, name), words.colon, time >= end ? words.done : busy.map(doing).join(words.and));
    }));
  }

  function drawAnswer(now) {
    const times = Object.fromEntries(rows.map(({ one, end }) => [one.chef, end]));
    const best = logic.quickest(times);
    if (!best) {
      answer.textContent = words.none_shown;
      return;
    }
    const parts = [fill(now.steps > 1 ? words.answer_steps : words.answer, { chef: names.chef[best.chef], time: us(best.time), steps: now.steps })];
    const plain = rows.find(({ one }) => one.chef === "none");
    if (plain) {
      const { launch, idle, end } = logic.shares(plain.list);
      const gpu = plain.one.device === "gpu";
      if (best.chef === "none" && rows.length > 1) parts.push(words.answer_plain);
      if (best.chef !== "none" && best.time > 0) parts.push(fill(words.answer_ratio, { time: us(end), ratio: number(end / best.time) }));
      if (end > 0) parts.push(fill(gpu ? words.answer_gpu : words.answer_cpu, { share: `${number(((gpu ? idle : launch) / end) * 100, { digits: 2 })}%` }));
    }
    answer.replaceChildren(...withCode(tidy(parts.join(words.gap))));
  }

  function drawNumbers(gpu) {
    const plain = rows.find(({ one }) => one.chef === "none");
    const heads = [{ text: words.chef }, ...["total", "setup", "launching", "computing", ...(gpu ? ["waiting"] : []), "ratio"].map((key) => num(words[`head_${key}`]))];
    numbers.replaceChildren(tableOf(heads, rows.map(({ name, list, end }) => {
      const { setup, launch, replay, capture, compute, idle } = logic.shares(list);
      return [name, us(end), us(setup + capture), us(launch + replay), us(compute), ...(gpu ? [us(idle)] : []), plain && end > 0 ? `${number(plain.end / end)}×` : "–"];
    })));
  }

  function drawSources(one, now) {
    const heads = [{ text: words.head_term }, num(words.head_value), { text: words.head_from }];
    const lines = Object.keys(logic.TERMS).filter((term) => one.values[term] !== undefined).map((term) => {
      const [from, how] = one.sources[term] ?? [null, "example"];
      const own = now[term] !== null && now[term] !== one.values[term];
      const value = now[term] ?? one.values[term];
      return [
        [words[`term_${term}`], " ", h("span", { class: "ck-timeline__symbol" }, symbol(term))],
        logic.TERMS[term].whole ? number(value, { places: 0 }) : us(value),
        own ? words.how_own : [withCode(words[`how_${how}`]), from === null ? null : [words.gap, h("code", {}, records[from].snippet), " · ", linkOf.provenance(from)]],
      ];
    });
    sources.replaceChildren(tableOf(heads, lines));
  }

  /** The comparisons of the preset's machine; of the first that has some, where the preset is an example. */
  function drawClock(machine) {
    const own = payload.comparisons.filter((one) => one.machine === (machine ?? payload.comparisons[0]?.machine));
    clockFold.hidden = own.length === 0;
    if (!own.length) return;
    clockWords.textContent = fill(words.against_clock_intro, { machine: machines[own[0].machine] });
    const heads = [{ text: words.head_work }, { text: words.chef }, num(words.head_model), num(words.head_clock), num(words.head_difference), { text: words.record }];
    clock.replaceChildren(tableOf(heads, own.map((one) => {
      const model = logic.total(logic.plan(one.chef, one.values, "cpu"));
      return [
        fill(words[`work_${one.what}`], one.facts),
        names.chef[one.chef], us(model), us(one.measured), signed(model / one.measured - 1), [records[one.record].date, " ", linkOf(one.record, words.record)],
      ];
    })));
  }

  place.append(
    h("div", { class: "ck-timeline__top" }, preset.element, device.element),
    h("div", { class: "ck-tool__controls" }, [...sliders.values()].map(({ element }) => element)),
    example, answer, legend, picture.element, walk.element, said, nows,
    h("div", { class: "ck-timeline__top" }, steps.element, zoom.element, record.element),
    kitchen.element,
    h("p", { class: "ck-timeline__buttons" }, button(words.reset, () => state.reset()), copyButton(words.copy_link, words.copied, state.link)),
    folded(words.numbers, numbers), folded(words.sources, sources),
    clockFold, profiled?.element ?? "");

  let drawn = "";
  let drawnProfile = "";
  state.watch((now) => {
    const { step, from, to, event, at, ...rest } = now;
    if (profiled && JSON.stringify([step, from, to, event]) !== drawnProfile) {
      drawnProfile = JSON.stringify([step, from, to, event]);
      profiled.refresh(now);
    }
    if (JSON.stringify(rest) === drawn) {
      if (Math.abs(walk.time() - at) > 1e-5 * at) {
        walk.moved(at);
        place_(at, false);
      }
      return;
    }
    drawn = JSON.stringify(rest);
    const one = presetOf(now);
    const on = deviceOf(now);
    const values = logic.valuesOf(one, now);
    const recorded = now.record && on === "gpu";
    const touched = Object.keys(logic.TERMS).some((term) => now[term] !== null && now[term] !== one.values[term]);
    preset.show(now.preset);
    device.show(on);
    steps.show(String(now.steps));
    zoom.show(now.zoom);
    record.show(now.record);
    record.element.hidden = on !== "gpu";
    for (const [term, made] of sliders) made.show(values[term]);
    example.hidden = one.machine !== null && on === one.device;
    example.textContent = one.machine === null ? words.example : words.what_if;

    rows = logic.CHEFS.filter((chef) => now.chefs.includes(chef)).flatMap((chef) => {
      const planned = logic.plan(chef, values, on);
      if (!planned) return [];
      const list = logic.blocks(planned, now.steps, recorded);
      return [{ one: planned, list, end: logic.endOf(list), name: names.chef[chef], told: "" }];
    });
    const plain = rows.find((item) => item.one.chef === "none");
    for (const item of rows) item.told = us(item.end) + (plain && item !== plain && item.end > 0 ? ` · ${number(plain.end / item.end)}×` : "");
    const longest = Math.max(...rows.map(({ end }) => end), 0);
    const span = rows.find(({ one: { chef } }) => chef === now.zoom)?.end ?? longest;
    const time = Math.min(at, span);
    picture.draw(rows, span, on, fill(words.drawing, { chefs: rows.map(({ name, end }) => `${name} ${us(end)}`).join(words.comma) }));
    walk.set(logic.moments(rows.map(({ list }) => list)).filter((moment) => moment <= span * (1 + 1e-9)), span, time);
    picture.cursor(walk.time());
    drawNows(walk.time());
    const kinds = new Set(rows.flatMap(({ list }) => list.map(({ kind }) => kind)));
    legend.replaceChildren(...["setup", "launch", "replay", "capture", "compute"].filter((kind) => kinds.has(kind)).map((kind) => h("li", {}, h("span", { class: `ck-timeline__swatch ck-timeline__block--${kind}` }), words[`legend_${kind}`])));
    drawAnswer(now);
    kitchen.draw({ values, device: on, chefs: now.chefs, steps: now.steps, record: recorded, preset: one, touched });
    drawNumbers(on === "gpu");
    drawSources(one, now);
    drawClock(one.machine);
  });
}
