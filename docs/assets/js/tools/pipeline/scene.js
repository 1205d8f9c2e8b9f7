// What the address asks for, looked up in the data: one graph of one example, as one back end sees it.
import { groupsOf, launchStage, launchesOf, phaseAt } from "./groups.js";
import { backendOf, describe, pickedLabels, selectionOf, stagesFor, visibleStages } from "./logic.js";
import { stagesAtStep, stepsOf } from "./walk.js";

/** { target, graph, graphs, route, stages, launches, steps } of a part; what it does not have falls back. */
export function sceneOf(part, { target: wanted, backend, graph: number }) {
  const target = part.targets[wanted] ? wanted : Object.keys(part.targets)[0];
  const { graphs } = part.targets[target];
  const graph = graphs[Math.min(number, graphs.length) - 1];
  const route = backendOf(part, target, backend);
  const launches = launchesOf(graph, backend, route);
  const own = stagesFor(graph, route);
  const stages = backend === "inductor" ? own : [...own, launchStage(launches)];
  return { target, graph, graphs, backend, route, stages, launches, steps: stepsOf(graph, stages, backend, route) };
}

/** What of a scene is in view: { step, phase, groups, visible, selection }. */
export function viewOf(scene, { step: wanted, shown, pick }, narrow) {
  const { graph, backend, route, stages, steps } = scene;
  const step = Math.min(wanted, steps.length);
  const phase = step ? phaseAt(steps[step - 1].stage) : "launches";
  return {
    step,
    phase,
    groups: groupsOf(graph, backend, route, phase),
    visible: step ? stagesAtStep(steps, step, { narrow }) : visibleStages(stages, shown, { narrow }),
    selection: selectionOf(graph, stages, pick),
  };
}

/** The phases of the picture that there are, in order, with how many groups each has and the step that shows it. */
export function phasesOf({ graph, backend, route, steps, launches }) {
  const first = (phase) => steps.findIndex(({ stage }) => phaseAt(stage) === phase) + 1;
  const last = (phase) => steps.findLastIndex(({ stage }) => phaseAt(stage) === phase) + 1;
  const before = ["calls", "operators", "loops"].map((phase) => (
    { phase, count: groupsOf(graph, backend, route, phase).length, step: phase === "calls" ? last(phase) : first(phase) }
  ));
  return [...before.filter(({ count, step }) => count && step), { phase: "launches", count: launches.length, step: 0 }];
}

/** What was picked and what became of it: { what, labels, became }; see describe(). */
export function storyOf({ graph, backend, launches }, selection) {
  return { selection, labels: pickedLabels(graph, selection), became: describe(graph, backend, launches, selection) };
}
