// Elements without markup in strings: text from a record can never become an element.

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** An HTML element: `h("p", { class: "x", onclick: f }, "text", child, [more])`. */
export const h = (name, attributes, ...children) => build(document.createElement(name), attributes, children);

/** An SVG element, in the same way. */
export const s = (name, attributes, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

/** Words with `code` between backticks, as nodes. */
export function withCode(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));
}

/**
 * "saves {n} steps" with {n} filled in; a name that is not given stays as it is. The space that Chinese wants beside
 * Latin words goes where Chinese is filled in.
 */
export function fill(text, values) {
  const filled = text.replace(/\{(\w+)\}/g, (whole, key) => (key in values ? String(values[key]) : whole));
  return filled === text ? text : filled.replace(/(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]) (?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])/g, "");
}

let last = 0;

/** An id that no other element has. */
export const freshId = (stem) => `ck-${stem}-${(last += 1)}`;

/** True where the reader asked for less motion. */
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
