// One row opened: its numbers, its samples, the machine it ran on, and the command that repeats it.
import { copyButton } from "../common/controls.js";
import { fill, h, s } from "../common/dom.js";
import { quantity } from "../common/format.js";
import { fetchJson } from "../../tools.js";
import { say } from "./format.js";
import { byProcess, median, VALUES } from "./logic.js";

const kept = new Map();
const fetchOnce = (address) => {
  if (!kept.has(address)) kept.set(address, fetchJson(address).catch((error) => { kept.delete(address); throw error; }));
  return kept.get(address);
};

let shown = null;

/** Fill `section` with `entry`, or hide it where there is none. */
export function showDetails(section, entry, { payload, root, told, close }) {
  section.hidden = !entry;
  const key = entry ? `${entry.id}` : null;
  if (key === shown && section.childElementCount) return;
  shown = key;
  if (!entry) {
    section.replaceChildren();
    return;
  }
  const { words, records, columns, machines } = payload;
  const record = records[entry.record];
  const link = (address, label) => h("a", { href: new URL(address, root).href }, label);
  const title = [told("model", entry.model), told("variant", entry.variant), told("workload", entry.workload)].filter(Boolean).join(" · ");
  const pairs = [];
  const pair = (name, ...value) => pairs.push(h("dt", {}, name), h("dd", {}, ...value));
  if (entry.call) pair(words.call, h("code", {}, entry.call));
  for (const { column, spread } of Object.values(VALUES)) {
    if (entry[column] === undefined) continue;
    const ends = spread && entry[spread[0]] !== undefined ? fill(words.ends, { ends: say.range(entry[spread[0]], entry[spread[1]], columns[column], entry[column]) }) : "";
    pair(columns[column].label, say.value(entry[column], columns[column]), ends);
  }
  if (entry.never) pair(columns.break_even_cold.label, words.never);
  if (entry.verdict) pair(words.verdict, told("verdict", entry.verdict));
  for (const column of ["threads", "graphs", "graph_breaks", "recompiles", "operators", "processes", "rounds"]) {
    if (entry[column] !== undefined) pair(columns[column].label, say.value(entry[column], columns[column]));
  }
  for (const column of ["note", "breaks", "recompile_reasons", "warnings"]) {
    if (entry[column]) pair(words[`why_${column}`], entry[column]);
  }
  const samples = h("div", { class: "ck-explorer__samples" }, h("p", {}, words.loading));
  const environment = h("div", {});
  section.replaceChildren(
    h("header", {}, h("h3", {}, title), h("button", { type: "button", class: "ck-button", onclick: close }, words.close)),
    h("p", {},
      entry.status !== "ok" && h("span", { class: "ck-badge ck-badge--failed" }, told("status", entry.status)), " ",
      record.stale && h("span", { class: "ck-badge ck-badge--stale" }, words.stale)),
    h("dl", {}, pairs), samples,
    h("h4", {}, words.environment), environment,
    h("h4", {}, words.repeat), h("pre", {}, h("code", {}, record.command)), copyButton(words.copy_command, words.copied, () => record.command),
    h("p", { class: "ck-provenance" }, `${machines[record.machine]} · torch ${record.torch} · ${record.date} · `, link(record.url, words.record), " · ", link(record.run, words.run), " · ", link(`snippets/${record.snippet}.py`, words.snippet)));
  const stillShown = () => shown === key;
  fetchOnce(new URL(record.url, root).href).then((data) => {
    if (stillShown()) samples.replaceChildren(drawSamples(byProcess(data.rows[entry.row] ?? {}), words));
  }).catch((error) => { if (stillShown()) samples.replaceChildren(h("p", { role: "alert" }, error.message)); });
  fetchOnce(new URL(record.run, root).href).then((run) => {
    if (!stillShown()) return;
    const facts = Object.entries(run.environment).flatMap(([name, value]) => (value && typeof value === "object" ? Object.entries(value) : [[name, value]])).filter(([, value]) => value !== null && value !== "");
    environment.replaceChildren(h("dl", {},
      facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]),
      h("dt", {}, words.commit), h("dd", {}, h("code", {}, (run.git_commit ?? "–").slice(0, 12))),
      h("dt", {}, words.load), h("dd", {}, (run.load_start ?? []).join(", ") || "–")));
  }).catch((error) => { if (stillShown()) environment.replaceChildren(h("p", { role: "alert" }, error.message)); });
}

/** A strip of dots for each process, on one scale, with the ends and the median in words. */
function drawSamples(groups, words) {
  if (!groups.length) return h("p", {}, words.no_samples);
  const all = groups.flat().sort((a, b) => a - b);
  const middle = median(all);
  const [low, high] = [all[0], all.at(-1)];
  const [width, lane] = [560, 18];
  const x = (value) => 8 + ((value - low) / (high - low || 1)) * (width - 16);
  const caption = fill(words.samples, {
    count: all.length, processes: groups.length, low: quantity(low, "us"), median: quantity(middle, "us"), high: quantity(high, "us"),
  });
  return h("figure", {},
    s("svg", { viewBox: `0 0 ${width} ${groups.length * lane + 6}`, role: "img", "aria-label": caption },
      s("line", { x1: x(middle), x2: x(middle), y1: 0, y2: groups.length * lane + 6, stroke: "var(--ck-flame)", "stroke-width": 1.5 }),
      groups.map((group, index) => group.map((value) => s("circle", { cx: x(value).toFixed(1), cy: index * lane + lane / 2 + 3, r: 3, fill: "var(--ck-muted)", "fill-opacity": 0.55 })))),
    h("figcaption", {}, caption));
}
