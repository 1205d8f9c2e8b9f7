import assert from "node:assert/strict";
import { test } from "node:test";
import * as logic from "../../docs/assets/js/tools/explorer/logic.js";

const entry = (model, variant, more = {}) => ({
  model, variant, workload: "inference", machine: "m", torch: "2.13.0", status: "ok", record: 0, ...more,
});

test("a failure counts as 1 in the mean, and is told", () => {
  const [line] = logic.summarize([
    entry("a", "inductor", { speedup_ratio: 4, verdict: "faster" }),
    entry("b", "inductor", { speedup_ratio: 1, verdict: "no difference" }),
    entry("c", "inductor", { status: "failed" }),
    { ...entry("d", ""), status: "timeout" },
  ]);
  assert.equal(line.tried, 4);
  assert.equal(line.ran, 2);
  assert.equal(line.failed, 2);
  assert.deepEqual([line.faster, line.same, line.slower], [1, 1, 0]);
  assert.ok(Math.abs(line.ranMean - 2) < 1e-12);
  assert.ok(Math.abs(line.mean - Math.SQRT2) < 1e-12);
});

test("not compiling is no back end of the summary", () => {
  assert.deepEqual(logic.summarize([entry("a", "eager", { speedup_ratio: 1 })]), []);
});

test("entries are chosen by every part of the state, and all by an empty one", () => {
  const all = [entry("a", "inductor"), entry("b", "aot_eager", { workload: "training" }), { ...entry("c", ""), workload: "", status: "failed" }];
  assert.equal(logic.choose(all, {}).length, 3);
  assert.deepEqual(logic.choose(all, { workload: "training" }).map((e) => e.model), ["b", "c"]);
  assert.deepEqual(logic.choose(all, { without: ["inductor"], models: ["a", "b"] }).map((e) => e.model), ["b"]);
  assert.deepEqual(logic.choose(all, { machine: "other" }), []);
});

test("sorting keeps equals in order and puts what has no value last, both ways", () => {
  const all = [entry("a", "x", { step_us: 3 }), entry("b", "x"), entry("c", "x", { step_us: 1 }), entry("d", "x", { step_us: 3 })];
  const models = (key) => logic.sortBy(all, key).map((e) => e.model).join("");
  assert.equal(models("step_us"), "cadb");
  assert.equal(models("-step_us"), "adcb");
  assert.equal(models("-model"), "dcba");
  assert.equal(models(""), "abcd");
});

test("a heat map has a line for each model, split by what differs", () => {
  const { variants, lines } = logic.pivot([
    entry("a", "inductor"), entry("a", "eager"), entry("a", "inductor", { workload: "training" }), entry("b", "zz"),
  ]);
  assert.deepEqual(variants, ["eager", "inductor", "zz"]);
  assert.equal(lines.length, 3);
  assert.deepEqual(lines[1].parts, { workload: "training" });
});

test("a tint follows the verdict, not the number alone", () => {
  const cell = entry("a", "inductor", { speedup_ratio: 1.4, verdict: "no difference" });
  assert.deepEqual(logic.tint("speedup", cell, { cells: {} }), { kind: "plain", strength: 0 });
  assert.equal(logic.tint("speedup", { ...cell, verdict: "faster" }, {}).kind, "good");
  assert.equal(logic.tint("speedup", { ...cell, verdict: "slower", speedup_ratio: 0.01 }, {}).strength, 1);
  const line = { cells: { a: { step_us: 1 }, b: { step_us: 10 }, c: { step_us: 100 } } };
  assert.deepEqual(["a", "b", "c"].map((name) => logic.tint("step", line.cells[name], line).strength), [1, 0.5, 0]);
});

test("CSV quotes what needs it and disarms formulas, but not negative numbers", () => {
  const text = logic.toCsv([entry('say "hi", you', "=1+1", { speedup_ratio: -0.5, note: "a\nb" })], [{ url: "results/x.json" }]);
  const [heads, ...rest] = text.split("\r\n");
  assert.ok(heads.startsWith("machine,torch,date,model"));
  assert.ok(rest.join("\r\n").includes('"say ""hi"", you",inference,\'=1+1,ok'));
  assert.ok(text.includes(",-0.5,"));
  assert.ok(text.includes('"a\nb"'));
  assert.ok(text.endsWith("results/x.json\r\n"));
});

test("samples are told apart by their process", () => {
  assert.deepEqual(logic.byProcess({ samples_us: [1, 2, 3], samples_process: [0, 2, 0] }), [[1, 3], [2]]);
  assert.deepEqual(logic.byProcess({ samples_us: [1, 2] }), [[1, 2]]);
  assert.deepEqual(logic.byProcess({}), []);
});

test("the median of an even count lies between the two in the middle", () => {
  assert.equal(logic.median([4, 1, 3, 2]), 2.5);
  assert.equal(logic.median([30, 10, 2]), 10);
});

test("versions stand in their order, the newest first", () => {
  const torch = ["2.9.0", "2.13.0", "2.10.1"];
  const entries = torch.map((version) => entry("a", "inductor", { torch: version }));
  assert.deepEqual(logic.choicesOf(entries).torch, ["2.13.0", "2.10.1", "2.9.0"]);
  assert.deepEqual(logic.sortBy(entries, "torch").map((one) => one.torch), ["2.9.0", "2.10.1", "2.13.0"]);
});
