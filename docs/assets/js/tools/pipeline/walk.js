// The walk through the stages without a page: one step a stage, with what to say of it.
import { callsOf, launchesOf, loopsOf, operatorsOf } from "./groups.js";
import { baseOf, passOf } from "./logic.js";

/** The checks among the guards: not the lines that only group them; a line may stand for several. */
function guardsOf(graph) {
  const lines = graph.stages.find(({ id }) => id === "guards")?.lines ?? [];
  return lines.reduce((sum, { text }) => {
    const more = /\+- \.\.\. and (\d+) more/.exec(text);
    return sum + (more ? Number(more[1]) : Number(/\+- [A-Z_]+:/.test(text)));
  }, 0);
}

/** How many there are of what, on the way of one pass ("fw" or "bw") through the stages. */
export function countsOf(graph, backend, pass) {
  const ofPass = (groups) => groups.filter((group) => group.pass === pass).length;
  const lines = (id) => graph.stages.find((stage) => stage.id === id)?.lines.filter(({ text }) => text.trim()).length ?? 0;
  return {
    calls: callsOf(graph).length,
    instructions: lines("bytecode"),
    rewritten: lines("rewritten"),
    guards: guardsOf(graph),
    operators: ofPass(operatorsOf(graph)),
    remaining: ofPass(operatorsOf(graph, "post")),
    loops: ofPass(loopsOf(graph)),
    launches: ofPass(launchesOf(graph, backend)),
  };
}

/** The steps of the walk: { stage, base, pass, counts }. The words of a step are those of its base. */
export const stepsOf = (graph, stages, backend) => stages.map(({ id }) => (
  { stage: id, base: baseOf(id), pass: passOf(id), counts: countsOf(graph, backend, passOf(id)) }
));

/** The stages to stand side by side at a step: the one it is about, after the one it was made from. */
export function stagesAtStep(steps, number, { narrow = false } = {}) {
  const beside = steps.map(({ stage }) => stage).filter((id) => id !== "source");
  const current = steps[number - 1].stage;
  const index = beside.indexOf(current);
  if (index < 0) return beside.slice(0, 1);
  return narrow ? [current] : beside.slice(Math.max(0, index - 1), index + 1);
}

/** How long a sentence stands, in milliseconds: three seconds, and what reading it takes. */
export const readingTime = (text) => 3000 + 45 * text.length * (/[\u4e00-\u9fff]/.test(text) ? 2.5 : 1);
