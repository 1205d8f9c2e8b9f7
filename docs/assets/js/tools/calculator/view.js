// The break-even calculator on its page: what is asked, the answer, the chart, the table.
import { button, choices, copyButton, number as numberField, select, slider } from "../common/controls.js";
import { fill, h, withCode } from "../common/dom.js";
import { number } from "../common/format.js";
import { open } from "../common/state.js";
import { nameOf as nameOfRow, ratioWords, sentences } from "./answer.js";
import { makeChart, stylesOf } from "./chart.js";
import { asTyped, evaluate, findCase, focusOf, LEAST_STEPS, MOST_STEPS, stepsDomain, tidySteps, typedCase } from "./logic.js";
import { chartTable, variantsTable } from "./table.js";
import { makeUpload } from "./upload.js";

const PREFERRED = "resnet18";
const MOST_COMPILES = 1000;
/** A function keeps so many graphs by default (torch._dynamo.config.recompile_limit). */
const GRAPHS_KEPT = 8;
const QUIET_MS = 400;
/** The fields for typed numbers; an address without them opens with round ones. */
const TYPED = {
  compile: { kind: "number", min: 0, max: 1e6, fallback: 10 },
  eager: { kind: "number", min: 1e-6, max: 1e9, fallback: 2 },
  step: { kind: "number", min: 1e-6, max: 1e9, fallback: 1 },
  pm_step: { kind: "number", min: 0, max: 1000, fallback: 0 },
  pm_compile: { kind: "number", min: 0, max: 100, fallback: 0 },
};

function specOf({ machines, models, works }) {
  const keys = (pairs, wanted) => {
    const of = pairs.map(([key]) => key);
    return { kind: "choice", of, fallback: of.includes(wanted) ? wanted : of[0] ?? "" };
  };
  return {
    from: { kind: "choice", of: ["records", "typed"], fallback: machines.length ? "records" : "typed" },
    machine: keys(machines), model: keys(models, PREFERRED), work: keys(works, "inference"),
    variant: { kind: "text", fallback: "" },
    n: { kind: "number", min: LEAST_STEPS, max: MOST_STEPS, whole: true, fallback: 10_000 },
    start: { kind: "choice", of: ["cold", "warm"], fallback: "cold" },
    k: { kind: "number", min: 1, max: MOST_COMPILES, whole: true, fallback: 1 },
    price: { kind: "number", min: 0, max: 1e6, fallback: 0 },
    chart: { kind: "choice", of: ["total", "share"], fallback: "total" },
    ...TYPED,
  };
}

/** All controls: { element, show(state, context) }. */
function makeControls(payload, spec, actions, workWords) {
  const { words } = payload;
  const set = (key) => (value) => actions.set({ [key]: value });
  const field = (label, key, unit = "") => {
    const { min, max, whole } = spec[key];
    const wrong = (text) => fill(whole ? words.wrong_whole : words.wrong_number, { text, min: number(min), max: number(max) });
    return numberField(label, { min, max, whole, unit, wrong }, set(key));
  };
  const titles = (pairs) => pairs.map(([key, title]) => [key, title ?? words.overview_mlp]);
  const source = choices(words.source, [["records", words.source_records], ["typed", words.source_typed], ["file", words.source_file]], actions.source);
  const machine = select(words.machine, payload.machines, set("machine"));
  const model = select(words.model, titles(payload.models), set("model"));
  const work = select(words.work, payload.works, set("work"));
  const fields = {
    compile: field(words.compile, "compile", "s"), eager: field(words.eager, "eager", "ms"), step: field(words.step, "step", "ms"),
    pm_step: field(words.pm_step, "pm_step", "%"), pm_compile: field(words.pm_compile, "pm_compile", "%"),
  };
  const upload = makeUpload(words, actions.report);
  const fileCase = select(words.file_case, [], actions.fileCase);
  const steps = slider(words.steps, { min: LEAST_STEPS, max: MOST_STEPS, scale: "log", whole: true, say: (n) => number(n, { places: 0 }) },
    (n) => actions.set({ n: tidySteps(n) }));
  const exact = field(words.steps_exact, "n");
  const start = choices(words.start, [["cold", words.start_cold], ["warm", words.start_warm]], set("start"));
  const compiles = field(words.compiles, "k");
  const price = field(words.price, "price");
  const focus = select(words.focus, [], set("variant"));
  const chart = choices(words.chart, [["total", words.chart_total], ["share", words.chart_share]], set("chart"));

  const group = (...members) => h("div", { class: "ck-tool__controls" }, members.map(({ element }) => element));
  const ofRecords = group(machine, model, work);
  const ofTyped = group(...Object.values(fields));
  const ofFile = h("div", {}, upload.element, h("div", { class: "ck-tool__controls" }, fileCase.element));
  const compilesNote = h("span", { class: "ck-calc__note" });
  compiles.element.append(compilesNote);
  price.element.append(h("span", { class: "ck-calc__note" }, words.price_note));
  const first = h("div", { class: "ck-calc__ask" }, source.element, ofRecords, ofTyped, ofFile,
    h("div", { class: "ck-tool__controls ck-calc__n" }, steps.element, exact.element, start.element));
  const second = group(focus, compiles, price);
  second.classList.add("ck-calc__more");
  let offered = "";

  return {
    first, second, ways: chart.element,
    clear: upload.clear,
    show(state, { tab, file, one, result, focused, nameOf }) {
      source.show(tab);
      ofRecords.hidden = tab !== "records";
      ofTyped.hidden = tab !== "typed";
      ofFile.hidden = tab !== "file";
      start.element.hidden = one.method === "typed";
      focus.element.hidden = one.method === "typed";
      machine.show(one.machine ?? state.machine);
      // Only what this machine has, and of the model only the workloads that there are.
      const here = payload.cases.filter((other) => other.machine === (one.machine ?? state.machine));
      const has = (key, value) => here.some((other) => other[key] === value && (key === "model" || other.model === one.model));
      const next = JSON.stringify([one.machine, one.model, file && file.name, file && file.at, one.rows.map((row) => row.variant)]);
      if (next !== offered) {
        offered = next;
        if (tab === "records") {
          model.offer(titles(payload.models).filter(([key]) => has("model", key)));
          work.offer(payload.works.filter(([key]) => has("work", key)));
        }
        focus.offer(result.entries.filter((entry) => !entry.plain).map((entry) => [entry.key, nameOf(entry.row).replaceAll("`", "")]));
        if (file) fileCase.offer(file.report.cases.map((other, index) => [String(index), [other.model, workWords(other.workload)].filter(Boolean).join(words.comma)]));
      }
      model.show(one.model ?? state.model);
      work.show(one.work ?? state.work);
      fileCase.element.hidden = !file || file.report.cases.length < 2;
      if (file) fileCase.show(String(file.at));
      for (const key of Object.keys(TYPED)) fields[key].show(state[key]);
      steps.show(state.n);
      exact.show(state.n);
      start.show(state.start);
      compiles.show(state.k);
      price.show(state.price);
      focus.show(focused?.key ?? "");
      chart.show(state.chart);
      compilesNote.textContent = [words.compiles_note, state.k > GRAPHS_KEPT && words.compiles_limit].filter(Boolean).join(words.space);
    },
  };
}

/** Where the numbers come from, as nodes. */
function provenance({ words }, { tab, file, one, machineTitle }, root) {
  if (tab === "typed") return [words.provenance_typed];
  if (tab === "file") {
    const { machine, torch } = file.report;
    return [fill(words.provenance_file, { file: file.name, machine: machine ?? words.unknown, torch: torch ?? words.unknown })];
  }
  return [
    fill(words.provenance, { machine: machineTitle, torch: one.torch ?? words.unknown, date: one.date }),
    h("a", { href: new URL(`results/${one.record}`, root) }, words.record),
    one.stale && [" ", h("span", { class: "ck-badge ck-badge--stale" }, words.stale)],
  ];
}

export function mount(place, payload) {
  const { words } = payload;
  const spec = specOf(payload);
  const root = new URL("../../../", new URL(place.dataset.ckSource, location.href));
  const state = open(spec, place);
  // A file is never in the address: what its numbers would be if typed is.
  let file = null;
  let tab = state.get().from;
  let shown = null;

  const caseOf = (now) => {
    if (tab === "file" && file) return file.report.cases[file.at];
    if (tab === "typed" || now.from === "typed") return typedCase(now);
    return findCase(payload.cases, now, PREFERRED) ?? { method: "paired", rows: [] };
  };

  /** Put the numbers of the variant in the answer into the address as typed ones. */
  function carry(change = {}) {
    const now = { ...state.get(), ...change };
    const one = file.report.cases[file.at];
    const focused = focusOf(evaluate(one, { steps: now.n, start: now.start }).entries, now.variant);
    const typed = focused && asTyped(one, focused.key, now.start);
    file.carried = Boolean(typed);
    return typed ? { ...change, from: "typed", ...typed } : change;
  }

  const redraw = () => draw(state.get());
  function change(next) {
    const wanted = tab === "file" && file ? carry(next) : next;
    const before = state.get();
    state.set(wanted);
    if (state.get() === before) redraw();
  }

  /** A workload of a report in the page's words, where the records have it too. */
  const workWords = (work) => payload.works.find(([key]) => key === work)?.[1] ?? work ?? words.unknown;

  const controls = makeControls(payload, spec, {
    set: change,
    source(next) {
      tab = next;
      if (next === "file") change({});
      else change({ from: next, ...(next === "typed" && shown ? takenOver() : {}) });
    },
    report(report, name) {
      file = { report, name, at: 0, carried: false };
      change({ variant: "" });
    },
    fileCase(index) {
      file.at = Number(index);
      change({ variant: "" });
    },
  }, workWords);
  const takenOver = () => (shown.one.method === "typed" || !shown.focused ? {} : asTyped(shown.one, shown.focused.key, state.get().start) ?? {});
  const answer = h("p", { class: "ck-tool__answer", "aria-live": "polite" });
  const chart = makeChart(words, (n) => change({ n }), controls.ways);
  const table = h("div", { class: "ck-calc__table" });
  const numbers = h("div", {});
  const details = h("details", { class: "ck-calc__numbers", ontoggle: () => fillNumbers() }, h("summary", {}, words.numbers), numbers);
  const notes = h("div", { class: "ck-calc__notes" });
  const takeOver = button(words.take_over, () => {
    tab = "typed";
    change({ from: "typed", ...takenOver() });
  });
  const link = copyButton(words.copy_link, words.copied, () => {
    const url = new URL(state.link());
    // The machine and model stand in it even where they are what the page opens with: that may be another one day.
    const { one } = shown;
    if (state.get().from === "records" && one.machine) {
      for (const key of ["machine", "model", "work"]) url.searchParams.set(key, one[key]);
    }
    return url.href;
  });
  const reset = button(words.reset, () => {
    file = null;
    tab = spec.from.fallback;
    controls.clear();
    state.reset();
  });

  /** The long table is made only while it can be seen. */
  function fillNumbers() {
    if (!details.open || !shown?.result.plain) return;
    const { result, nameOf } = shown;
    numbers.replaceChildren(...chartTable({ result, domain: stepsDomain(result.entries, state.get().n), nameOf, words }));
  }

  let quiet = 0;
  /** The sentence changes at once, and is read out when the reader stops moving things. */
  function say(parts) {
    const text = parts.join(words.space);
    if (text === answer.dataset.ckText) return;
    answer.dataset.ckText = text;
    answer.setAttribute("aria-busy", "true");
    answer.replaceChildren(...withCode(text));
    clearTimeout(quiet);
    quiet = setTimeout(() => answer.removeAttribute("aria-busy"), QUIET_MS);
  }

  function draw(now) {
    const one = caseOf(now);
    const result = evaluate(one, { steps: now.n, start: now.start, compiles: now.k, price: now.price });
    const focused = focusOf(result.entries, now.variant);
    const kind = tab === "file" && file ? "file" : one.method === "typed" ? "typed" : "records";
    const machineTitle = payload.machines.find(([name]) => name === one.machine)?.[1] ?? "";
    const nameOf = (row) => nameOfRow(row, { words, plain: payload.plain });
    const styles = stylesOf(one.rows);
    shown = { one, result, focused, nameOf };
    controls.show(now, { tab, file, one, result, focused, nameOf });
    const titles = kind === "file"
      ? { file: file.name, model: one.model ?? words.unknown, work: workWords(one.workload) }
      : { machine: machineTitle, model: one.model_title ?? words.overview_mlp, work: one.work_title };
    if (!one.rows.length) say([one.failed ? `${titles.model}, ${machineTitle}${words.colon}${one.failed}` : words.no_cases]);
    else {
      say(sentences(focused, { words, plain: payload.plain, statuses: payload.statuses, failures: payload.failures, kind, titles, start: now.start, compiles: now.k, steps: now.n, price: now.price, result }));
    }
    chart.show({ result, focus: focused, steps: now.n, share: now.chart === "share", styles, nameOf });
    table.replaceChildren(...(one.rows.length
      ? [variantsTable({ result, steps: now.n, price: now.price, styles, nameOf, words, verdicts: payload.verdicts, statuses: payload.statuses, failures: payload.failures })] : []));
    details.hidden = !result.plain;
    fillNumbers();
    // What a link can't carry it must not seem to carry.
    link.disabled = kind === "file" && !file.carried;
    takeOver.hidden = tab === "typed" || !focused || !asTyped(one, focused.key, now.start);
    notes.replaceChildren(...[
      one.again && fill(words.noise, { ratio: ratioWords(one.again, words) }),
      kind === "records" && one.warnings && fill(words.file_noise, { warning: one.warnings }),
      kind === "file" && focused && fill(file.carried ? words.file_link : words.file_link_not, { variant: nameOf(focused.row) }),
    ].filter(Boolean).map((text) => h("p", {}, withCode(text))));
    if (one.rows.length) notes.append(h("p", { class: "ck-provenance" }, provenance(payload, { tab: kind, file, one, machineTitle }, root)));
  }

  place.append(controls.first, answer, chart.element, controls.second, table, details, notes,
    h("div", { class: "ck-calc__buttons" }, link, takeOver, reset));
  state.watch(draw);
}
