// What the address asks for, looked up in the data: one graph of one example, as one back end sees it.
import { groupsOf, launchCount, launchesOf, phaseAt } from "./groups.js";
import { backendOf, describe, pickedLabels, selectionOf, stagesFor, visibleStages } from "./logic.js";
import { stagesAtStep, stepsOf } from "./walk.js";

/** { target, graph, graphs, backend, route, stages, launches, count, steps } of a part; what it does not have falls back. */
export function sceneOf(part, { target: wanted, backend, graph: number }) {
  const there = Object.keys(part.targets).filter((id) => part.targets[id].graphs.length);
  const target = there.includes(wanted) ? wanted : there[0];
  const { graphs } = part.targets[target];
  const graph = graphs[Math.min(number, graphs.length) - 1];
  const route = backendOf(part, target, backend);
  const stages = stagesFor(graph, route);
  const launches = launchesOf(graph, backend);
  const steps = stepsOf(graph, stages, backend);
  const count = launchCount(launches, backend, target);
  return { target, graph, graphs, backend, route, stages, launches, count, steps };
}

/** What of a scene is in view: { step, phase, groups, visible, selection }. */
export function viewOf(scene, { step: wanted, shown, pick }, narrow) {
  const { graph, backend, stages, steps } = scene;
  const step = Math.min(wanted, steps.length);
  const phase = step ? phaseAt(steps[step - 1].stage) : "launches";
  return {
    step,
    phase,
    groups: groupsOf(graph, backend, phase),
    visible: step ? stagesAtStep(steps, step, { narrow }) : visibleStages(stages, shown, { narrow }),
    selection: selectionOf(graph, stages, pick),
  };
}

/**
 * The phases of the picture that there are, in order: { phase, count, step }. `step` shows it. Rewrites that leave as
 * many operators are not told apart.
 */
export function phasesOf({ graph, backend, steps, count }) {
  const at = ({ stage }, phase) => phaseAt(stage) === phase;
  const stepOf = (phase) => (phase === "calls" ? steps.findLastIndex((one) => at(one, phase)) : steps.findIndex((one) => at(one, phase))) + 1;
  const before = ["calls", "operators", "rewrites", "loops"]
    .map((phase) => ({ phase, count: groupsOf(graph, backend, phase).length, step: stepOf(phase) }))
    .filter((one) => one.count && one.step);
  const same = (one, index) => one.phase === "rewrites" && before[index - 1]?.count === one.count;
  return [...before.filter((one, index) => !same(one, index)), { phase: "launches", count, step: 0 }];
}

/** The phase of the chain that stands for the one in view. */
export const phaseShown = (phases, phase) => (phases.some((one) => one.phase === phase) ? phase : "operators");

/** What was picked and what became of it: { what, labels, became }; see describe(). */
export function storyOf({ graph, backend, target, launches }, selection) {
  const became = describe(graph, backend, launches, selection);
  const replayed = target === "cuda" && backend === "cudagraphs" && became.numbers;
  return { selection, labels: pickedLabels(graph, selection), became: replayed ? { ...became, word: "replayed" } : became };
}
