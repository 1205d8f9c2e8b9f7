import assert from "node:assert/strict";
import { test } from "node:test";
import { pieces } from "../../docs/assets/js/tools/pipeline/code.js";
import { callee, callsOf, launchCount, launchesOf, loopsOf, operatorsOf, originsOf, phaseAt } from "../../docs/assets/js/tools/pipeline/groups.js";
import * as logic from "../../docs/assets/js/tools/pipeline/logic.js";
import { listed, many, pickSentence, stageName, walkSentence } from "../../docs/assets/js/tools/pipeline/say.js";
import { phasesOf, phaseShown, sceneOf, storyOf, viewOf } from "../../docs/assets/js/tools/pipeline/scene.js";
import { readingTime, stagesAtStep } from "../../docs/assets/js/tools/pipeline/walk.js";

// One function in small: y = x @ w; return softmax(y). The matmul goes to a library, the rest into one kernel.
const SOFT = ["fw:amax", "fw:sub", "fw:exp"];
const line = (text, keys = [], more = {}) => ({ text, keys, ...more });
const aten = (name, of = name) => line(`        ${name}: "f32[2]" = torch.ops.aten.${of}.default(x);  x = None`, [`fw:${name}`]);
const GRAPH = {
  title: "graph 1 of 1",
  keys: Object.fromEntries(["mm", "amax", "sub", "exp"].map((op) => [`fw:${op}`, { target: `aten.${op}.default`, label: op }])
    .concat([["bw:neg", { target: "aten.neg.default", label: "neg" }], ["fw:arg0_1", { op: "placeholder", target: "arg0_1", label: "arg0_1" }]])),
  kernels: [
    { name: "extern_kernels.mm", pass: "fw", kind: "extern", keys: ["fw:mm"], reads: 2, writes: 1 },
    { name: "cpp_fused_0", pass: "fw", kind: "fused", keys: ["fw:exp", "fw:amax", "fw:sub"], reads: 1, writes: 1 },
    { name: "cpp_fused_1", pass: "bw", kind: "fused", keys: ["bw:neg"], reads: 1, writes: 1 },
  ],
  stages: [
    { id: "source", language: "python", lines: [line("def f(x, w):"), line("    y = x @ w", ["fw:mm"]), line("    return softmax(y)", [...SOFT, "bw:neg"])] },
    { id: "guards", language: "text", lines: [
      line("TREE_GUARD_MANAGER:"), line("+- RootGuardManager"), line("| +- GuardManager: source=L['x'], type=<class 'torch.Tensor'>"),
      line("| | +- TENSOR_MATCH: check_tensor(L['x'])", [], { words: "x is float32" }), line("| | +- ... and 4 more of DIMENSION_DYNAMIC_MARKING_GUARD"),
    ] },
    { id: "dynamo", language: "python", lines: [
      line("        # File: f.py:2, code: y = x @ w", ["fw:mm"]),
      line("        y: \"f32[2]\" = l_x_ @ l_w_;  l_x_ = None", ["fw:mm"]),
      line("        softmax: \"f32[2]\" = torch.softmax(y, dim = -1)", [...SOFT, "bw:neg"]),
      line("        return (softmax,)", SOFT),
    ] },
    { id: "eager", language: "text", lines: [
      line("aten.matmul.default((2, 2), (2, 2)) -> (2, 2)", ["fw:mm"]), line("aten.t.default((2, 2))", ["fw:mm"]),
      line("aten._softmax.default((2, 2), -1, False) -> (2, 2)", SOFT), line("aten.neg.default((2, 2))", ["bw:neg"]),
      line("aten.ones_like.default((2, 2))"),
    ] },
    { id: "aot_eager_fw", language: "python", lines: [aten("mm"), line("        s: \"f32[2]\" = torch.ops.aten._softmax.default(mm, -1, False)", SOFT), line("        return (s,)", SOFT)] },
    { id: "aot_eager_bw", language: "python", lines: [line("        neg: \"f32[2]\" = torch.ops.aten.neg.default(t)", ["bw:neg"])] },
    { id: "cudagraphs_fw", language: "python", lines: [aten("mm")] },
    { id: "aot_fw", language: "python", lines: [line("def forward(self, arg0_1):", ["fw:arg0_1"]), aten("mm"), aten("amax"), aten("sub"), line("        full: \"f32[2]\" = torch.ops.aten.full.default([2], 1)", ["fw:exp"]), aten("exp")] },
    // A rewrite has made one operator of two.
    { id: "post_fw", language: "python", lines: [aten("mm"), aten("amax"), aten("sub"), aten("exp")] },
    { id: "aot_bw", language: "python", lines: [line("        neg: \"f32[2]\" = torch.ops.aten.neg.default(t)", ["bw:neg"])] },
    { id: "ir_pre_fw", language: "text", lines: [
      line("op0", ["fw:mm"], { block: "op0" }), line("op1", ["fw:amax"], { block: "op1" }),
      line("op2", [...SOFT, "fw:mm"], { block: "op2" }), line("  exp", ["fw:exp"], { block: "op2" }), line("  sub", ["fw:sub"], { block: "op2" }), line("  index", ["fw:arg0_1"], { block: "op2" }),
    ] },
    { id: "kernel_fw", language: "cpp", lines: [
      line("void kernel(", SOFT, { block: "cpp_fused_0" }), line("{", [], { block: "cpp_fused_0" }),
      line("auto tmp0 = max();", ["fw:amax"], { block: "cpp_fused_0" }), line("auto tmp1 = exp();", ["fw:exp"], { block: "cpp_fused_0" }),
      line("// nothing"),
    ] },
    { id: "wrapper_fw", language: "python", lines: [line("cpp_fused_0(x)", SOFT, { block: "cpp_fused_0" })] },
  ],
};
const BEFORE = ["source", "guards", "dynamo"];
const LOWERED = ["aot_fw", "post_fw", "ir_pre_fw", "kernel_fw", "wrapper_fw", "aot_bw"];
const PART = {
  id: "softmax",
  targets: { cpu: { generated_only: false, graphs: [GRAPH] } },
  backends: {
    eager: { stages: ["source", "eager"], launches: 3 },
    aot_eager: { stages: [...BEFORE, "aot_eager_fw", "aot_eager_bw"], launches: 3 },
    inductor: { stages: [...BEFORE, ...LOWERED], launches: 3 },
    cudagraphs: { stages: [...BEFORE, "cudagraphs_fw"], launches: 1 },
  },
};
const NOW = { target: "cpu", backend: "inductor", graph: 1, shown: [], pick: "", step: 0 };
const scene = (change = {}) => sceneOf(PART, { ...NOW, ...change });
const selection = (pick, of = scene()) => logic.selectionOf(of.graph, of.stages, pick);
const labels = (group) => group.chips.map(({ label }) => label);

test("a back end sees its own stages, in order", () => {
  assert.deepEqual(scene().stages.map(({ id }) => id), [...BEFORE, ...LOWERED]);
  assert.deepEqual(scene({ backend: "aot_eager" }).stages.map(({ id }) => id), [...BEFORE, "aot_eager_fw", "aot_eager_bw"]);
  assert.deepEqual(new Set(GRAPH.stages.map(({ id }) => id)), new Set(GRAPH.stages.map(({ id }) => id).filter((id) => logic.STAGES.includes(id))));
});

test("what an address asks for and the data lacks falls back", () => {
  const there = scene({ target: "cuda", graph: 7 });
  assert.deepEqual([there.target, there.graph], ["cpu", GRAPH]);
  const without = { ...PART, targets: { cuda: { graphs: [], reason: "no Triton" }, ...PART.targets } };
  assert.equal(sceneOf(without, { ...NOW, target: "cuda" }).target, "cpu");
  assert.equal(viewOf(there, { ...NOW, step: 50, pick: "fw:gone" }, false).step, there.steps.length);
  assert.equal(selection("kernel_fw:99").kind, "none");
  for (const name of ["constructor", "__proto__", "toString:0", "fw:gone,hasOwnProperty"]) assert.equal(selection(name).kind, "none");
});

test("the stages side by side are the reader's, else operators and kernels; on a phone the last one chosen", () => {
  const { stages } = scene();
  assert.deepEqual(logic.visibleStages(stages, []), ["aot_fw", "kernel_fw"]);
  assert.deepEqual(logic.visibleStages(stages, [], { narrow: true }), ["kernel_fw"]);
  assert.deepEqual(logic.visibleStages(stages, ["wrapper_fw", "dynamo", "post_bw"]), ["dynamo", "wrapper_fw"]);
  assert.deepEqual(logic.visibleStages(stages, ["wrapper_fw", "dynamo"], { narrow: true }), ["dynamo"]);
  assert.deepEqual(logic.pressStage(["aot_fw"], "dynamo"), ["aot_fw", "dynamo"]);
  assert.deepEqual(logic.pressStage(["aot_fw", "dynamo"], "dynamo"), ["aot_fw"]);
  assert.deepEqual(logic.pressStage(["aot_fw"], "aot_fw"), ["aot_fw"]);
  assert.deepEqual(logic.pressStage(["aot_fw"], "dynamo", { narrow: true }), ["dynamo"]);
});

test("an operator lights what shares it strongly, what is in its kernel faintly, and nothing else", () => {
  const picked = selection("fw:exp");
  const light = (id) => GRAPH.stages.find((stage) => stage.id === id).lines.map((one) => logic.lightOf(one, picked));
  assert.deepEqual(light("source"), [0, 0, 2]);
  assert.deepEqual(light("kernel_fw"), [2, 1, 1, 2, 0]);
  assert.deepEqual(light("aot_bw"), [0]);
});

test("the line to look at first is the one that is most about the operator", () => {
  const kernel = GRAPH.stages.find(({ id }) => id === "kernel_fw");
  assert.equal(logic.firstLine(kernel, selection("fw:exp")), 3);
  assert.equal(logic.firstLine(kernel, selection("source:2")), 0);
  assert.equal(logic.firstLine(kernel, selection("fw:mm")), -1);
  assert.equal(logic.codeLines(GRAPH.stages, selection("fw:exp")), 1);
});

test("a line without operators lights its kernel", () => {
  const picked = selection("kernel_fw:1");
  assert.deepEqual([picked.kind, picked.keys.size, [...picked.blocks]], ["line", 0, ["cpp_fused_0"]]);
  const { became } = storyOf(scene(), picked);
  assert.deepEqual([became.word, became.kernel, became.labels], ["block", "cpp_fused_0", ["amax", "sub", "exp"]]);
});

test("what is said names the kernel and what was fused with the operator", () => {
  const became = (pick, change) => { const of = scene(change); return storyOf(of, selection(pick, of)).became; };
  assert.deepEqual(became("fw:exp"), { word: "fused", kernel: "cpp_fused_0", others: ["amax", "sub"] });
  assert.deepEqual(became(SOFT.join()), { word: "whole", kernel: "cpp_fused_0" });
  assert.deepEqual(became("fw:mm"), { word: "alone", kernel: "extern_kernels.mm" });
  assert.deepEqual(became("source:2"), { word: "kernels", kernels: ["cpp_fused_0", "cpp_fused_1"] });
  assert.deepEqual(became("fw:arg0_1"), { word: "input" });
  assert.deepEqual(became("kernel_fw:4"), { word: "unlinked" });
  assert.deepEqual(became(""), { word: "none" });
  assert.deepEqual(became("fw:exp", { backend: "eager" }), { word: "launch", numbers: [2], names: ["_softmax"] });
  assert.deepEqual(became("source:2", { backend: "eager" }), { word: "launches", numbers: [2, 3], names: ["_softmax", "neg"] });
  const gpu = { ...scene({ backend: "cudagraphs" }), target: "cuda" };
  assert.deepEqual(storyOf(gpu, selection("fw:mm")).became, { word: "replayed", numbers: [1], names: ["mm"] });
});

test("the calls are read from the Dynamo graph, and comments and returns are none", () => {
  assert.deepEqual(callsOf(GRAPH).map(({ label }) => label), ["matmul", "softmax"]);
  assert.equal(callee("        a = b"), "");
  assert.equal(callee("        x: \"f32[1]\" = y ** 2;  y = None"), "pow");
  assert.equal(callee("        x = torch._C._nn.linear(a, b, c)"), "linear");
  assert.equal(callee("        x = h.relu()"), "relu");
});

test("operators are those of the graph of AOTAutograd, or what the rewrites leave of them", () => {
  assert.deepEqual(operatorsOf(GRAPH).map(labels).flat(), ["mm", "amax", "sub", "full", "exp", "neg"]);
  assert.deepEqual(operatorsOf(GRAPH, "post").map(labels).flat(), ["mm", "amax", "sub", "exp"]);
});

test("Inductor launches its kernels, the others one operator at a time, views none", () => {
  assert.deepEqual(launchesOf(GRAPH, "inductor").map(labels), [["mm"], ["amax", "sub", "exp"], ["neg"]]);
  assert.deepEqual(launchesOf(GRAPH, "eager").map(({ name, pass }) => [name, pass]), [["matmul", "fw"], ["_softmax", "fw"], ["neg", "bw"]]);
  assert.deepEqual(launchesOf(GRAPH, "aot_eager").map(({ name, pass }) => [name, pass]), [["mm", "fw"], ["_softmax", "fw"], ["neg", "bw"]]);
});

test("a CUDA graph is replayed with one launch a pass, where there is a GPU", () => {
  const launches = launchesOf(GRAPH, "aot_eager");
  assert.deepEqual(["cpu", "cuda"].map((target) => launchCount(launches, "cudagraphs", target)), [3, 2]);
  assert.equal(launchCount(launches, "aot_eager", "cuda"), 3);
});

test("before fusion each loop holds the operators of its body", () => {
  assert.deepEqual(loopsOf(GRAPH).map(labels), [["mm"], ["amax"], ["exp", "sub"]]);
});

test("an operator comes from where it stood: from its own box, else from the call it was part of", () => {
  const before = launchesOf(GRAPH, "eager");
  const origins = originsOf(before, launchesOf(GRAPH, "inductor"));
  assert.equal(origins.get("0:fw:mm"), before[0].chips[0].id);
  assert.equal(origins.get("1:fw:exp"), before[1].chips[0].id);
});

test("the picture has as many phases as the back end has stages for", () => {
  assert.deepEqual(phasesOf(scene()).map(({ phase, count }) => [phase, count]), [["calls", 2], ["operators", 6], ["rewrites", 4], ["loops", 3], ["launches", 3]]);
  assert.deepEqual(phasesOf(scene({ backend: "aot_eager" })).map(({ phase }) => phase), ["calls", "launches"]);
  assert.deepEqual(["guards", "eager", "aot_eager_fw", "aot_bw", "post_fw", "ir_pre_fw", "ir_post_fw"].map(phaseAt),
    ["calls", "launches", "launches", "operators", "rewrites", "loops", "launches"]);
  assert.equal(phaseShown(phasesOf(scene({ backend: "eager" })), "calls"), "calls");
  assert.equal(phaseShown([{ phase: "operators" }, { phase: "launches" }], "rewrites"), "operators");
});

test("the walk has one step a stage, and shows what the stage was made from beside it", () => {
  const { steps } = scene();
  assert.deepEqual(stagesAtStep(steps, 1), ["guards"]);
  assert.deepEqual(stagesAtStep(steps, 4), ["dynamo", "aot_fw"]);
  assert.deepEqual(stagesAtStep(steps, 4, { narrow: true }), ["aot_fw"]);
  assert.deepEqual(steps[3].counts, { calls: 2, instructions: 0, rewritten: 0, guards: 5, operators: 5, remaining: 4, loops: 3, launches: 2 });
  assert.ok(readingTime("x".repeat(200)) > readingTime("x"));
});

test("a line of code in pieces is that line", () => {
  for (const stage of GRAPH.stages) {
    for (const { text } of stage.lines) assert.equal(pieces(text, stage.language).map(([, piece]) => piece).join(""), text);
  }
  assert.deepEqual(pieces("return x  # why", "python"), [["keyword", "return"], ["", " x  "], ["comment", "# why"]]);
  assert.deepEqual(pieces("y = f(x);  x = None", "python").at(-1), ["freed", ";  x = None"]);
  assert.deepEqual(pieces("auto t = 1.5f; // why", "cpp").map(([kind]) => kind), ["keyword", "", "digits", "", "comment"]);
});

test("counts and lists in words", () => {
  assert.deepEqual([many("1 kernel|{n} kernels", 1), many("1 kernel|{n} kernels", 2), many("{n} 个内核", 1)], ["1 kernel", "2 kernels", "1 个内核"]);
  const words = { comma: ", ", more: "{list} and {n} more", stage_kernel: "{code} kernels", of_backward: "{name}, backward", of_forward: "{name}" };
  assert.equal(listed(words, ["a", "b", "c"], 2), "`a`, `b` and 1 more");
  assert.equal(stageName(words, { id: "kernel_bw", language: "cpp" }, true), "C++ kernels, backward");
  assert.equal(stageName(words, { id: "kernel_fw", language: "python" }, false), "Triton kernels");
});

test("sentences have their counts and names filled in", () => {
  const told = new Proxy({ comma: ", ", gap: " ", line_of: "{stage} {n} ({operators})", said_fused: "{what} in {kernel} with {others}.", lines: "{n} line", of_forward: "{name}" }, {
    get: (words, key) => words[key] ?? (String(key).startsWith("n_") ? `{n} ${String(key).slice(2)}` : `${String(key)}: {operators} {launches}`),
  });
  const of = scene();
  assert.equal(pickSentence(told, of, storyOf(of, selection("kernel_fw:3"))), "stage_kernel: {operators} {launches} 4 (`exp`) in `cpp_fused_0` with `amax`, `sub`. 1 line");
  const words = of.steps.map((step) => walkSentence(told, of, step));
  assert.equal(words[0], "walk_source: 5 operators 2 kernels");
  assert.equal(words[3], "walk_aot_apart: 5 operators 2 kernels");
  assert.equal(words.at(-1), "walk_aot_bw: 1 operators 1 kernels");
  const eager = scene({ backend: "eager" });
  assert.deepEqual(eager.steps.map((step) => walkSentence(told, eager, step).split(":")[0]), ["walk_source_eager", "walk_eager"]);
});
