// Sentences from words and counts. "1 kernel|{n} kernels" holds both numbers; a language with one form has no "|".
import { fill } from "../common/dom.js";

/** The words for a number of things. */
export function many(forms, n) {
  const [one, other = one] = forms.split("|");
  return fill(n === 1 ? one : other, { n });
}

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
