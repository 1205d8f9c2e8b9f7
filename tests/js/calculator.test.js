import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, rangeWords, sentences } from "../../docs/assets/js/tools/calculator/answer.js";
import { layout, powersOfTen, powerWords } from "../../docs/assets/js/tools/calculator/geometry.js";
import {
  asTyped, evaluate, findCase, focusOf, pickRanges, stepsDomain, tidySteps, totalAt, typedCase,
} from "../../docs/assets/js/tools/calculator/logic.js";
import { decodeText, MOST_BYTES, parseCsv, readReport, ReportError } from "../../docs/assets/js/tools/calculator/report.js";

const times = (start, center, low = center, high = center) =>
  ({ [`compile_${start}_s`]: center, [`compile_${start}_low_s`]: low, [`compile_${start}_high_s`]: high });
const PLAIN = { variant: "eager", plain: true, status: "ok", step_us: 2000, ...times("cold", 0), ...times("warm", 0) };
const FAST = {
  variant: "inductor", status: "ok", step_us: 990, speedup_ratio: 2, speedup_low: 1.6, speedup_high: 2.5, verdict: "faster",
  ...times("cold", 10), ...times("warm", 2, 1, 3),
};
const SLOW = { ...FAST, variant: "aot_eager", speedup_ratio: 0.8, speedup_low: 0.75, speedup_high: 0.85, verdict: "slower", ...times("cold", 1) };
const SAME = { ...FAST, variant: "tvm", speedup_ratio: 1.01, speedup_low: 0.99, speedup_high: 1.03, verdict: "no difference" };
const LOST = { variant: "ipex", status: "failed", note: "no such package", verdict: null };
const CASE = { method: "paired", rows: [PLAIN, FAST, SLOW, SAME, LOST] };
const at = (steps, more = {}, rows = CASE.rows) => evaluate({ method: "paired", rows }, { steps, ...more });
const of = (result, key) => result.entries.find((entry) => entry.key === key);

test("the sums of a faster variant, by hand", () => {
  const fast = of(at(20_000), "inductor");
  // A step is half of 2 ms, by the ratio and not by its own median; 10 s are earned back by 1 ms a step.
  assert.deepEqual([fast.compile, fast.step, fast.saved], [10, 1000, 1000]);
  assert.deepEqual([fast.nStar, fast.r, fast.total], [10_000, 2, 30]);
  // One compile alone is trusted to 10 %: 9 s at 1.2 ms saved, 11 s at 0.75 ms saved.
  assert.ok(Math.abs(fast.nLow - 7500) <= 1); // rounded up from what is 7500 but for the last bit
  assert.equal(fast.nHigh, 14_667);
});

test("a warm start takes the warm compile with the bounds that were measured", () => {
  const fast = of(at(10_000, { start: "warm" }), "inductor");
  assert.deepEqual([fast.nStar, fast.nLow, fast.nHigh, fast.r], [2000, 834, 4000, 5]);
});

test("K compiles cost K times one, and nothing else changes", () => {
  const fast = of(at(20_000, { compiles: 3 }), "inductor");
  assert.deepEqual([fast.compile, fast.compileLow, fast.compileHigh], [30, 27, 33]);
  assert.deepEqual([fast.nStar, fast.r, fast.total, fast.step], [30_000, 2 / 3, 50, 1000]);
  assert.equal(of(at(20_000, { compiles: 3 }), "eager").total, 40);
});

test("what is not faster has no N*, and noise has no payoff", () => {
  const result = at(10_000);
  assert.deepEqual([of(result, "aot_eager").nStar, of(result, "tvm").nStar], [null, null]);
  assert.ok(of(result, "aot_eager").r < 0);
  assert.equal(of(result, "tvm").r, null);
  assert.ok(of(result, "tvm").total > 0);
});

test("a row without times keeps its place and gets none", () => {
  const lost = of(at(100), "ipex");
  assert.deepEqual([lost.timed, lost.total, lost.r, lost.nStar], [false, null, null, null]);
  const nothing = at(100, {}, [{ ...PLAIN, status: "failed", step_us: null }, FAST]);
  assert.deepEqual([nothing.plain, nothing.chosen, nothing.entries.length], [null, null, 2]);
  assert.ok(nothing.entries.every((entry) => !entry.timed));
});

test("cost is time times price", () => {
  assert.equal(of(at(3_600_000, { price: 5 }), "eager").cost, 10);
});

test("the pick is the simplest that is not clearly beaten", () => {
  assert.equal(at(1).chosen.key, "eager");
  // Above N* but within its interval: too close to call.
  assert.deepEqual([at(12_000).chosen.key, at(12_000).best.key], ["eager", "inductor"]);
  assert.equal(at(20_000).chosen.key, "inductor");
  const longer = { ...FAST, variant: "inductor:max-autotune", speedup_ratio: 2.1, speedup_low: 1.7, speedup_high: 2.6, ...times("cold", 30) };
  const both = at(1_000_000, {}, [PLAIN, longer, FAST]);
  assert.deepEqual([both.best.key, both.chosen.key], ["inductor:max-autotune", "inductor"]);
});

test("a back end that did not run the graph is never picked", () => {
  const result = at(1e9, {}, [PLAIN, { ...FAST, ran: "no: nothing was captured" }]);
  assert.equal(result.chosen.key, "eager");
  assert.equal(decide(result.entries[1], result), "unrun");
});

test("changes of the pick are found to the step", () => {
  const ranges = pickRanges(at(1).entries, 10, 1e6);
  assert.deepEqual(ranges.map(({ entry }) => entry.key), ["eager", "inductor"]);
  const { from } = ranges[1];
  assert.deepEqual([at(from - 1).chosen.key, at(from).chosen.key], ["eager", "inductor"]);
  assert.deepEqual(pickRanges(at(1, {}, [PLAIN, SLOW]).entries, 1, 1e9).length, 1);
});

test("the overview's own way: steps are medians, the interval leaves the compile time out", () => {
  const plain = { ...PLAIN };
  const row = { ...FAST, step_us: 1500 };
  const [, entry] = evaluate({ method: "medians", rows: [plain, row] }, { steps: 1000 }).entries;
  assert.deepEqual([entry.step, entry.saved, entry.nStar], [1500, 500, 20_000]);
  // Saved at 2.5: 500 x 0.6 / 0.5 = 600; at 1.6: 500 x 0.375 / 0.5 = 375.
  assert.deepEqual([entry.nLow, entry.nHigh], [16_667, 26_667]);
});

test("typed numbers are exact unless a spread is given", () => {
  const typed = { compile: 10, eager: 2, step: 1, pm_step: 0, pm_compile: 0 };
  const [, exact] = evaluate(typedCase(typed), { steps: 20_000 }).entries;
  assert.deepEqual([exact.nStar, exact.nLow, exact.nHigh, exact.verdict], [10_000, 10_000, 10_000, "faster"]);
  assert.equal(rangeWords(exact, {}), "");
  const verdict = (change) => evaluate(typedCase({ ...typed, ...change }), { steps: 1 }).entries[1].verdict;
  assert.deepEqual([verdict({ step: 2 }), verdict({ step: 3 }), verdict({ step: 1.9, pm_step: 10 })], ["no difference", "slower", "no difference"]);
});

test("a row as typed numbers says the same again", () => {
  for (const key of ["inductor", "aot_eager", "tvm"]) {
    for (const start of ["cold", "warm"]) {
      const there = of(at(5000, { start }), key);
      const [, back] = evaluate(typedCase(asTyped(CASE, key, start)), { steps: 5000, start }).entries;
      assert.equal(back.verdict, there.verdict, key);
      assert.ok(Math.abs(back.total / there.total - 1) < 1e-6);
      if (there.nStar !== null) assert.ok(Math.abs(back.nStar - there.nStar) <= 1);
    }
  }
  assert.equal(asTyped(CASE, "ipex", "cold"), null);
  assert.equal(asTyped(CASE, "eager", "cold"), null);
  assert.equal(asTyped({ ...CASE, rows: [PLAIN, { ...FAST, speedup_low: null, speedup_high: null, verdict: null }] }, "inductor", "cold"), null);
});

test("a case that is not there gives the nearest", () => {
  const cases = [["a", "mlp", "inference"], ["a", "resnet18", "inference"], ["a", "resnet18", "training"], ["b", "mlp", "training"]]
    .map(([machine, model, work]) => ({ machine, model, work }));
  assert.equal(findCase(cases, { machine: "a", model: "resnet18", work: "training" }), cases[2]);
  assert.equal(findCase(cases, { machine: "b", model: "resnet18", work: "inference" }), cases[3]);
  assert.equal(findCase(cases, { machine: "a", model: "gpt", work: "inference" }), cases[1]);
  assert.equal(findCase([], { machine: "a" }), null);
});

test("the answer is about the variant asked for, else inductor, else what was timed", () => {
  const { entries } = at(1);
  assert.equal(focusOf(entries, "tvm").key, "tvm");
  assert.equal(focusOf(entries, "gone").key, "inductor");
  assert.equal(focusOf(at(1, {}, [PLAIN, LOST, SLOW]).entries, "").key, "aot_eager");
  assert.equal(focusOf([], ""), null);
});

test("steps keep three digits and their range", () => {
  assert.deepEqual([12_345, 0.2, 5e12, 999.6].map(tidySteps), [12_300, 1, 1e9, 1000]);
});

const WORDS = new Proxy({ space: " ", comma: ", ", colon: ": " }, {
  get: (own, key) => own[key] ?? `${key} {variant} {n} {range} {r} {total} {plain} {other} {other_total} {cost} {reason} {ratio} {k}`,
});
function answer(focus, result, more = {}) {
  return sentences(focus, { words: WORDS, plain: "plain", statuses: { failed: "failed" }, failures: {}, kind: "typed", titles: {}, start: "cold", compiles: 1, steps: 10_000, price: 0, result, ...more });
}

test("each case has a sentence of its own, and it claims no N* without one", () => {
  const how = (key, steps) => {
    const found = at(steps);
    return decide(of(found, key), found);
  };
  assert.deepEqual(["inductor", "inductor", "inductor"].map((key, index) => how(key, [100, 12_000, 1e6][index])), ["short", "close", "pays"]);
  assert.deepEqual(["aot_eager", "tvm", "ipex"].map((key) => how(key, 1e6)), ["slower", "same", "untimed"]);
  const result = at(11_000);
  const [first, second] = answer(of(result, "inductor"), result);
  assert.match(first, /: pays `inductor` 10,000/);
  assert.match(second, /^at_close/);
  for (const key of ["aot_eager", "tvm", "ipex"]) assert.doesNotMatch(answer(of(result, key), result).join(), /: pays|at_pays/);
  const late = at(1e6);
  assert.match(answer(of(late, "tvm"), late)[1], /^take_other .*`inductor`/);
  assert.equal(answer(of(late, "inductor"), late, { price: 2 }).length, 3);
  assert.match(answer(of(late, "inductor"), late, { compiles: 4 })[0], /head_compiles .* 4/);
});

test("a missing upper end is said to be missing", () => {
  assert.equal(rangeWords({ nStar: 10, nLow: 5, nHigh: null }, { at_least: "at least {low}" }), "at least 5");
  assert.equal(rangeWords({ nStar: 10, nLow: 5, nHigh: 20 }, {}), "5–20");
});

test("the chart holds every crossing and N, and its N follows the pointer both ways", () => {
  const result = at(3);
  const [low, high] = stepsDomain(result.entries, 3);
  assert.ok(low <= 3 && high >= 14_667);
  assert.deepEqual(stepsDomain(at(1e9).entries, 1e9)[1], 1e9);
  for (const share of [false, true]) {
    const plan = layout(result, { steps: 3, share, size: { width: 700, height: 360 } });
    for (const n of [10, 1000, 50_000]) assert.ok(Math.abs(plan.stepsAt(plan.xAt(n)) / n - 1) < 1e-9);
    assert.deepEqual(plan.marks.map(({ entry }) => entry.key), ["inductor"]);
    assert.equal(plan.lines.length, 4);
    assert.ok(plan.lines.every(({ path }) => !/NaN|Infinity/.test(path)));
    assert.ok(plan.xTicks.every(({ at: x }) => x >= plan.box.left - 1 && x <= plan.box.right + 1));
  }
  // At N* the two lines meet.
  const fast = of(result, "inductor");
  assert.ok(Math.abs(totalAt(fast, fast.nStar) / totalAt(result.plain, fast.nStar) - 1) < 1e-3);
  assert.deepEqual(powersOfTen([10, 1e6], 3), [10, 1000, 1e5]);
  assert.deepEqual([1e-3, 1, 1e4].map(powerWords), ["1\u202fms", "1\u202fs", "10,000\u202fs"]);
});

// ---- reports -----------------------------------------------------------------------------------------------------

const COLUMNS = Object.keys({ ...FAST, ...times("cold", 1), ...times("warm", 1) });
const raw = (row, more = {}) => ({ note: null, model: "m:build", workload: "inference", ...Object.fromEntries(COLUMNS.map((name) => [name, null])), ...row, plain: undefined, ...more });
const REPORT = {
  format: "compare-backends/report", version: 1, environment: { device_name: "CPU", torch: "2.13.0" }, warnings: ["busy"],
  rows: [raw(PLAIN), raw({ ...PLAIN, variant: "eager again" }), raw(FAST), raw(LOST)],
};
const json = (change = {}) => JSON.stringify({ ...REPORT, ...change });
const toCsv = (rows) => {
  const names = Object.keys(rows[0]);
  const cell = (value) => (value === null || value === undefined ? "" : /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  return `${names.join(",")}\n${rows.map((row) => names.map((name) => cell(row[name])).join(",")).join("\n")}\n`;
};
const failure = (content) => {
  try {
    readReport(content);
  } catch (error) {
    assert.ok(error instanceof ReportError, String(error.stack));
    return error;
  }
  return assert.fail("taken");
};

test("a report gives the same case from JSON and from CSV", () => {
  const [one] = readReport(json()).cases;
  const [other] = readReport(toCsv(REPORT.rows)).cases;
  assert.deepEqual(one, other);
  assert.deepEqual(one.rows.map((row) => row.variant), ["eager", "inductor", "ipex"]);
  assert.equal(one.again.variant, "eager again");
  assert.equal(evaluate(one, { steps: 10 }).entries[1].nStar, 10_000);
  assert.deepEqual(readReport(json()).warnings, ["busy"]);
  assert.equal(readReport(`\uFEFF${toCsv(REPORT.rows).replaceAll("\n", "\r\n")}`).cases.length, 1);
});

test("two workloads are two cases, eager first in each", () => {
  const rows = [raw(FAST), raw(PLAIN), raw(PLAIN, { workload: "training" }), raw(FAST, { workload: "training" })];
  const { cases } = readReport(json({ rows }));
  assert.deepEqual(cases.map((one) => [one.workload, one.rows[0].variant]), [["inference", "eager"], ["training", "eager"]]);
  assert.equal(readReport(toCsv(rows) + toCsv(rows.slice(0, 2).map((row) => ({ ...row, model: "n" })))).cases.length, 3);
});

test("marks that turn the direction of writing are taken out of the texts of a report", () => {
  const rows = [raw(PLAIN), raw(FAST, { variant: "in\u202educ\u2066tor", note: "\u202Ea" })];
  for (const content of [json({ rows }), toCsv(rows)]) {
    const [, row] = readReport(content).cases[0].rows;
    assert.deepEqual([row.variant, row.note], ["inductor", "a"]);
  }
  assert.throws(() => readReport(json({ rows: [raw(PLAIN), raw(FAST, { variant: "\u202e" })] })), ReportError);
});

test("what is wrong with a report is named: what and where", () => {
  const cases = [
    ["", "empty"], [" \n", "empty"], ["{", "not_json"], ["[1]", "not_report"], ['{"format":"x"}', "not_report"],
    ['{"format":"compile-kitchen/record"}', "record"], [json({ version: 2 }), "version"], [json({ rows: [] }), "no_rows"],
    [json({ rows: "x" }), "no_rows"], [json({ rows: [5] }), "value", "rows[0]"],
    [json({ rows: [raw(PLAIN), raw(FAST, { step_us: "fast" })] }), "value", "rows[1], step_us"],
    [json({ rows: [raw(PLAIN), raw(FAST, { step_us: -1 })] }), "value", "rows[1], step_us"],
    [json({ rows: [raw(PLAIN), raw(FAST, { compile_cold_s: true })] }), "value", "rows[1], compile_cold_s"],
    [json({ rows: [raw(PLAIN), raw(FAST, { status: "fine" })] }), "value", "rows[1], status"],
    [json({ rows: [raw(PLAIN), raw(FAST, { verdict: "quick" })] }), "value", "rows[1], verdict"],
    [json({ rows: [raw(PLAIN), raw(FAST, { variant: "" })] }), "value", "rows[1], variant"],
    [json({ rows: [raw(PLAIN), raw(FAST, { speedup_low: 3 })] }), "order", "rows[1]"],
    [json({ rows: [raw(PLAIN), { variant: "inductor" }] }), "column", "rows[1]"],
    [json({ rows: [raw(PLAIN), raw(FAST), raw(FAST)] }), "twice", "rows[2]"],
    [json({ rows: [raw(FAST)] }), "no_eager"], [json({ rows: [raw(PLAIN)] }), "only_eager"],
    [json({ rows: [raw({ ...PLAIN, status: "failed", step_us: null }), raw(FAST)] }), "eager_untimed"],
    [json({ rows: Array.from({ length: 501 }, () => raw(PLAIN)) }), "too_many"],
    ["hello, world\n1,2\n", "csv_header"], ['# any "text", with quotes\n"x"y', "csv_header"], [`${toCsv([raw(PLAIN)])}a,b\n`, "csv_cells"],
    [toCsv([raw(PLAIN), raw(FAST, { step_us: "1;5" })]), "value", "CSV:3, step_us"],
    [`${toCsv([raw(PLAIN)])}"open`, "csv_open"], [`${toCsv([raw(PLAIN)])}a"b,c\n`, "csv_quote"], [toCsv([raw(PLAIN)]).split("\n")[0], "no_rows"],
  ];
  for (const [content, code, where] of cases) {
    const error = failure(content);
    assert.equal(error.code, code, content.slice(0, 80));
    if (where) assert.equal(error.values.where, where);
  }
});

test("bytes that are too many or no text are refused before they are read", () => {
  assert.throws(() => decodeText(new Uint8Array(MOST_BYTES + 1)), { code: "too_large" });
  assert.throws(() => decodeText(new Uint8Array([0xff, 0xfe, 0x41])), { code: "not_text" });
  assert.equal(decodeText(new Uint8Array([0xef, 0xbb, 0xbf, 0x41])), "A");
});

test("CSV cells hold commas, quotes and line ends, and lines keep their numbers", () => {
  assert.deepEqual(parseCsv('a,"b,""c""\nd"\r\n\r\nx,\n'), [{ fields: ["a", 'b,"c"\nd'], line: 1 }, { fields: ["x", ""], line: 4 }]);
});

test("numbers that no program writes do not get in", () => {
  for (const value of ["NaN", "Infinity", "0x10", "1e999", " "]) {
    const rows = [raw(PLAIN), raw(FAST, { step_us: value })];
    assert.equal(failure(toCsv(rows)).code, "value", value);
  }
});
