// The picture of the pipeline explorer without a page: operators, and the launches they are grouped into.
//
// A group is { id, name, kind, pass, chips, reads, writes }: a kernel, a loop or a call. A chip is { id, label, title,
// keys }: one operator. A group of kind "bare" is an operator that nothing is launched for yet.
import { kernelsByKey, labelOf, passOf } from "./logic.js";

const OPERATORS = { "@": "matmul", "+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "//": "floordiv", "%": "mod" };

/** The name of what a line of a graph calls: `h: "f32[2]" = torch.softmax(x)` calls softmax. "" where it calls nothing. */
export function callee(text) {
  const value = /^\s*\w+(?::\s*"[^"]*")?\s*=\s*(.+)$/.exec(text)?.[1] ?? "";
  const called = /^(?:[\w.]+\.)?([a-zA-Z_]\w*)\(/.exec(value);
  if (called) return called[1];
  const infix = /^[\w.]+\s*(\*\*|\/\/|[@+\-*/%])\s*[\w.]/.exec(value);
  return infix ? OPERATORS[infix[1]] : "";
}

const stage = (graph, id) => graph.stages.find((one) => one.id === id);
const chipOf = (graph, key) => ({ id: key, label: labelOf(graph, key), title: graph.keys[key]?.target ?? "", keys: [key] });
const bare = (chip, pass) => ({ id: chip.id, name: "", kind: "bare", pass, chips: [chip] });

/** The calls of the Dynamo graph that compute something, in order: what the back ends without Inductor launch. */
export function callsOf(graph) {
  const computed = kernelsByKey(graph);
  return (stage(graph, "dynamo")?.lines ?? []).flatMap(({ text, keys = [] }, index) => {
    const label = callee(text);
    const of = keys.filter((key) => computed.has(key));
    return label && of.length ? [{ id: `call:${index}`, label, title: text.trim(), keys: of }] : [];
  });
}

/** The calls, each with its part of the backward graph after all of the forward one. */
function passesOfCalls(graph) {
  const split = (pass) => callsOf(graph)
    .map((call) => ({ ...call, id: `${call.id}:${pass}`, keys: call.keys.filter((key) => passOf(key) === pass) }))
    .filter(({ keys }) => keys.length);
  return [...split("fw").map((call) => ["fw", call]), ...split("bw").reverse().map((call) => ["bw", call])];
}

/** The kernels of Inductor; the operators of one stand in the order of the graph. */
function kernelsOf(graph) {
  const order = operatorsOf(graph).map(({ id }) => id);
  const inOrder = (keys) => [...keys].sort((one, other) => order.indexOf(one) - order.indexOf(other));
  return graph.kernels.map((kernel, index) => ({
    ...kernel,
    id: `${kernel.name}:${index}`,
    pass: kernel.pass ?? "fw",
    chips: inOrder(kernel.keys).map((key) => ({ ...chipOf(graph, key), id: `${index}:${key}` })),
  }));
}

const asCall = (pass, chip) => ({ id: chip.id, name: chip.label, kind: "call", pass, chips: [chip] });

/**
 * What a back end launches, one group a launch. Without Inductor these are the calls of the Dynamo graph, or the ATen
 * operators: whichever are as many as were recorded (`route.launches`).
 */
export function launchesOf(graph, backend, route = {}) {
  if (backend === "inductor") return kernelsOf(graph);
  const calls = passesOfCalls(graph).map(([pass, call]) => asCall(pass, call));
  const operators = operatorsOf(graph).map(({ pass, chips: [chip] }) => asCall(pass, chip));
  return calls.length !== route.launches && operators.length === route.launches ? operators : calls;
}

/** The ATen operators that kernels compute, in the order of the graphs of AOTAutograd. */
export function operatorsOf(graph) {
  const rest = new Set(kernelsByKey(graph).keys());
  const ordered = [];
  for (const id of ["post_fw", "aot_fw", "post_bw", "aot_bw"]) {
    for (const { text, keys = [] } of stage(graph, id)?.lines ?? []) {
      if (keys.length === 1 && callee(text) && rest.delete(keys[0])) ordered.push(keys[0]);
    }
  }
  return [...ordered, ...rest].map((key) => bare(chipOf(graph, key), passOf(key)));
}

/** The loops before fusion, each with the operators in its body. An operator that is computed twice is in two. */
export function loopsOf(graph) {
  const computed = kernelsByKey(graph);
  const loops = ["fw", "bw"].flatMap((pass) => {
    const blocks = new Map();
    for (const { block, keys = [] } of stage(graph, `ir_pre_${pass}`)?.lines ?? []) {
      if (!block) continue;
      const inside = blocks.get(block) ?? blocks.set(block, new Set()).get(block);
      for (const key of keys) if (computed.has(key)) inside.add(key);
    }
    return [...blocks].map(([block, keys]) => ({
      id: `${pass}:${block}`, name: block, kind: "loop", pass,
      chips: [...keys].map((key) => ({ ...chipOf(graph, key), id: `${block}:${key}` })),
    }));
  });
  return loops.filter(({ chips }) => chips.length);
}

/** How the picture stands at a stage: "calls", "operators", "loops" or "launches". */
export function phaseAt(stageId) {
  if (["source", "bytecode", "guards", "dynamo"].includes(stageId)) return "calls";
  if (/^(aot|post)_/.test(stageId)) return "operators";
  return stageId.startsWith("ir_pre") ? "loops" : "launches";
}

/** The groups of the picture in a phase. */
export function groupsOf(graph, backend, route, phase) {
  if (phase === "calls") return callsOf(graph).map((call) => bare(call, "fw"));
  if (phase === "operators") return operatorsOf(graph);
  return phase === "loops" ? loopsOf(graph) : launchesOf(graph, backend, route);
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

/** The launches as a stage of their own, for a back end that generates no code to read them in. */
export const launchStage = (groups) => ({
  id: "launch",
  language: "python",
  lines: groups.map(({ pass, chips: [chip] }) => ({
    text: pass === "bw" ? `${chip.label}  # backward` : chip.label,
    keys: chip.keys,
  })),
});
