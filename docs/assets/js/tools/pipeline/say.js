// Sentences from words and counts. "1 kernel|{n} kernels" holds both numbers; a language with one form has no "|".
import { fill } from "../common/dom.js";
import { codeLines, UNCOMPILED } from "./logic.js";

/** The words for a number of things. */
export function many(forms, n) {
  const [one, other = one] = forms.split("|");
  return fill(n === 1 ? one : other, { n });
}

/** The name of a back end; of none, words. */
export const backendName = (words, id) => (id === UNCOMPILED ? words.uncompiled : id);

/** "`a`, `b` and 3 more", with code between backticks. */
export function listed(words, names, most = 8) {
  const shown = names.slice(0, most).map((name) => `\`${name}\``).join(words.comma);
  return names.length > most ? fill(words.more, { list: shown, n: names.length - most }) : shown;
}

/** The name of a stage; where there is a backward graph (`both`), with the graph that it is of. */
export function stageName(words, { id, language }, both) {
  const [, base, pass] = /^(.*?)(?:_([fb]w))?$/.exec(id);
  const name = fill(words[`stage_${base}`], { code: language === "cpp" ? "C++" : "Triton" });
  return both && pass ? fill(pass === "bw" ? words.of_backward : words.of_forward, { name }) : name;
}

export const hasBackwardGraph = ({ graph }) => graph.stages.some(({ id }) => id.endsWith("_bw"));

/** The sentence of a step of the walk. */
export function walkSentence(words, scene, { base, pass, counts }) {
  const counted = Object.fromEntries(Object.entries(counts).map(([key, n]) => [key, many(words[`n_${key}`], n)]));
  const launches = many(scene.backend === "inductor" ? words.n_kernels : words.n_launches, counts.launches);
  const apart = counts.operators > counts.calls ? "aot_apart" : "aot";
  const eager = scene.backend === UNCOMPILED ? `${base}_eager` : base;
  const key = { aot: pass === "bw" ? "aot_bw" : apart, source: eager, bytecode: eager }[base] ?? base;
  return fill(words[`walk_${key}`], { ...counted, launches, backend: `\`${scene.backend}\`` });
}

/** The sentence about what is picked out; see storyOf() in scene.js. */
export function pickSentence(words, scene, { selection, labels, became }) {
  if (selection.kind === "none") return words.said_none;
  const operators = listed(words, labels);
  const stage = scene.stages.find(({ id }) => id === selection.stage);
  const where = stage && { stage: stageName(words, stage, hasBackwardGraph(scene)), n: selection.index + 1, operators };
  const values = {
    what: where ? fill(labels.length ? words.line_of : words.line, where) : operators,
    kernel: `\`${became.kernel}\``,
    others: listed(words, became.others ?? []),
    kernels: listed(words, became.kernels ?? []),
    operators: listed(words, became.labels ?? []),
    numbers: became.numbers?.join(words.comma),
    names: listed(words, became.names ?? []),
    of: scene.launches.length,
  };
  const lines = scene.backend === "inductor" ? codeLines(scene.stages, selection) : 0;
  return [fill(words[`said_${became.word}`], values), lines && many(words.lines, lines)].filter(Boolean).join(words.gap);
}
