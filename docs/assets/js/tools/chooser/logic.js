// The chooser's rules applied: which one fits, what is still open, what to ask next. No page here.
// kitchen/chooser.py does the same; tests/test_tool_chooser.py holds one to the other over all combinations of answers.

/** True where every condition holds; an open question fits none. */
export const fits = (when, answers) =>
  Object.entries(when ?? {}).every(([question, values]) => values.includes(answers[question]));

/** The first rule that fits a full set of answers. */
export const ruleFor = (rules, answers) => rules.find((rule) => fits(rule.when, answers));

/** `answers` with the cautious one for each question that is open. */
export const assumed = (questions, answers) =>
  Object.fromEntries(questions.map(({ id, assume }) => [id, answers[id] ?? assume]));

/** Every full set of answers that `answers` may become, as lists of answers in the order of the questions. */
export function completions(questions, answers) {
  let found = [[]];
  for (const { id, answers: all } of questions) {
    const values = answers[id] === undefined ? all.map((answer) => answer.id) : [answers[id]];
    found = found.flatMap((start) => values.map((value) => [...start, value]));
  }
  return found;
}

/**
 * What is left open: `possible`, the ids of the rules that may still be taken, and `matters`, the questions whose
 * answer can still change which one is.
 */
export function survey(questions, rules, answers) {
  const all = completions(questions, answers).map((values) => {
    const full = Object.fromEntries(values.map((value, index) => [questions[index].id, value]));
    return { values, rule: ruleFor(rules, full).id };
  });
  const taken = new Set(all.map(({ rule }) => rule));
  const matters = questions.filter(({ id }, place) => {
    if (answers[id] !== undefined) return false;
    const seen = new Map();
    return all.some(({ values, rule }) => {
      const rest = values.toSpliced(place, 1).join();
      const known = seen.get(rest);
      if (known === undefined) seen.set(rest, rule);
      return known !== undefined && known !== rule;
    });
  });
  return { possible: rules.filter(({ id }) => taken.has(id)).map(({ id }) => id), matters: matters.map(({ id }) => id) };
}

/** What a reader said, without "don't know": the answers that rules are applied to. */
export const given = (state) =>
  Object.fromEntries(Object.entries(state).filter(([, value]) => value !== "" && value !== SKIPPED));

/** The value of a question that a reader can't answer. */
export const SKIPPED = "unknown";

/** From so many answers on a first recommendation is worth showing. */
export const ENOUGH = 3;

/**
 * Where a reader stands. `state`: an answer, SKIPPED or "" for each question. Gives the question to ask next (or
 * undefined), the rule taken with the answers assumed for what is open, and whether anything can still change it.
 */
export function stand(questions, rules, state) {
  const answers = given(state);
  const { possible, matters } = survey(questions, rules, answers);
  const full = assumed(questions, answers);
  const asked = questions.filter(({ id }) => state[id] !== "");
  const next = questions.find(({ id }) => state[id] === "" && matters.includes(id));
  return {
    answers,
    full,
    possible,
    matters,
    next,
    asked: asked.map(({ id }) => id),
    rule: ruleFor(rules, full),
    firm: possible.length === 1,
    ready: next === undefined || asked.length >= ENOUGH,
    // What the answer rests on besides what was said: only what could change it.
    assumptions: matters.map((id) => [id, full[id]]),
  };
}

/** The state without its last answer; questions are taken back in the order in which they were asked. */
export function back(questions, state) {
  const last = questions.findLast(({ id }) => state[id] !== "");
  return last ? { ...state, [last.id]: "" } : state;
}

/** A call or code with what the answers put into it. */
export function codeOf(text, questions, full) {
  const steps = questions.find(({ id }) => id === "steps").answers.find(({ id }) => id === full.steps).n;
  return text.replaceAll("{steps}", String(steps)).replaceAll("{training}", full.workload === "training" ? " --training" : "");
}

/** The pieces of code of a recommendation for these answers. */
export const blocksFor = (recommendation, questions, full) =>
  recommendation.code
    .filter((block) => fits(block.when, full))
    .map((block) => ({ ...block, text: codeOf(block.text, questions, full) }));

/** What stands for these answers: the items of a rule's evidence, or its sentences. */
export const standing = (items, full) => items.filter((item) => fits(item.when, full));

const DEVICES = { cpu: "cpu", nvidia: "cuda" };

/** True where an item was measured only on another kind of device than the one that was asked about. */
export const elsewhere = (item, full) =>
  item.machines.length > 0 && item.machines.every(({ device }) => device !== DEVICES[full.hardware]);
