import assert from "node:assert/strict";
import { test } from "node:test";

import {
  assumed, back, blocksFor, codeOf, completions, elsewhere, fits, given, ruleFor, stand, standing, survey,
} from "../../docs/assets/js/tools/chooser/logic.js";

// A small kitchen: guests first; a party never cares for the oven.
const QUESTIONS = [
  { id: "steps", assume: "few", answers: [{ id: "few", n: 300 }, { id: "many", n: 10000 }] },
  { id: "oven", assume: "none", answers: [{ id: "none" }, { id: "gas" }, { id: "wood" }] },
  { id: "workload", assume: "inference", answers: [{ id: "inference" }, { id: "training" }] },
];
const RULES = [
  { id: "party", when: { steps: ["many"] } },
  { id: "raw", when: { oven: ["none"] } },
  { id: "school", when: { oven: ["gas", "wood"], workload: ["training"] } },
  { id: "baked", when: {} },
];
const START = { steps: "", oven: "", workload: "" };
const at = (state) => stand(QUESTIONS, RULES, { ...START, ...state });

test("a condition that is not answered does not fit", () => {
  assert.equal(fits({ oven: ["gas"] }, {}), false);
  assert.equal(fits({ oven: ["gas", "wood"] }, { oven: "wood" }), true);
  assert.equal(fits({}, {}), true);
  assert.equal(fits(undefined, {}), true);
});

test("the first rule that fits is taken", () => {
  assert.equal(ruleFor(RULES, { steps: "many", oven: "none", workload: "training" }).id, "party");
  assert.equal(ruleFor(RULES, { steps: "few", oven: "wood", workload: "inference" }).id, "baked");
});

test("completions are all that the answers may become", () => {
  assert.equal(completions(QUESTIONS, {}).length, 12);
  assert.deepEqual(completions(QUESTIONS, { steps: "few", oven: "gas" }), [["few", "gas", "inference"], ["few", "gas", "training"]]);
});

test("a question matters while its answer can change the rule", () => {
  assert.deepEqual(survey(QUESTIONS, RULES, {}), { possible: ["party", "raw", "school", "baked"], matters: ["steps", "oven", "workload"] });
  assert.deepEqual(survey(QUESTIONS, RULES, { steps: "many" }), { possible: ["party"], matters: [] });
  assert.deepEqual(survey(QUESTIONS, RULES, { steps: "few", oven: "gas" }), { possible: ["school", "baked"], matters: ["workload"] });
});

test("questions that no longer matter are not asked", () => {
  assert.equal(at({}).next.id, "steps");
  const party = at({ steps: "many" });
  assert.equal(party.next, undefined);
  assert.deepEqual([party.firm, party.ready, party.rule.id], [true, true, "party"]);
  assert.equal(at({ steps: "few", oven: "wood" }).next.id, "workload");
});

test("what is skipped stays open, is not asked again, and is assumed", () => {
  const unsure = at({ steps: "few", oven: "unknown" });
  assert.deepEqual(given({ ...START, oven: "unknown" }), {});
  assert.equal(unsure.next.id, "workload");
  const end = at({ steps: "few", oven: "unknown", workload: "training" });
  assert.equal(end.next, undefined);
  assert.deepEqual([end.firm, end.ready, end.rule.id], [false, true, "raw"]);
  assert.deepEqual(end.assumptions, [["oven", "none"]]);
  assert.deepEqual(end.possible, ["raw", "school"]);
});

test("a recommendation is not shown before three answers unless nothing can change it", () => {
  assert.deepEqual([at({}).ready, at({ steps: "few" }).ready], [false, false]);
  assert.equal(at({ steps: "unknown", oven: "unknown" }).ready, false);
});

test("assumed leaves what was said", () => {
  assert.deepEqual(assumed(QUESTIONS, { oven: "gas" }), { steps: "few", oven: "gas", workload: "inference" });
});

test("back takes the last answer away, and nothing from the start", () => {
  assert.deepEqual(back(QUESTIONS, { ...START, steps: "few", oven: "gas" }), { ...START, steps: "few" });
  assert.deepEqual(back(QUESTIONS, { ...START, steps: "unknown" }), START);
  assert.deepEqual(back(QUESTIONS, START), START);
});

test("code gets the steps and the flag", () => {
  const text = "tool --steps {steps}{training}";
  assert.equal(codeOf(text, QUESTIONS, { steps: "many", workload: "training" }), "tool --steps 10000 --training");
  assert.equal(codeOf(text, QUESTIONS, { steps: "few", workload: "inference" }), "tool --steps 300");
});

test("blocks and evidence are those of the answers", () => {
  const recommendation = { code: [{ file: "a", text: "x" }, { file: "b", when: { workload: ["training"] }, text: "{steps}" }] };
  const files = (full) => blocksFor(recommendation, QUESTIONS, full).map(({ file }) => file);
  assert.deepEqual(files({ steps: "few", workload: "inference" }), ["a"]);
  assert.deepEqual(files({ steps: "few", workload: "training" }), ["a", "b"]);
  assert.equal(standing([{ when: { steps: ["few"] } }, {}], { steps: "many" }).length, 1);
});

test("numbers from another kind of device are known as such", () => {
  const cpu = { machines: [{ device: "cpu" }] };
  assert.equal(elsewhere(cpu, { hardware: "nvidia" }), true);
  assert.equal(elsewhere(cpu, { hardware: "cpu" }), false);
  assert.equal(elsewhere({ machines: [{ device: "cuda" }] }, { hardware: "cpu" }), true);
  assert.equal(elsewhere({ machines: [{ device: "cuda" }] }, { hardware: "other" }), true);
  assert.equal(elsewhere({ machines: [{ device: "cpu" }, { device: "cuda" }] }, { hardware: "nvidia" }), false);
  assert.equal(elsewhere({ machines: [] }, { hardware: "nvidia" }), false);
});
