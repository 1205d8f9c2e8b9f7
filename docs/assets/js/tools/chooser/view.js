// The chooser on its page: one question at a time on the left, what it comes to on the right.
import { button } from "../common/controls.js";
import { calm, fill, h, withCode } from "../common/dom.js";
import { open } from "../common/state.js";
import { back, given, SKIPPED, stand } from "./logic.js";
import { result } from "./result.js";

const blank = (questions) => Object.fromEntries(questions.map(({ id }) => [id, ""]));

/** The words of an answer of a question. */
const said = (question, id, words) =>
  id === SKIPPED ? words.unknown : question.answers.find((answer) => answer.id === id).say;

/** One question with its answers as buttons; `pick(id)` is told. */
function card(question, number, left, words, pick) {
  const title = h("h2", { class: "ck-chooser__question", tabindex: -1 }, withCode(question.ask));
  const count = left > 0 ? fill(words.left, { n: left }) : words.left_one;
  return h("div", { class: "ck-chooser__card", role: "group" },
    h("p", { class: "ck-chooser__count" }, `${fill(words.question, { n: number })} · ${count}`),
    title,
    h("p", { class: "ck-chooser__hint" }, withCode(question.hint)),
    h("div", { class: "ck-chooser__choices" },
      question.answers.map(({ id, say }) => button(withCode(say), () => pick(id), { class: "ck-button ck-chooser__choice", "data-answer": id })),
      button(words.unknown, () => pick(SKIPPED), { class: "ck-button ck-chooser__choice ck-chooser__choice--unknown", "data-answer": SKIPPED })));
}

/** What was said so far; each answer can be taken back. */
function answered(questions, state, words, change) {
  const mine = questions.filter(({ id }) => state[id] !== "");
  if (mine.length === 0) return null;
  return h("div", { class: "ck-chooser__answers" },
    h("h3", {}, words.yours),
    h("ul", {}, mine.map((question) => h("li", {},
      h("button", {
        type: "button", class: "ck-chooser__answer", "data-question": question.id,
        "aria-label": `${question.short}${words.colon}${said(question, state[question.id], words)}. ${fill(words.change, { question: question.short })}`,
        onclick: () => change(question.id),
      }, h("span", {}, question.short), h("b", {}, said(question, state[question.id], words)))))));
}

/** Mark the rule that was taken in the list on the page. */
function mark(rule) {
  for (const line of document.querySelectorAll("[data-ck-rule]")) {
    const taken = line.dataset.ckRule === rule?.id;
    line.classList.toggle("ck-rules__taken", taken);
    if (taken) line.setAttribute("aria-current", "true");
    else line.removeAttribute("aria-current");
  }
}

/** The chooser: draws at once, and again after each answer. */
export function mount(place, payload) {
  const { words, questions, rules } = payload;
  const spec = Object.fromEntries(questions.map(({ id, answers }) =>
    [id, { kind: "choice", of: [...answers.map((answer) => answer.id), SKIPPED], fallback: "" }]));
  const source = new URL(place.dataset.ckSource, location.href);
  const addresses = {
    page: (path) => new URL(path, new URL("../../", source)).href,
    file: (path) => new URL(path, new URL("../../../", source)).href,
  };

  const answer = h("p", { class: "ck-tool__answer", "aria-live": "polite" });
  const bar = h("progress", { "aria-label": words.title });
  const ask = h("div", { class: "ck-chooser__ask" });
  const shown = h("div", { class: "ck-chooser__result" });
  const more = h("div", { class: "ck-chooser__below" });
  const goBack = button(words.back, () => { focusNext = true; state.set(back(questions, state.get())); });
  const restart = button(words.restart, () => { focusNext = true; state.set(blank(questions)); });
  const left = h("div", { class: "ck-chooser__left" }, bar, ask, h("div", { class: "ck-chooser__buttons" }, goBack, restart));
  place.append(h("div", { class: "ck-chooser" }, left, h("div", { class: "ck-chooser__right" }, answer, shown), more));

  let focusNext = false;
  const state = open(spec, place);
  const pick = (id) => (value) => { focusNext = true; state.set({ [id]: value }); };
  // A question that is asked again comes first, whatever else is open.
  let again;
  const change = (id) => { again = id; focusNext = true; draw(state.get()); };
  const actions = {
    answer: change,
    link: () => state.link(),
  };

  function draw(now) {
    const at = stand(questions, rules, now);
    const question = questions.find(({ id }) => id === again) ?? at.next;
    const asked = at.asked.filter((id) => id !== question?.id);
    bar.max = asked.length + (at.firm ? 0 : at.matters.length) || 1;
    bar.value = at.firm ? bar.max : asked.length;
    const others = at.matters.filter((id) => id !== question?.id && now[id] === "").length;
    const done = at.firm ? words.settled : words.asked_all;
    ask.replaceChildren(
      question
        ? card(question, asked.length + 1, others, words, (value) => { again = undefined; pick(question.id)(value); if (now[question.id] === value) draw(state.get()); })
        : h("p", { class: "ck-chooser__done", tabindex: -1 }, done),
      ...[answered(questions, now, words, change)].filter(Boolean));
    goBack.disabled = restart.disabled = Object.keys(given(now)).length === 0 && at.asked.length === 0;
    const take = payload.recommendations.find(({ id }) => id === at.rule.take);
    answer.replaceChildren(...withCode(at.ready ? fill(at.firm ? words.recommended : words.so_far, { title: take.title }) : words.first_three));
    const { beside, below } = result(payload, at, addresses, actions);
    shown.replaceChildren(...beside);
    more.replaceChildren(...below);
    mark(at.ready ? at.rule : undefined);
    if (focusNext) {
      focusNext = false;
      const target = ask.querySelector(".ck-chooser__question, .ck-chooser__done");
      target.focus({ preventScroll: true });
      const { top } = left.getBoundingClientRect();
      if (top < 0 || top > innerHeight * 0.6) left.scrollIntoView({ behavior: calm() ? "auto" : "smooth", block: "start" });
    }
  }
  state.watch((now) => { again = undefined; draw(now); });
}

