// The language switch: remember the choice for the page at the root of the site, and stay at the heading.

const KEY = "compile-kitchen.language";
const HEADINGS = ":is(h1, h2, h3, h4)[id]";

/** Remember the language; without storage (private mode) the root page asks the browser again. */
function remember(code) {
  try {
    localStorage.setItem(KEY, code);
  } catch {
    // Nothing to do: the switch itself works without it.
  }
}

/** The id of the heading the reader is at: the last one above the upper third of the window, "" at the top. */
export function currentHeading(root = document, height = window.innerHeight) {
  let current = "";
  for (const heading of root.querySelectorAll(`.md-content ${HEADINGS}`)) {
    if (heading.getBoundingClientRect().top > height / 3) break;
    current = heading.tagName === "H1" ? "" : heading.id;
  }
  return current;
}

/** This page's address in another language: the other code in place of this one, and a tool's state kept. */
export function counterpart(address, from, to, heading) {
  const url = new URL(address);
  url.pathname = url.pathname.replace(new RegExp(`/${from}/(?!.*/${from}/)`), `/${to}/`);
  url.hash = heading;
  for (const key of ["h", "q"]) url.searchParams.delete(key); // The theme's: words that were searched for.
  return url.href;
}

document.addEventListener("click", (event) => {
  const link = event.target instanceof Element && event.target.closest("a[data-ck-language]");
  if (!link) return;
  const code = link.dataset.ckLanguage;
  remember(code);
  const here = document.documentElement.lang;
  // The header is not replaced by instant navigation, so the link's own address may be an earlier page's.
  if (link.closest(".ck-languages") && code !== here) {
    link.href = counterpart(location.href, here, code, currentHeading());
  } else if (link.closest(".ck-languages")) {
    event.preventDefault(); // Already here.
  }
}, { capture: true });
