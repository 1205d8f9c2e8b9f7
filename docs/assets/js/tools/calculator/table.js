// The tables: every variant at this N, and the chart as numbers.
import { count, interval, number, quantity } from "../common/format.js";
import { fill, h, withCode } from "../common/dom.js";
import { rangeWords, ratioWords } from "./answer.js";
import { LEAST_STEPS, MOST_STEPS, pickRanges, totalAt } from "./logic.js";
import { swatch } from "./chart.js";

const known = (value) => value !== null && value !== undefined;
const DASH = "–";

/** A number with what it may be off below it. */
function cell(value, spread = "", { best = false } = {}) {
  return h("td", { class: best ? "num best" : "num" }, value, spread && h("small", { class: "ck-spread" }, spread));
}

const spreadOf = (low, high, unit, like) => (known(low) && known(high) && low !== high ? interval(low, high, unit, like) : "");

function breakEvenCell(entry, words) {
  if (entry.plain || !entry.timed) return cell(DASH);
  if (entry.nStar !== null) return cell(count(Math.max(1, entry.nStar)), rangeWords(entry, words));
  return cell(entry.verdict === null ? DASH : words.never);
}

/** Why a row has no times, or what to know about it. */
function remark(row, statuses, failures) {
  const note = row.note_words ?? row.note;
  const parts = row.status === "ok" ? [] : [statuses[row.status] ?? row.status, failures[row.failure] ?? row.failure];
  if (note) parts.push(note);
  if (row.ran && row.ran !== "yes") parts.push(row.ran_words ?? row.ran);
  return parts.filter(Boolean).join(" · ");
}

/** A table that scrolls in its own box, where a keyboard can reach it. */
function scrolling(label, table) {
  return h("div", { class: "ck-scroll", tabindex: 0, role: "region", "aria-label": label }, table);
}

const headOf = (names, texts = []) =>
  h("thead", {}, h("tr", {}, names.map((name, index) => h("th", { scope: "col", class: index && !texts.includes(name) ? "num" : null }, name))));

/** All variants at this N; rows without times say why. The pick is marked in words. */
export function variantsTable({ result, steps, price, styles, nameOf, words, verdicts, statuses, failures }) {
  const caption = fill(words.table, { n: number(steps, { places: 0 }) });
  const names = [words.col_variant, words.col_compile, words.col_step, words.col_total, words.col_r, words.col_n_star, words.col_verdict];
  if (price > 0) names.push(words.col_cost);
  const rows = result.entries.map((entry) => {
    const { row } = entry;
    const chosen = entry === result.chosen;
    const said = remark(row, statuses, failures);
    const head = h("th", { scope: "row" }, swatch(styles.get(entry.key)), withCode(nameOf(row)),
      chosen && h("span", { class: "ck-calc__picked" }, words.picked));
    const columns = names.length - 1;
    if (!entry.timed) return h("tr", {}, head, h("td", { colspan: columns, class: "muted" }, said || DASH));
    const ratio = entry.plain || !known(row.speedup_ratio) ? "" : ratioWords(row, words);
    return h("tr", { class: chosen ? "ck-calc__row--picked" : null }, head,
      cell(entry.plain ? DASH : quantity(entry.compile, "s"), spreadOf(entry.compileLow, entry.compileHigh, "s", entry.compile)),
      cell(quantity(entry.step, "us"), spreadOf(entry.stepLow, entry.stepHigh, "us", entry.step)),
      cell(quantity(entry.total, "s"), spreadOf(entry.totalLow, entry.totalHigh, "s", entry.total), { best: entry === result.best }),
      cell(known(entry.r) ? number(entry.r) : DASH),
      breakEvenCell(entry, words),
      h("td", {}, entry.plain ? DASH : verdicts[row.verdict] ?? DASH, ratio && h("small", { class: "ck-spread" }, ratio),
        said && h("small", { class: "ck-spread" }, withCode(said))),
      price > 0 && cell(number(entry.cost), spreadOf(entry.totalLow, entry.totalHigh, "s", entry.total) &&
        interval((entry.totalLow / 3600) * price, (entry.totalHigh / 3600) * price, "", entry.cost)));
  });
  return scrolling(caption, h("table", { class: "ck-table" }, h("caption", {}, caption), headOf(names, [words.col_verdict]), h("tbody", {}, rows)));
}

/** The chart in words: the pick for each N, and the totals at round N and at each N*. */
export function chartTable({ result, domain, nameOf, words }) {
  const timed = result.entries.filter((entry) => entry.timed);
  const powers = [];
  for (let n = domain[0]; n <= domain[1]; n *= 10) powers.push(n);
  const crossings = timed.map((entry) => entry.nStar).filter((n) => known(n) && n >= 1);
  const places = [...new Set([...powers, ...crossings])].sort((one, other) => one - other);
  const rows = places.map((n) => h("tr", {}, h("th", { scope: "row", class: "num" }, crossings.includes(n) ? count(n) : number(n, { places: 0 })),
    timed.map((entry) => cell(quantity(totalAt(entry, n), "s")))));
  const picks = pickRanges(result.entries, LEAST_STEPS, MOST_STEPS).map(({ from, entry }) => h("li", {}, withCode(fill(words.from_steps, { n: count(from), variant: entry ? nameOf(entry.row) : DASH }))));
  return [
    h("p", {}, h("strong", {}, words.picks)), h("ul", {}, picks),
    scrolling(words.chart_total_title, h("table", { class: "ck-table" }, h("caption", {}, words.chart_total_title),
      headOf([words.axis_steps, ...timed.map((entry) => withCode(nameOf(entry.row)))]), h("tbody", {}, rows))),
  ];
}
