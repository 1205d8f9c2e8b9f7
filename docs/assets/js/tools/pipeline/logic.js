// The pipeline explorer without a page: which stages there are, what a line is linked to, what lights with it.
//
// Every line of every stage carries the keys of the operators it belongs to ("fw:exp", "bw:mul_1": an operator after
// Inductor's own rewrites, in the forward or the backward graph). Two lines are linked where they share a key.

const OTHERS = ["aot_eager", "cudagraphs"].flatMap((backend) => [`${backend}_fw`, `${backend}_bw`]);
const LOWERED = ["aot", "post", "ir_pre", "ir_post", "kernel", "wrapper"];

/** Every stage that there may be: before any back end, what the others run, and Inductor's. */
export const STAGES = [
  "source", "bytecode", "guards", "dynamo", "rewritten", "eager", ...OTHERS,
  ...["fw", "bw"].flatMap((pass) => LOWERED.map((base) => `${base}_${pass}`)),
];
/** What the record calls "eager" is PyTorch without compiling, not the back end of that name: no Dynamo, no guards. */
export const UNCOMPILED = "eager";
export const BACKENDS = [UNCOMPILED, "aot_eager", "inductor", "cudagraphs"];

export const baseOf = (stage) => stage.replace(/_[fb]w$/, "");
export const passOf = (name) => (/^bw:|_bw$/.test(name) ? "bw" : "fw");

/** The state that the address keeps; see common/state.js. */
export const specOf = (examples) => ({
  example: { kind: "choice", of: examples.map(({ id }) => id), fallback: examples[0]?.id ?? "" },
  target: { kind: "choice", of: ["cpu", "cuda"], fallback: "cpu" },
  backend: { kind: "choice", of: BACKENDS, fallback: "inductor" },
  graph: { kind: "number", min: 1, max: 99, whole: true, fallback: 1 },
  shown: { kind: "list", of: STAGES, fallback: [] },
  pick: { kind: "text", most: 1000, fallback: "" },
  step: { kind: "number", min: 0, max: 99, whole: true, fallback: 0 },
});

/** What a back end does with this target: of the target's own entry, else of the example's. */
export const backendOf = (part, target, backend) =>
  part.targets[target].backends?.[backend] ?? part.backends?.[backend] ?? { stages: [], launches: 0 };

/** The stages that a back end goes through, in order. */
export const stagesFor = (graph, route) => route.stages.flatMap((id) => graph.stages.filter((stage) => stage.id === id));

/** The stages beside the source that stand side by side: the reader's choice, else the operators and the kernels. */
export function visibleStages(stages, shown, { narrow = false } = {}) {
  const ids = stages.map(({ id }) => id).filter((id) => id !== "source");
  const chosen = shown.filter((id) => ids.includes(id));
  const preset = [
    ["aot_fw", "dynamo"].find((id) => ids.includes(id)),
    ["kernel_fw", "eager", ...OTHERS].find((id) => ids.includes(id)) ?? ids.at(-1),
  ].filter(Boolean);
  const visible = chosen.length ? chosen : preset;
  return narrow ? visible.slice(-1) : ids.filter((id) => visible.includes(id));
}

/** The choice after a press on a stage: one more or one less side by side, never none; alone where one fits. */
export function pressStage(visible, id, { narrow = false } = {}) {
  if (narrow || !visible.includes(id)) return narrow ? [id] : [...visible, id];
  return visible.length > 1 ? visible.filter((other) => other !== id) : visible;
}

/** Operators that compute nothing: they give another view of their input, or hand it on. */
export const VIEWS = new Set(`alias as_strided detach diagonal expand getitem lift_fresh narrow permute reshape select slice
  split squeeze t transpose unbind unfold unsqueeze view view_as_real _unsafe_view`.split(/\s+/));
export const isView = (graph, key) => VIEWS.has(labelOf(graph, key));

/** The operators that some kernel computes, by key, with the kernels that do. */
export function kernelsByKey(graph) {
  const found = new Map();
  for (const kernel of graph.kernels ?? []) {
    for (const key of kernel.keys) if (!isView(graph, key)) found.set(key, [...(found.get(key) ?? []), kernel]);
  }
  return found;
}

/** The name of an operator as it stands in the picture: that of `aten.exp.default` is exp. */
export function labelOf(graph, key) {
  const { target = "", label = key } = graph.keys?.[key] ?? {};
  return /^(?:aten|prims)\.(\w+)/.exec(target)?.[1] ?? label;
}

const NOTHING = { kind: "none", keys: new Set(), blocks: new Set() };

/**
 * What is picked out: "fw:exp" or "fw:exp,fw:sub" (operators), or "kernel_fw:12" (line 12 of a stage, from 0).
 * `keys` light strongly what shares one; `blocks` light faintly what is in the same kernel or loop.
 */
export function selectionOf(graph, stages, pick) {
  const [stage, index] = pick.split(":");
  const line = stages.find(({ id }) => id === stage)?.lines[Number(index)];
  if (line) {
    const keys = new Set(line.keys ?? []);
    const blocks = new Set(line.block ? [line.block] : []);
    return { kind: "line", stage, index: Number(index), line, keys, blocks: withKernels(graph, keys, blocks) };
  }
  const keys = new Set(pick.split(",").filter((key) => Object.hasOwn(graph.keys ?? {}, key)));
  return keys.size ? { kind: "keys", keys, blocks: withKernels(graph, keys, new Set()) } : NOTHING;
}

function withKernels(graph, keys, blocks) {
  const kernels = kernelsByKey(graph);
  for (const key of keys) for (const { name } of kernels.get(key) ?? []) blocks.add(name);
  return blocks;
}

/** 2: shares an operator with what is picked; 1: in the same kernel or loop; 0: neither. */
export function lightOf(line, { keys, blocks }) {
  if (line.keys?.some((key) => keys.has(key))) return 2;
  return line.block && blocks.has(line.block) ? 1 : 0;
}

/** How far a line is from being about what is picked alone: the number of its other operators. */
const strangers = (line, { keys }) => line.keys.filter((key) => !keys.has(key)).length;

/** The line of a stage to look at first: of those that light strongly, the one that is most about what is picked. */
export function firstLine(stage, selection) {
  let best = -1;
  stage.lines.forEach((line, index) => {
    if (lightOf(line, selection) !== 2) return;
    if (best < 0 || strangers(line, selection) < strangers(stage.lines[best], selection)) best = index;
  });
  return best;
}

/** How many lines of generated code are about what is picked and nothing else. */
export const codeLines = (stages, selection) => stages
  .filter(({ id }) => id.startsWith("kernel_"))
  .flatMap(({ lines }) => lines)
  .filter((line) => lightOf(line, selection) === 2 && strangers(line, selection) === 0).length;

/**
 * What to say of a selection, as { word, ...values }: what was picked, which kernel computes it, what is fused with it.
 * `groups` are the launches of the back end (groups.js).
 */
export function describe(graph, backend, groups, selection) {
  if (selection.kind === "none") return { word: "none" };
  const picked = [...selection.keys];
  const inKernel = (group) => group.chips.some((chip) => chip.keys.some((key) => selection.keys.has(key)));
  const at = groups.flatMap((group, index) => (inKernel(group) ? [index] : []));
  if (!picked.length) {
    const block = groups.find(({ name }) => selection.blocks.has(name));
    return block ? { word: "block", kernel: block.name, labels: labelsOf(block) } : { word: "unlinked" };
  }
  if (!at.length) return { word: picked.every((key) => graph.keys?.[key]?.op === "placeholder") ? "input" : "nowhere" };
  if (backend !== "inductor") {
    return { word: at.length > 1 ? "launches" : "launch", numbers: at.map((n) => n + 1), names: at.map((n) => groups[n].name) };
  }
  if (at.length > 1) return { word: "kernels", kernels: at.map((n) => groups[n].name) };
  const [group] = at.map((n) => groups[n]);
  const others = group.chips.filter((chip) => !chip.keys.some((key) => selection.keys.has(key))).map(({ label }) => label);
  if (others.length) return { word: "fused", kernel: group.name, others: [...new Set(others)] };
  return { word: group.chips.length > 1 ? "whole" : "alone", kernel: group.name };
}

const labelsOf = (group) => group.chips.map(({ label }) => label);

/** The names of the operators of a selection, in the order of the graph: of those that compute, if any does. */
export function pickedLabels(graph, selection) {
  const computed = kernelsByKey(graph);
  const keys = Object.keys(graph.keys ?? {}).filter((key) => selection.keys.has(key));
  const computing = keys.filter((key) => computed.has(key));
  return [...new Set((computing.length ? computing : keys).map((key) => labelOf(graph, key)))];
}
