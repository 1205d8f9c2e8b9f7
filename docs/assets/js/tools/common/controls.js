// Controls: the browser's own, with a label each, so that mouse, touch, keyboard and screen reader work by themselves.
import { freshId, h } from "./dom.js";

const labelled = (label, control, extra = []) => {
  control.id ||= freshId("control");
  return h("div", { class: "ck-control" }, h("label", { for: control.id }, label), control, extra);
};

/** A list to choose from: `options` are [value, words]. Returns { element, show(value) }. */
export function select(label, options, onChange) {
  const control = h("select", { onchange: () => onChange(control.value) },
    options.map(([value, words]) => h("option", { value }, words)));
  return {
    element: labelled(label, control),
    show: (value) => { control.value = value; },
    /** Offer other options. */
    offer: (next) => control.replaceChildren(...next.map(([value, words]) => h("option", { value }, words))),
  };
}

/** Radio buttons in one line. Returns { element, show(value) }. */
export function choices(label, options, onChange) {
  const name = freshId("choice");
  const inputs = new Map();
  const parts = options.map(([value, words]) => {
    const input = h("input", { type: "radio", name, value, id: freshId("radio"), onchange: () => onChange(value) });
    inputs.set(value, input);
    return [input, h("label", { for: input.id }, words)];
  });
  return {
    element: h("fieldset", { class: "ck-choices" }, h("legend", {}, label), h("div", {}, parts)),
    show: (value) => { for (const [key, input] of inputs) input.checked = key === value; },
  };
}

/** A box to tick. Returns { element, show(value) }. */
export function toggle(label, onChange) {
  const input = h("input", { type: "checkbox", id: freshId("toggle"), onchange: () => onChange(input.checked) });
  return {
    element: h("div", { class: "ck-toggle" }, input, h("label", { for: input.id }, label)),
    show: (value) => { input.checked = value; },
  };
}

/**
 * A slider with its value in words. `scale` "log" moves by powers of ten between `min` and `max` (both above 0);
 * `zero` makes its left end 0. `say(value)` gives the words. Returns { element, show(value) }.
 */
export function slider(label, { min, max, step = 1, scale = "linear", whole = false, zero = false, say = String }, onChange) {
  const log = scale === "log";
  const left = log ? Math.log10(min) : min;
  const toPosition = (value) => (log ? Math.max(left, Math.log10(value)) : value);
  const fromPosition = (position) => {
    if (zero && position <= left) return 0;
    const value = log ? 10 ** position : position;
    return whole ? Math.round(value) : Number(value.toPrecision(3));
  };
  const input = h("input", { type: "range", min: left, max: toPosition(max), step: log ? 0.01 : step });
  const words = h("output", {});
  const tell = (value) => {
    words.textContent = say(value);
    input.setAttribute("aria-valuetext", say(value));
  };
  input.addEventListener("input", () => {
    const value = fromPosition(Number(input.value));
    tell(value);
    onChange(value);
  });
  const element = labelled(label, input, [words]);
  words.htmlFor = input.id;
  return {
    element,
    show: (value) => {
      if (document.activeElement !== input || fromPosition(Number(input.value)) !== value) input.value = toPosition(value);
      tell(value);
    },
  };
}

/** A field for a number; what is no number in the range is told beside it and changes nothing. */
export function number(label, { min, max, whole = false, unit = "", wrong }, onChange) {
  const error = h("span", { class: "ck-control__error", id: freshId("error"), role: "alert" });
  const input = h("input", { type: "text", inputmode: "decimal", autocomplete: "off", "aria-describedby": error.id });
  input.addEventListener("change", () => {
    const value = input.value.trim() === "" ? NaN : Number(input.value.replaceAll(",", "").replaceAll("\u202f", ""));
    const fine = Number.isFinite(value) && value >= min && value <= max && (!whole || Number.isInteger(value));
    error.textContent = fine ? "" : wrong(input.value);
    input.toggleAttribute("aria-invalid", !fine);
    if (fine) onChange(value);
  });
  return {
    element: labelled(unit ? `${label} (${unit})` : label, input, [error]),
    show: (value) => {
      if (document.activeElement === input) return;
      input.value = value ?? "";
      input.removeAttribute("aria-invalid");
      error.textContent = "";
    },
  };
}

/** A button. */
export const button = (words, onClick, attributes = {}) =>
  h("button", { type: "button", class: "ck-button", onclick: onClick, ...attributes }, words);

/** A button that copies a text and says so; where the browser does not allow that, it shows the text to copy. */
export function copyButton(words, done, text) {
  const element = button(words, async () => {
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      prompt(words, text());
      return;
    }
    element.textContent = done;
    setTimeout(() => { element.textContent = words; }, 2000);
  });
  return element;
}
