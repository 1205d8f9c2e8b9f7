// The picture of the pipeline explorer without a page: operators, and the launches they are grouped into.
//
// A group is { id, name, kind, pass, chips, reads, writes }: a kernel, a loop or a call. A chip is { id, label, title,
// keys }: one operator. A group of kind "bare" is an operator that nothing is launched for yet.
import { VIEWS, isView, kernelsByKey, labelOf, passOf } from "./logic.js";

const OPERATORS = {
  "@": "matmul", "+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "//": "floordiv", "%": "mod",
  ">": "gt", "<": "lt", ">=": "ge", "<=": "le", "==": "eq", "!=": "ne",
};

/** The name of what a line of a graph calls: `h: "f32[2]" = torch.softmax(x)` calls softmax. "" where it calls nothing. */
export function callee(text) {
  const listed = /^\s*(?:aten|prims)\.(\w+)/.exec(text);
  if (listed) return listed[1];
  const aten = /=\s*torch\.ops\.\w+\.(\w+)/.exec(text);
  if (aten) return aten[1];
  const value = /^\s*\w+(?::\s*"[^"]*")?\s*=\s*(.+)$/.exec(text)?.[1] ?? "";
  const called = /^(?:[\w.]+\.)?([a-zA-Z_]\w*)\(/.exec(value);
  if (called) return called[1];
  const infix = /^[\w.]+\s*(\*\*|\/\/|[<>=!]=|[@+\-*/%<>])\s*[\w.]/.exec(value);
  return infix ? OPERATORS[infix[1]] : "";
}

const stage = (graph, id) => graph.stages.find((one) => one.id === id);
const linesOf = (graph, id) => (stage(graph, id)?.lines ?? []).map((line, index) => ({ keys: [], ...line, index }));

/** The operators that a stage lists, one a line, without views: [{ chip, pass }]. */
const operatorsIn = (graph, id) => linesOf(graph, id).flatMap(({ text, keys, index }) => {
  const label = callee(text);
  if (!label || VIEWS.has(label)) return [];
  const pass = id.endsWith("_bw") || (keys.length && keys.every((key) => passOf(key) === "bw")) ? "bw" : "fw";
  return [{ pass, chip: { id: `${id}:${index}`, label, title: text.trim(), keys } }];
});

const chipOf = (graph, key) => ({ id: key, label: labelOf(graph, key), title: graph.keys[key]?.target ?? "", keys: [key] });
const bare = (chip, pass) => ({ id: chip.id, name: "", kind: "bare", pass, chips: [chip] });

/** The calls of the Dynamo graph that compute something, in order. */
export function callsOf(graph) {
  const computed = kernelsByKey(graph);
  return linesOf(graph, "dynamo").flatMap(({ text, keys, index }) => {
    const label = callee(text);
    const of = keys.filter((key) => computed.has(key));
    return label && of.length ? [{ id: `call:${index}`, label, title: text.trim(), keys: of }] : [];
  });
}

/** The kernels of Inductor; the operators of one stand in the order of the graph. */
function kernelsOf(graph) {
  const order = ["post_fw", "post_bw"].flatMap((id) => linesOf(graph, id)).filter(({ keys }) => keys.length === 1).map(({ keys: [key] }) => key);
  const inOrder = (keys) => [...keys].sort((one, other) => order.indexOf(one) - order.indexOf(other));
  return graph.kernels.map((kernel, index) => ({
    ...kernel,
    id: `${kernel.name}:${index}`,
    pass: kernel.pass ?? "fw",
    chips: inOrder(kernel.keys.filter((key) => !isView(graph, key))).map((key) => ({ ...chipOf(graph, key), id: `${index}:${key}` })),
  }));
}

/** What runs one operator at a time; what belongs to another graph has no keys in this one. */
function runBy(graph, backend) {
  const ids = backend === "eager" ? ["eager"] : [`${backend}_fw`, `${backend}_bw`];
  return ids.flatMap((id) => operatorsIn(graph, id)).filter(({ chip }) => chip.keys.length)
    .map(({ chip, pass }) => ({ id: chip.id, name: chip.label, kind: "call", pass, chips: [chip] }));
}

/** What a back end launches, one group a launch. */
export const launchesOf = (graph, backend) => (backend === "inductor" ? kernelsOf(graph) : runBy(graph, backend));

/** How many launches that is for the host: a recorded CUDA graph is replayed with one, forward and backward each. */
export function launchCount(launches, backend, target) {
  return backend === "cudagraphs" && target === "cuda" ? new Set(launches.map(({ pass }) => pass)).size : launches.length;
}

/** The ATen operators: as AOTAutograd hands them over ("aot"), or as Inductor's rewrites leave them ("post"). */
export const operatorsOf = (graph, base = "aot") =>
  ["fw", "bw"].flatMap((pass) => operatorsIn(graph, `${base}_${pass}`)).map(({ chip, pass }) => bare(chip, pass));

/** The operators in a node: its head names all that it was made from, so the lines about one operator count, if any. */
function insideOf(lists) {
  const exact = lists.filter((keys) => keys.length === 1);
  return new Set((exact.length ? exact : lists).flat());
}

/**
 * The nodes before fusion, loops and calls into a library, each with the operators in it. An operator that is computed
 * twice is in two.
 */
export function loopsOf(graph) {
  const computed = kernelsByKey(graph);
  const ofLibrary = (keys) => [...keys].every((key) => computed.get(key).every(({ kind }) => kind === "extern"));
  const loops = ["fw", "bw"].flatMap((pass) => {
    const blocks = new Map();
    for (const { block, keys } of linesOf(graph, `ir_pre_${pass}`)) {
      if (!block) continue;
      const lists = blocks.get(block) ?? blocks.set(block, []).get(block);
      lists.push(keys.filter((key) => computed.has(key)));
    }
    return [...blocks].map(([block, lists]) => [block, insideOf(lists)]).map(([block, keys]) => ({
      id: `${pass}:${block}`, name: block, kind: ofLibrary(keys) ? "library" : "loop", pass,
      chips: [...keys].map((key) => ({ ...chipOf(graph, key), id: `${block}:${key}` })),
    }));
  });
  return loops.filter(({ chips }) => chips.length);
}

/** How the picture stands at a stage: "calls", "operators", "rewrites", "loops" or "launches". */
export function phaseAt(stageId) {
  if (["source", "bytecode", "guards", "dynamo", "rewritten"].includes(stageId)) return "calls";
  if (/^aot_[fb]w$/.test(stageId)) return "operators";
  if (stageId.startsWith("post_")) return "rewrites";
  return stageId.startsWith("ir_pre") ? "loops" : "launches";
}

/** The groups of the picture in a phase. */
export function groupsOf(graph, backend, phase) {
  if (phase === "calls") return callsOf(graph).map((call) => bare(call, "fw"));
  if (phase === "operators") return operatorsOf(graph);
  if (phase === "rewrites") return operatorsOf(graph, "post");
  return phase === "loops" ? loopsOf(graph) : launchesOf(graph, backend);
}

/** From which chip of the last picture each chip of the next one comes: the one with its id, else with one of its keys. */
export function originsOf(before, after) {
  const chips = before.flatMap((group) => group.chips);
  const byId = new Map(chips.map((chip) => [chip.id, chip.id]));
  const byKey = new Map(chips.flatMap((chip) => chip.keys.map((key) => [key, chip.id])));
  const pairs = after.flatMap((group) => group.chips)
    .map((chip) => [chip.id, byId.get(chip.id) ?? chip.keys.map((key) => byKey.get(key)).find(Boolean)]);
  return new Map(pairs.filter(([, from]) => from));
}
