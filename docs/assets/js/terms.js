// A formula and its table of terms point at each other: hovering, focusing or tapping a symbol in one lights it
// up in the other. In a formula a term is \class{term-c}{T_c}; in the text it is an element with data-term="term-c".

const LIT = "ck-lit";

/** The name of the term that an element belongs to, or null. */
function termOf(target) {
  if (!(target instanceof Element)) return null;
  const named = target.closest("[data-term]");
  if (named) return named.dataset.term.replace(/^(?!term-)/, "term-");
  const drawn = target.closest("mjx-container [class*='term-']");
  return drawn ? [...drawn.classList].find((name) => name.startsWith("term-")) : null;
}

function show(term) {
  for (const element of document.querySelectorAll(`.${LIT}`)) element.classList.remove(LIT);
  if (!term) return;
  const name = CSS.escape(term);
  const bare = CSS.escape(term.replace(/^term-/, ""));
  const places = `mjx-container .${name}, [data-term="${name}"], [data-term="${bare}"]`;
  for (const element of document.querySelectorAll(places)) element.classList.add(LIT);
}

let kept = null; // A tapped term stays lit until the next tap: a phone has no hover.

document.addEventListener("pointerover", (event) => {
  if (event.pointerType === "mouse") show(termOf(event.target) ?? kept);
});
document.addEventListener("focusin", (event) => show(termOf(event.target) ?? kept));
document.addEventListener("focusout", () => show(kept));
document.addEventListener("click", (event) => {
  const term = termOf(event.target);
  kept = term === kept ? null : term;
  show(kept);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") show((kept = null));
});
