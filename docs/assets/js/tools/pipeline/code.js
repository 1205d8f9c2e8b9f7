// Code in a few colours: comments, strings, numbers and words of the language. A line at a time, which is enough here.

const WORDS = {
  python: "and as assert async await class def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield",
  cpp: "alignas auto bool break case char class const constexpr continue default do double else enum extern false float for if inline int int32_t int64_t long namespace new nullptr operator return short signed size_t sizeof static static_cast struct switch template this true typename uint32_t unsigned using void while",
  text: "",
};
const COMMENTS = { python: "#.*", cpp: "//.*|#\\s*(?:include|pragma|define|undef|if|endif|else)\\b.*", text: "(?!)" };
// What a graph prints after a call: ";  x = None" frees a name, and says nothing else.
const FREED = ";\\s+(?:\\w+\\s*=\\s*)+None\\b.*";

const RULES = Object.fromEntries(Object.entries(WORDS).map(([language, reserved]) => [language, {
  keywords: new Set(reserved.split(" ")),
  pattern: new RegExp([
    `(?<freed>${language === "python" ? FREED : "(?!)"})`,
    `(?<comment>${COMMENTS[language]})`,
    `(?<string>"(?:[^"\\\\]|\\\\.)*"|'(?:[^'\\\\]|\\\\.)*')`,
    "(?<digits>\\b\\d[\\w.]*(?:[eE][+-]?\\d+)?)",
    "(?<word>[A-Za-z_]\\w*)",
  ].join("|"), "g"),
}]));

/** A line in pieces: [[kind, text], …] with kind "", "keyword", "string", "digits", "comment" or "freed". */
export function pieces(text, language) {
  const { keywords, pattern } = RULES[language] ?? RULES.text;
  const found = [];
  const put = (kind, piece) => {
    if (!piece) return;
    if (found.at(-1)?.[0] === kind) found.at(-1)[1] += piece;
    else found.push([kind, piece]);
  };
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    put("", text.slice(end, match.index));
    const [kind] = Object.entries(match.groups).find(([, value]) => value !== undefined);
    put(kind === "word" ? (keywords.has(match[0]) ? "keyword" : "") : kind, match[0]);
    end = match.index + match[0].length;
  }
  put("", text.slice(end));
  return found;
}
