// The answer as sentences, from the sums of logic.js. Pure: words in, text out; code stands between backticks.
import { fill } from "../common/dom.js";
import { count, interval, number, quantity } from "../common/format.js";
import { didNotRun } from "./logic.js";

const known = (value) => value !== null && value !== undefined;

/** A variant's name: words for the plain model and for typed numbers, else code. */
export function nameOf(row, { words, plain }) {
  if (row.plain) return plain;
  if (row.variant === "compiled") return words.compiled;
  // "compile:eager" is the comparison tool's way to name the back end that its plain "eager" is not.
  return `\`${row.variant.replace(/^compile:/, "").replaceAll("`", "'")}\``;
}

/** "1.61×, 1.59–1.63×", or the ratio alone. */
export function ratioWords({ speedup_ratio: ratio, speedup_low: low, speedup_high: high }, words) {
  if (!known(ratio)) return "–";
  if (!known(low) || !known(high) || low === high) return quantity(ratio, "ratio");
  return fill(words.with_interval, { value: quantity(ratio, "ratio"), interval: interval(low, high, "ratio", ratio) });
}

/** The ends of N*: "18,400–23,500", "at least 18,400", or "" where there is no interval. */
export function rangeWords({ nStar, nLow, nHigh }, words) {
  if (!known(nLow) || (nLow === nStar && nHigh === nStar)) return "";
  if (!known(nHigh)) return fill(words.at_least, { low: count(nLow) });
  return `${count(nLow)}–${count(nHigh)}`;
}

/**
 * What to do, as a word: "pays" or "close" or "short" of a faster variant that is taken, nearly taken, not taken;
 * "other" and "simpler" where another compiled one is taken; "unrun" where the back end did not run the graph;
 * "slower", "same", "untold" and "untimed" where there is no N*.
 */
export function decide(focus, { chosen, best }) {
  if (!focus.timed) return "untimed";
  if (focus.verdict !== "faster") return { slower: "slower", "no difference": "same" }[focus.verdict] ?? "untold";
  if (didNotRun(focus.row)) return "unrun";
  if (chosen === focus) return "pays";
  if (!chosen || chosen.plain) return best === focus || focus.r > 1 ? "close" : "short";
  return chosen.total <= focus.total ? "other" : "simpler";
}

/** Whose numbers these are, and from what start: the beginning of the answer. */
function head({ words, kind, titles, start, compiles }) {
  const whose = { records: words.head_records, typed: words.head_typed, file: words.head_file }[kind];
  const parts = [fill(whose, titles)];
  if (kind !== "typed") parts.push({ cold: words.start_cold, warm: words.start_warm }[start]);
  if (compiles > 1) parts.push(fill(words.head_compiles, { k: number(compiles, { places: 0 }) }));
  return parts.filter(Boolean).join(words.comma);
}

/** Whether the variant ever pays, and from which N on. */
function whether(focus, how, about) {
  const { words } = about;
  const name = nameOf(focus.row, about);
  const values = { variant: name, ratio: ratioWords(focus.row, words) };
  if (how === "untimed") {
    const reason = focus.row.note_words ?? focus.row.note ?? about.failures[focus.row.failure] ?? focus.row.failure ?? words.no_reason;
    return fill(words.untimed, { ...values, status: about.statuses[focus.row.status] ?? focus.row.status, reason });
  }
  if (how === "slower") return fill(words.never_slower, values);
  if (how === "same") return fill(words.never_same, values);
  if (how === "untold") return fill(words.untold, values);
  const range = rangeWords(focus, words);
  const pays = focus.nStar <= 1
    ? fill(words.pays_at_once, values)
    : fill(words.pays, { ...values, n: count(focus.nStar), range: range && fill(words.range, { range }) });
  if (how !== "unrun") return pays;
  return pays + words.space + fill(words.unrun, { ...values, reason: focus.row.ran_words ?? focus.row.ran });
}

/** What that means for this N. */
function atThisN(focus, how, about) {
  const { words, result, steps } = about;
  const { plain, chosen } = result;
  const values = {
    n: number(steps, { places: 0 }), plain: quantity(plain.total, "s"),
    r: known(focus.r) ? number(focus.r) : "–", total: known(focus.total) ? quantity(focus.total, "s") : "–",
  };
  if (chosen && !chosen.plain && chosen !== focus) {
    const other = { ...values, other: nameOf(chosen.row, about), other_total: quantity(chosen.total, "s") };
    if (how === "other") return fill(words.at_other, other);
    if (how === "simpler") return fill(words.at_simpler, other);
    return fill(words.take_other, other);
  }
  if (how === "pays") return fill(words.at_pays, values);
  if (how === "close") return fill(words.at_close, values);
  if (how === "short") return fill(words.at_short, values);
  if (how === "slower") return fill(words.at_slower, values);
  return how === "same" ? words.do_not : words.plain_wins;
}

/** What the jobs cost: only where there is a price. */
function costs(focus, { words, result, price }) {
  if (!(price > 0)) return null;
  const [mine, plain] = [focus.cost, result.plain.cost].map((cost) => (known(cost) ? number(cost) : null));
  return mine === null ? fill(words.cost_plain, { plain }) : fill(words.cost, { cost: mine, plain });
}

/**
 * The sentences of the answer. `about`: { words, plain, statuses, failures, kind, titles, start, compiles, steps, price, result }.
 */
export function sentences(focus, about) {
  const { words, result } = about;
  if (!result.plain || !focus) return [words.nothing];
  const how = decide(focus, result);
  const first = `${head(about)}${words.colon}${whether(focus, how, about)}`;
  return [first, atThisN(focus, how, about), costs(focus, about)].filter(Boolean);
}
