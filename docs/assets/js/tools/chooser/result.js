// What the chooser shows for the rule that was taken: what to write, why, the measured rows, the risk, code to copy.
import { button, copyButton } from "../common/controls.js";
import { fill, h, withCode } from "../common/dom.js";
import { blocksFor, codeOf, elsewhere, standing } from "./logic.js";

const part = (title, ...content) => h("section", { class: "ck-chooser__part" }, h("h3", {}, title), content);
const box = (label, ...content) => h("div", { class: "ck-scroll", tabindex: 0, role: "region", "aria-label": label }, content);
const value = ({ value: text, interval }) => [text, interval ? h("small", { class: "ck-spread" }, interval) : null];

function table(label, heads, rows) {
  return box(label, h("table", { class: "ck-table" },
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", title: head.meaning || null, class: head.text ? null : "num" }, head.label)))),
    h("tbody", {}, rows)));
}

/** Who measured it, with the record; of several records each row links its own. */
function source({ machine, torch, date, record, stale }, words, addresses) {
  return h("p", { class: "ck-provenance" }, fill(words.provenance, { machine, torch, date }),
    record ? [" · ", h("a", { href: addresses.file(record) }, words.record)] : null, stale ? ` · ${words.stale}` : null);
}

function rowsOf(item, words, addresses) {
  const heads = [{ label: words.row, text: true }, ...item.columns];
  return item.machines.flatMap((machine) => [
    table(`${item.say}, ${machine.machine}`, heads, machine.rows.map((row) => h("tr", {},
      h("th", { scope: "row" }, row.name),
      row.note ? h("td", { colspan: item.columns.length, class: "muted" }, row.note) : row.cells.map((cell) => h("td", { class: "num" }, value(cell)))))),
    source(machine, words, addresses),
  ]);
}

/** What an item of evidence is about. */
function titleOf(item, words) {
  if (item.kind === "rows") return item.say;
  if (item.kind === "least_total") return fill(words.least_total, item);
  return fill(words[`title_${item.workload}`], { steps: item.steps, start: words[`from_${item.start}`] });
}

function winnersOf(item, words, addresses) {
  const heads = [{ label: words.model, text: true }, { label: words.wins, text: true }, { label: words.speedup }, { label: words.verdict, text: true },
    { label: words.break_even }, { label: words.payoff }, { label: words.record, text: true }];
  return item.machines.flatMap((machine) => {
    const address = ({ id }) =>
      `${addresses.page("tools/calculator/")}?${new URLSearchParams({ machine: machine.name, model: id, work: item.workload, n: item.n, start: item.start })}`;
    const one = machine.total === 1;
    const cases = table(`${titleOf(item, words)}, ${machine.machine}`, heads, machine.cases.map((row) => h("tr", {},
      h("th", { scope: "row" }, row.model),
      h("td", {}, row.wins === "eager" ? words.not_compiled : h("code", {}, row.wins)),
      h("td", { class: "num" }, value(row.speedup)),
      h("td", {}, row.verdict),
      h("td", { class: "num" }, value(row.break_even)),
      h("td", { class: "num" }, row.r),
      h("td", {}, h("a", { href: addresses.file(row.record), "aria-label": `${words.record}${words.colon}${row.model}` }, words.record), " · ",
        h("a", { href: address(row), "aria-label": `${words.in_calculator}${words.colon}${row.model}` }, words.in_calculator)))));
    return [
      one ? null : h("p", { class: "ck-verdict" }, fill(words.winners, machine), machine.least ? fill(words.least, machine.least) : null),
      one ? cases : h("details", { class: "ck-chooser__more" }, h("summary", {}, words.each_model), cases),
      source(machine, words, addresses),
    ];
  });
}

function totalsOf(item, words, addresses) {
  return item.machines.flatMap((machine) => [
    table(`${titleOf(item, words)}, ${machine.machine}`, [{ label: words.strategy, text: true }, { label: words.total }],
      machine.ranked.map((one) => h("tr", {}, h("th", { scope: "row" }, one.name), h("td", { class: "num" }, one.total)))),
    source(machine, words, addresses),
  ]);
}

const SHOW = { rows: rowsOf, winners: winnersOf, least_total: totalsOf };

function evidence(rule, full, words, addresses) {
  const items = standing(rule.evidence, full);
  // A gap is told once; it is filled as soon as a record of such a machine is there.
  const filled = items.some((item) => item.device === "cuda" && item.machines.length > 0);
  const gap = rule.unmeasured && !filled ? h("p", { class: "ck-chooser__gap" }, withCode(rule.unmeasured)) : null;
  const known = items.filter((item) => item.machines.length > 0);
  if (known.length === 0) return [gap ?? h("p", { class: "ck-chooser__gap" }, words.no_record)];
  return [gap, known.map((item) => h("div", { class: "ck-chooser__evidence" },
    h("h4", {}, titleOf(item, words)),
    elsewhere(item, full) ? h("p", { class: "ck-chooser__gap" }, words.elsewhere) : null,
    SHOW[item.kind](item, words, addresses),
    h("p", { class: "ck-chooser__page" }, h("a", { href: addresses.page(item.page.url) }, fill(words.on_page, item.page)))))];
}

function code(blocks, n, words, addresses) {
  const tool = blocks.some(({ text }) => text.includes("compare_backends.py"));
  return [
    blocks.map(({ file, runs, text }) => h("figure", { class: "ck-chooser__code" },
      h("figcaption", {}, h("code", {}, file), h("span", {}, words[`runs_${runs}`]),
        copyButton(fill(words.copy_file, { file }), words.copied, () => text)),
      h("pre", {}, h("code", { tabindex: 0, role: "region", "aria-label": file }, text)))),
    tool ? h("p", {}, fill(words.tool_file, { n }), h("a", { href: addresses.file("snippets/measuring/compare_backends.py"), download: true }, words.download)) : null,
  ];
}

/** A line of code that breaks between words, not at a hyphen, as far as a phone is wide. */
const unbroken = (text) => text.split(/( )/).map((word) => (word.length <= 30 && word !== " " ? h("span", { class: "ck-chooser__flag" }, word) : word));

/** The rule that was taken, in words, with its place in the list. */
function fired(rule, { questions, rules, words }) {
  const conditions = questions.filter(({ id }) => rule.when[id]).map(({ id, short, answers }) => {
    const all = answers.filter((answer) => rule.when[id].includes(answer.id)).map((answer) => answer.short);
    return `${short}${words.colon}${all.join(" / ")}`;
  });
  return h("p", { class: "ck-chooser__rule" },
    fill(words.fired, { n: rules.indexOf(rule) + 1, total: rules.length, conditions: conditions.join(words.listed) }), h("a", { href: `#rule-${rule.id}` }, words.fired_link));
}

/** Titles of the recommendations that may still be taken, each once. */
function stillPossible({ rules, recommendations, words }, at) {
  const takes = new Set(rules.filter(({ id }) => at.possible.includes(id)).map(({ take }) => take));
  return h("details", { class: "ck-chooser__more", open: !at.ready && takes.size <= 6 },
    h("summary", {}, fill(words.possible, { n: takes.size })),
    h("ul", {}, recommendations.filter(({ id }) => takes.has(id)).map(({ title }) => h("li", {}, title))));
}

function assumptions({ questions, words }, at, actions) {
  return h("div", { class: "ck-chooser__assumed" },
    h("h3", {}, words.assuming),
    h("p", {}, words.assuming_note),
    h("ul", {}, at.assumptions.map(([id, answer]) => {
      const question = questions.find((one) => one.id === id);
      const { short } = question.answers.find((one) => one.id === answer);
      return h("li", {}, button([`${question.short}${words.colon}`, h("b", {}, short)], () => actions.answer(id),
        { "data-assumed": id, "aria-label": `${question.short}${words.colon}${short}. ${fill(words.answer_this, { question: question.ask.replaceAll("`", "") })}` }));
    })));
}

/** Everything under the answer: nodes that stand beside the question, and nodes below both. */
export function result(payload, at, addresses, actions) {
  const { words, questions, recommendations } = payload;
  if (!at.ready) return { beside: [stillPossible(payload, at)], below: [] };
  const { rule, full } = at;
  const take = recommendations.find(({ id }) => id === rule.take);
  const whyNot = standing(rule.whyNot, full);
  const beside = [
    h("div", { class: "ck-chooser__write" }, h("h3", {}, words.write),
      take.call ? h("pre", {}, h("code", {}, unbroken(codeOf(take.call, questions, full)))) : h("p", {}, h("strong", {}, words.dont))),
    ...(at.firm ? [] : [assumptions(payload, at, actions), stillPossible(payload, at)]),
    part(words.why, h("p", {}, withCode(rule.because)), whyNot.map(({ text }) => h("p", { class: "ck-chooser__why-not" }, withCode(text)))),
    part(words.risk, h("p", {}, withCode(rule.risk))),
  ];
  const below = [
    part(words.code, code(blocksFor(take, questions, full), codeOf("{steps}", questions, full), words, addresses)),
    rule.evidence.length > 0 || rule.unmeasured ? part(words.measured, evidence(rule, full, words, addresses)) : null,
    part(words.more, h("ul", {}, take.more.map(({ url, title }) => h("li", {}, h("a", { href: addresses.page(url) }, title)))), fired(rule, payload)),
    h("div", { class: "ck-chooser__buttons" }, copyButton(words.copy_link, words.link_copied, actions.link), button(words.print, () => window.print())),
  ].filter(Boolean);
  return { beside, below };
}
