// The results explorer on its page: controls, sum, heat map, table, and a row opened to its samples.
import { button, choices, copyButton, select } from "../common/controls.js";
import { fill, h } from "../common/dom.js";
import { open } from "../common/state.js";
import { showDetails } from "./details.js";
import { say } from "./format.js";
import * as logic from "./logic.js";

const MARKS = { faster: "▲", slower: "▼", "no difference": "=" };
const keyOf = (entry, records) => `${records[entry.record].url.replace(/^results\/|\.json$/g, "")}:${entry.row ?? 0}`;

function specOf(found, entries, records) {
  const [machine = ""] = found.machine;
  return {
    machine: { kind: "choice", of: ["", ...found.machine], fallback: machine },
    torch: { kind: "choice", of: ["", ...found.torch], fallback: "" },
    workload: { kind: "choice", of: ["", ...found.workload], fallback: found.workload.includes("inference") ? "inference" : "" },
    value: { kind: "choice", of: Object.keys(logic.VALUES), fallback: "speedup" },
    models: { kind: "list", of: found.model, fallback: [] },
    without: { kind: "list", of: found.variant, fallback: [] },
    sort: { kind: "text", most: 40, fallback: "" },
    row: { kind: "choice", of: ["", ...entries.map((entry) => keyOf(entry, records))], fallback: "" },
  };
}

export function mount(place, payload) {
  const { words, records, names, columns, machines } = payload;
  const root = new URL("../../../", new URL(place.dataset.ckSource, location.href));
  const entries = logic.join(payload);
  if (!entries.length) {
    place.append(h("p", {}, words.nothing_recorded));
    return;
  }
  const found = logic.choicesOf(entries);
  const state = open(specOf(found, entries, records), place);
  const told = (column, value) => names[column]?.[value] ?? value ?? "";
  const lineName = ({ model, parts }) => [told("model", model), ...Object.entries(parts).map(([part, value]) => (part === "machine" ? machines[value] : told(part, value)))].join(" · ");

  // ---- controls
  const list = (column, some) => [["", words.all], ...some.map((value) => [value, column === "machine" ? machines[value] : told(column, value)])];
  const machine = select(words.machine, list("machine", found.machine), (value) => state.set({ machine: value }));
  const torch = select(words.torch, list("torch", found.torch), (value) => state.set({ torch: value }));
  const workload = choices(words.workload, [...found.workload.map((value) => [value, told("workload", value)]), ["", words.both]], (value) => state.set({ workload: value }));
  const value = select(words.value, Object.entries(logic.VALUES).map(([key, { column }]) => [key, columns[column].label]), (key) => state.set({ value: key }));
  const models = ticks(words.models, found.model.map((name) => [name, told("model", name)]), (chosen) => state.set({ models: chosen.length === found.model.length ? [] : chosen }));
  const backends = ticks(words.backends, found.variant.map((name) => [name, told("variant", name)]), (chosen) => state.set({ without: found.variant.filter((name) => !chosen.includes(name)) }));
  const chosen = () => logic.choose(entries, state.get());
  const tools = h("p", { class: "ck-explorer__buttons" },
    button(words.reset, () => state.reset()),
    copyButton(words.copy_link, words.copied, state.link),
    button(words.download_csv, () => download("compile-kitchen.csv", "text/csv", logic.toCsv(logic.sortBy(chosen(), state.get().sort), records))),
    button(words.download_json, () => download("compile-kitchen.json", "application/json", JSON.stringify(chosen().map((entry) => ({ ...entry, record: records[entry.record].url })), null, 1))));

  // ---- what they show
  const box = (more = {}) => h("div", { class: "ck-scroll", tabindex: "0", role: "region", ...more });
  const sum = box({ "aria-label": words.sum });
  const heat = box();
  const heatWords = h("p", { class: "ck-explorer__caption" });
  const rowsWords = h("p", { class: "ck-explorer__caption", role: "status" });
  const details = h("section", { class: "ck-explorer__details", "aria-label": words.details, tabindex: "-1", hidden: true });
  const table = box({ class: "ck-scroll ck-explorer__table", "aria-label": words.table });
  let opener = null;
  const show = (entry) => {
    opener = keyOf(entry, records);
    state.set({ row: opener });
    details.focus({ preventScroll: true });
    details.scrollIntoView({ block: "nearest" });
  };
  const close = () => {
    state.set({ row: "" });
    place.querySelector(`[data-row="${CSS.escape(opener ?? "")}"]`)?.focus();
  };
  details.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });

  const cell = (entry, key, line) => {
    if (!entry) return h("td", { class: "num muted" }, h("span", { title: words.not_measured }, "–"));
    const { column, spread } = logic.VALUES[key];
    const open = (words_) => h("button", { type: "button", class: "ck-explorer__cell", "data-row": keyOf(entry, records), onclick: () => show(entry) }, words_);
    if (entry.status !== "ok") return h("td", { class: "num" }, open(h("span", { class: "ck-badge ck-badge--failed" }, told("status", entry.status))));
    const number = entry[column];
    if (number === undefined) return h("td", { class: "num" }, open(entry.never && key.startsWith("pays") ? words.never : "–"));
    const { kind, strength } = logic.tint(key, entry, line);
    const mark = key === "speedup" && MARKS[entry.verdict] ? h("span", { class: "ck-mark", role: "img", "aria-label": told("verdict", entry.verdict) }, MARKS[entry.verdict], " ") : null;
    const ends = spread && entry[spread[0]] !== undefined ? h("small", { class: "ck-spread" }, say.range(entry[spread[0]], entry[spread[1]], columns[column], number)) : null;
    return h("td", { class: `num ck-tint ck-tint--${kind}`, style: `--strength: ${strength.toFixed(2)}` }, open([mark, say.value(number, columns[column]), ends]));
  };

  function drawSum(some) {
    const lines = logic.summarize(some);
    sum.replaceChildren(h("table", { class: "ck-table" },
      h("thead", {}, h("tr", {}, [words.backend, words.tried, words.faster, words.same, words.slower, words.failed, words.mean].map((head, index) => h("th", { scope: "col", class: index ? "num" : null }, head)))),
      h("tbody", {}, lines.map((line) => h("tr", {}, h("th", { scope: "row" }, told("variant", line.variant)),
        [line.tried, line.faster, line.same, line.slower, line.failed].map((count) => h("td", { class: "num" }, String(count))),
        h("td", { class: "num" }, line.mean === null ? "–" : say.value(line.mean, columns.speedup_ratio)))))));
  }

  function drawHeat(some, key) {
    const { variants, lines } = logic.pivot(some);
    const { column } = logic.VALUES[key];
    const shown = key === "speedup" ? variants.filter((name) => name !== logic.EAGER) : variants;
    heat.setAttribute("aria-label", fill(words.heat, { value: columns[column].label }));
    heatWords.replaceChildren(h("strong", {}, columns[column].label), words.colon, columns[column].meaning, words.stop, key === "speedup" ? "" : words.tint_line);
    heat.replaceChildren(h("table", { class: "ck-table ck-matrix" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, words.model), shown.map((name) => h("th", { scope: "col", class: "num" }, told("variant", name))))),
      h("tbody", {}, lines.map((line) => h("tr", {}, h("th", { scope: "row" }, lineName(line)),
        line.failed
          ? h("td", { colspan: shown.length }, h("span", { class: "ck-badge ck-badge--failed" }, told("status", line.failed.status)), " ", line.failed.note)
          : shown.map((name) => cell(line.cells[name], key, line)))))));
  }

  const HEADS = ["model", "variant", "workload", "machine", "torch"];
  const SORTABLE = [...HEADS, ...Object.values(logic.VALUES).map(({ column }) => column)];
  function drawTable(some, sort) {
    const several = HEADS.filter((head) => ["model", "variant"].includes(head) || new Set(some.map((entry) => entry[head])).size > 1);
    const numbers = Object.values(logic.VALUES).map(({ column }) => column);
    const head = (column, label) => {
      const direction = sort === column ? "ascending" : sort === `-${column}` ? "descending" : "none";
      const next = sort === column ? `-${column}` : sort === `-${column}` ? "" : column;
      const mark = { ascending: " ↑", descending: " ↓", none: "" }[direction];
      return h("th", { scope: "col", class: numbers.includes(column) ? "num" : null, "aria-sort": direction },
        h("button", { type: "button", "data-sort": column, onclick: () => {
          state.set({ sort: next });
          table.querySelector(`[data-sort="${column}"]`).focus();
        } }, label, mark));
    };
    table.replaceChildren(h("table", { class: "ck-table" },
      h("thead", {}, h("tr", {}, several.map((column) => head(column, words[`head_${column}`])), numbers.map((column) => head(column, columns[column].label)), h("th", { scope: "col" }, words.details))),
      h("tbody", {}, logic.sortBy(some, sort).map((entry) => h("tr", {},
        several.map((column, index) => h(index ? "td" : "th", { scope: index ? null : "row" }, column === "machine" ? machines[entry.machine] : told(column, entry[column]))),
        numbers.map((column) => h("td", { class: "num" }, entry[column] === undefined ? (entry.status === "ok" ? "–" : told("status", entry.status)) : say.value(entry[column], columns[column]))),
        h("td", {}, h("button", { type: "button", class: "ck-button", "data-row": `${keyOf(entry, records)}`, "aria-label": fill(words.open_row, { row: `${told("model", entry.model)}, ${told("variant", entry.variant)}` }), onclick: () => show(entry) }, words.open)))))));
  }

  place.append(
    h("div", { class: "ck-tool__controls" }, machine.element, torch.element, workload.element, value.element),
    h("div", { class: "ck-explorer__ticks" }, models.element, backends.element),
    heatWords, heat, details, h("p", { class: "ck-explorer__caption" }, words.sum), sum, tools, rowsWords, table);

  let drawn = "";
  state.watch((now) => {
    const { row, ...rest } = now;
    const sort = SORTABLE.includes(now.sort.replace(/^-/, "")) ? now.sort : "";
    if (JSON.stringify(rest) !== drawn) {
      drawn = JSON.stringify(rest);
      machine.show(now.machine);
      torch.show(now.torch);
      workload.show(now.workload);
      value.show(now.value);
      models.show(now.models.length ? now.models : found.model);
      backends.show(found.variant.filter((name) => !now.without.includes(name)));
      const some = chosen();
      rowsWords.textContent = some.length ? fill(words.rows, { shown: some.length, all: entries.length }) : words.none_fits;
      if (!some.length) {
        for (const part of [heatWords, heat, sum, table]) part.replaceChildren();
      } else {
        drawHeat(some, now.value);
        drawSum(some);
        drawTable(some, sort);
      }
    }
    const entry = row ? entries.find((item) => keyOf(item, records) === row) : null;
    showDetails(details, entry, { payload, root, told, close });
    for (const item of place.querySelectorAll("[data-row]")) item.toggleAttribute("data-open", item.dataset.row === row);
  });
}

/** A folded group of boxes to tick. Returns { element, show(chosen) }. */
function ticks(label, options, onChange) {
  const boxes = new Map();
  const parts = options.map(([value, words]) => {
    const box = h("input", { type: "checkbox", onchange: () => onChange([...boxes].filter(([, item]) => item.checked).map(([key]) => key)) });
    boxes.set(value, box);
    return h("label", { class: "ck-toggle" }, box, words);
  });
  const count = h("span", {});
  return {
    element: h("details", {}, h("summary", {}, label, " ", count), h("div", {}, parts)),
    show: (chosen) => {
      for (const [value, box] of boxes) box.checked = chosen.includes(value);
      count.textContent = `${chosen.length}/${options.length}`;
    },
  };
}

function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
