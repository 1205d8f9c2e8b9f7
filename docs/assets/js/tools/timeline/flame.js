// The profiled step: a flame chart with a window to zoom, details of the event that is chosen, and the same as a table.
import { button, select } from "../common/controls.js";
import { fill, h, s } from "../common/dom.js";
import { number } from "../common/format.js";
import { marks } from "./logic.js";
import * as profile from "./profile.js";
import { ticks, us } from "./says.js";

const ROW = 20;
const NAME = 18; // the line with a lane's name
const AXIS = 26;
const OTHER = "*"; // a window that is no phase
const KINDS = ["phase", "operator", "autograd", "other", "kernel"];

/** Returns the section. Its state: step (which machine's), part, from, to, event. */
export function flame(payload, { state, linkOf, onDraw }) {
  const { words, names, columns, profiles, machines } = payload;
  const made = new Map(profiles.map((one) => {
    const events = profile.eventsOf(one);
    return [one.machine, { ...one, events, whole: profile.extent(events) }];
  }));
  const svg = s("svg", { class: "ck-timeline__svg ck-timeline__flame", role: "group", "aria-label": words.flame });
  const box = h("div", { class: "ck-timeline__drawing" }, svg);
  const details = h("p", { class: "ck-timeline__details", "aria-live": "polite" });
  const legend = h("ul", { class: "ck-timeline__legend" });
  const provenance = h("p", { class: "ck-timeline__provenance" });
  const tableBox = h("div", { class: "ck-scroll ck-timeline__table", tabindex: "0", role: "region", "aria-label": words.flame_table });
  const table = h("details", { class: "ck-timeline__fold" }, h("summary", {}, words.flame_table), tableBox);
  const current = () => made.get(state.get().step);
  const windowOf = ({ from, to }) => (from === null || !(to > from) ? current().whole : profile.windowed(current().whole, from, to));
  const look = ([from, to]) => {
    const [first, last] = current().whole;
    const all = to - from >= (last - first) * (1 - 1e-9);
    state.set(all ? { from: null, to: null } : { from: Number(from.toFixed(3)), to: Number(to.toFixed(3)) });
  };
  const choose = (event, more = {}) => state.set({ event: event.id, ...more });

  const machine = select(words.machine, [...made.keys()].map((name) => [name, machines[name]]), (step) => state.set({ step, from: null, to: null, event: null }));
  const part = select(words.part, [], (name) => {
    if (name === OTHER) {
      refresh(state.get());
      return;
    }
    const phase = profile.phases(current().events).find((event) => event.name === name);
    if (phase) choose(phase);
    look(phase ? profile.around(current().whole, phase) : current().whole);
  });
  const zoom = (factor) => look(profile.zoomed(current().whole, windowOf(state.get()), factor, middle()));
  const chosen = () => current().events[state.get().event] ?? null;
  const middle = () => {
    const [from, to] = windowOf(state.get());
    const event = chosen();
    const centre = event ? event.start + event.length / 2 : NaN;
    return centre >= from && centre <= to ? centre : (from + to) / 2;
  };
  const shift = (by) => {
    const [from, to] = windowOf(state.get());
    look(profile.windowed(current().whole, from + by * (to - from), to + by * (to - from)));
  };
  const buttons = h("div", { class: "ck-timeline__buttons" },
    button("+", () => zoom(0.5), { "aria-label": words.zoom_in, title: words.zoom_in }),
    button("−", () => zoom(2), { "aria-label": words.zoom_out, title: words.zoom_out }),
    button("‹", () => shift(-0.5), { "aria-label": words.shift_left, title: words.shift_left }),
    button("›", () => shift(0.5), { "aria-label": words.shift_right, title: words.shift_right }),
    button(words.zoom_event, () => { if (chosen()) look(profile.around(current().whole, chosen())); }),
    button(words.zoom_whole, () => look(current().whole)));

  let width = 0;
  let nodes = new Map(); // id -> rect
  function draw() {
    const now = state.get();
    const one = current();
    if (!width || !one) return;
    const focused = [...nodes].find(([, node]) => node === document.activeElement)?.[0];
    const view = windowOf(now);
    const [from, to] = view;
    const x = (time) => ((time - from) / (to - from)) * width;
    const lanes = profile.lanesOf(one.events);
    const tops = {};
    let height = 0;
    for (const { lane, rows } of lanes) {
      tops[lane] = height + NAME;
      height += NAME + rows * ROW + 6;
    }
    const active = chosen() ?? one.events[0];
    const times = marks(from, to, Math.max(2, Math.floor(width / 90)));
    const told = ticks(times);
    const parts = times.map((time, index) => [
      s("path", { class: "ck-timeline__grid", d: `M${x(time)} ${NAME}V${height}` }),
      s("text", { class: "ck-timeline__tick", x: x(time), y: height + 17, "text-anchor": x(time) < 20 ? "start" : x(time) > width - 30 ? "end" : "middle" }, told[index]),
    ]).flat();
    for (const { lane } of lanes) parts.push(s("text", { class: "ck-timeline__lane", x: 0, y: tops[lane] - 5 }, lane === "host" ? words.lane_host : words.lane_device));
    nodes = new Map();
    for (const event of profile.visible(one.events, view)) {
      const left = Math.max(x(event.start), 0);
      const wide = Math.min(x(event.start + event.length), width) - left;
      const y = tops[event.lane] + event.row * ROW;
      const kind = profile.kindOf(event);
      const node = s("rect", {
        class: `ck-timeline__event ck-timeline__event--${kind}`, x: left, y, width: Math.max(1, wide - (wide > 4 ? 1 : 0)), height: ROW - 2, rx: wide > 8 ? 2 : 0,
        role: "img", tabindex: event === active ? "0" : "-1", "data-event": event.id, "data-chosen": event.id === now.event ? "yes" : null, "aria-label": brief(event),
      });
      nodes.set(event.id, node);
      parts.push(node);
      const name = profile.shortName(profile.kindOf(event) === "phase" ? names.phase[event.name] ?? event.name : event.name);
      const fits = Math.floor((wide - 8) / 6.8);
      if (fits >= 3) parts.push(s("text", { class: "ck-timeline__label", x: left + 4, y: y + 13, "aria-hidden": "true" }, name.length > fits ? `${name.slice(0, fits - 1)}…` : name));
    }
    if (!nodes.has(active.id)) nodes.values().next().value?.setAttribute("tabindex", "0");
    svg.setAttribute("viewBox", `0 0 ${width} ${height + AXIS}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height + AXIS);
    svg.replaceChildren(...parts);
    if (focused !== undefined) nodes.get(chosen()?.id ?? focused)?.focus({ preventScroll: true });
  }

  const brief = ({ name, start, length }) => fill(words.event_brief, { name, start: us(start), length: us(length) });
  function sentence(event) {
    if (!event) return words.flame_hint;
    const { events, whole } = current();
    const self = event.self === null ? "" : fill(words.event_self, { self: us(event.self) });
    const parent = event.parent === null ? "" : fill(words.event_parent, { parent: events[event.parent].name });
    return fill(words.event, {
      name: event.name, lane: names.lane[event.lane] ?? event.lane, start: us(event.start), length: us(event.length),
      share: `${number((event.length / (whole[1] - whole[0])) * 100, { digits: 2 })}%`,
    }) + self + parent;
  }

  svg.addEventListener("click", (event) => {
    const id = event.target.dataset?.event;
    if (id === undefined) return;
    choose(current().events[id]);
    nodes.get(Number(id))?.focus({ preventScroll: true });
  });
  svg.addEventListener("dblclick", (event) => {
    const id = event.target.dataset?.event;
    if (id !== undefined) look(profile.around(current().whole, current().events[id]));
  });
  svg.addEventListener("pointerover", (event) => {
    const id = event.target.dataset?.event;
    if (id !== undefined) details.textContent = sentence(current().events[id]);
  });
  svg.addEventListener("pointerleave", () => { details.textContent = sentence(chosen()); });
  svg.addEventListener("focusin", (event) => {
    const id = event.target.dataset?.event;
    if (id !== undefined) details.textContent = sentence(current().events[id]);
  });
  svg.addEventListener("keydown", (event) => {
    const one = current();
    const own = one.events[event.target.dataset?.event];
    if (!own) return;
    if (event.key === "Enter" || event.key === " ") look(profile.around(one.whole, own));
    else if (event.key === "Escape") look(one.whole);
    else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
      const next = profile.moved(one.events, own, event.key);
      const [from, to] = windowOf(state.get());
      // What was stepped to must be in sight: the window follows it.
      if (next.start + next.length <= from || next.start >= to) {
        const half = (to - from) / 2;
        const [left, right] = profile.windowed(one.whole, next.start + next.length / 2 - half, next.start + next.length / 2 + half);
        state.set({ event: next.id, from: Number(left.toFixed(3)), to: Number(right.toFixed(3)) });
      } else choose(next);
      nodes.get(next.id)?.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  });

  new ResizeObserver(([entry]) => {
    const next = Math.floor(entry.contentRect.width);
    if (next === width) return;
    width = next;
    draw();
  }).observe(box);

  const filledFor = { table: null, step: null };
  function fillTable() {
    const one = current();
    if (!table.open || filledFor.table === one.machine) return;
    filledFor.table = one.machine;
    const heads = ["name", "lane", "step_phase", "start_us", "duration_us", "self_us"];
    tableBox.replaceChildren(h("table", { class: "ck-table" },
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head.endsWith("_us") ? "num" : null }, columns[head])))),
      h("tbody", {}, one.events.map((event) => h("tr", {},
        h("th", { scope: "row" }, h("span", { style: `padding-inline-start: ${event.row * 0.7}em` }, h("code", {}, event.name))),
        h("td", {}, names.lane[event.lane] ?? event.lane),
        h("td", {}, names.phase[event.phase] ?? event.phase),
        [event.start, event.length, event.self].map((value) => h("td", { class: "num" }, value === null ? "–" : us(value))))))));
  }
  table.addEventListener("toggle", fillTable);

  function refresh(now) {
    const one = current();
    machine.show(now.step);
    if (filledFor.step !== one.machine) {
      filledFor.step = one.machine;
      const kinds = new Set(one.events.map(profile.kindOf));
      legend.replaceChildren(...KINDS.filter((kind) => kinds.has(kind)).map((kind) => h("li", {}, h("span", { class: `ck-timeline__swatch ck-timeline__event--${kind}` }), words[`event_kind_${kind}`])));
      provenance.replaceChildren(...linkOf.provenance(one.record));
    }
    const view = windowOf(now);
    const phase = profile.phases(one.events).find((event) => profile.around(one.whole, event).every((end, index) => Math.abs(end - view[index]) < 0.002));
    const all = view.every((end, index) => Math.abs(end - one.whole[index]) < 0.002);
    part.offer([["", words.whole_step], ...profile.phases(one.events).map(({ name }) => [name, names.phase[name] ?? name]), ...(all || phase ? [] : [[OTHER, words.part_other]])]);
    part.show(all ? "" : phase?.name ?? OTHER);
    details.textContent = sentence(chosen());
    draw();
    fillTable();
    onDraw?.();
  }

  const controls = h("div", { class: "ck-tool__controls" }, made.size > 1 ? machine.element : null, part.element, buttons);
  return {
    element: h("section", { class: "ck-timeline__profile", "aria-label": words.flame },
      h("p", { class: "ck-timeline__heading" }, words.flame_title), h("p", {}, words.flame_intro), controls, legend,
      box, details, provenance, table),
    refresh,
  };
}
