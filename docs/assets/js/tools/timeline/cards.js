// A card for each chef: shown or not, its formula, the same filled in, what the clock said, and its own sliders.
import { slider, toggle } from "../common/controls.js";
import { fill, h, withCode } from "../common/dom.js";
import { number } from "../common/format.js";
import { CHEFS, TERMS, formulas, least, plan, total, valueOf } from "./logic.js";
import { filled, symbol, symbols, us } from "./says.js";

/** A slider for a term, with its symbol before its words. Returns { element, show(value) }. */
export function termSlider(words, term, onChange) {
  const { min, max, whole } = TERMS[term];
  const zero = least(term) === 0;
  const say = whole ? (value) => number(value, { places: 0 }) : us;
  const made = slider(words[`term_${term}`], { min, max, whole, zero, scale: whole ? "linear" : "log", say }, onChange);
  made.element.querySelector("label").append(" ", h("span", { class: "ck-timeline__symbol" }, symbol(term)));
  return made;
}

/** The cards. `onTerm(term, value)`, `onChefs(list)`, `linkOf(record)`. Returns { element, draw(...) }. */
export function cards(words, names, { onTerm, onChefs, linkOf }) {
  const boxes = new Map();
  const chosen = () => CHEFS.filter((chef) => boxes.get(chef).on);
  for (const chef of CHEFS) {
    const show = toggle(names.chef[chef], (on) => {
      boxes.get(chef).on = on;
      onChefs(chosen());
    });
    const own = Object.keys(TERMS).filter((term) => TERMS[term].chef === chef);
    const sliders = new Map(own.map((term) => [term, termSlider(words, term, (value) => onTerm(term, value))]));
    const lines = h("div", { class: "ck-timeline__formulas" });
    const notes = h("div", { class: "ck-timeline__notes" });
    const settings = h("div", { class: "ck-timeline__settings" }, [...sliders.values()].map(({ element }) => element));
    const element = h("section", { class: `ck-timeline__card ck-timeline__card--${chef}`, "aria-label": names.chef[chef] }, show.element, lines, notes, settings);
    boxes.set(chef, { element, show, sliders, lines, notes, settings, on: true });
  }

  const formulaLine = (label, formula) => h("p", {},
    label ? h("span", { class: "ck-timeline__which" }, label) : null,
    h("span", {}, h("i", {}, "T"), " = ", symbols(formula)),
    h("span", { class: "ck-timeline__filled" }, " = ", filled(formula), " = ", h("strong", {}, `${number(valueOf(formula))} µs`)));

  /** `touched`: a value differs from the preset's. */
  function draw({ values, device, chefs, steps, record, preset, touched }) {
    for (const [chef, box] of boxes) {
      box.on = chefs.includes(chef);
      box.show.show(box.on);
      box.element.toggleAttribute("data-off", !box.on);
      for (const [term, made] of box.sliders) if (values[term] !== undefined) made.show(values[term]);
      const one = plan(chef, values, device);
      const unused = chef === "cudagraphs" && device === "cpu";
      box.settings.hidden = unused || one === null;
      if (one === null) {
        box.lines.replaceChildren();
        box.notes.replaceChildren(h("p", {}, words.no_values));
        continue;
      }
      const { first, further } = formulas(one, record && device === "gpu");
      const several = steps > 1 ? h("p", { class: "ck-timeline__steps" }, fill(words.total_of_steps, { steps, total: us(total(one, steps, record && device === "gpu")) })) : null;
      box.lines.replaceChildren(...[
        formulaLine(further ? words.first_step : "", first), further ? formulaLine(words.further_step, further) : null, several,
      ].filter(Boolean));
      box.notes.replaceChildren(...[
        unused ? h("p", {}, withCode(words.not_recorded)) : null,
        chef === "inductor" && values.group === 1 ? h("p", {}, words.nothing_fused) : null,
        measured(chef, one, { preset, touched, device }),
      ].filter(Boolean));
    }
  }

  function measured(chef, one, { preset, touched, device }) {
    const clock = preset.measured[chef];
    if (!clock || touched || device !== preset.device) return null;
    const [record, value] = clock;
    const model = valueOf(formulas(one).first);
    const [before, after] = fill(words.clock, { measured: us(value), difference: signed(model / value - 1) }).split("[record]");
    return h("p", { class: "ck-timeline__clock" }, before, linkOf(record, words.record), after);
  }

  return { element: h("div", { class: "ck-timeline__cards" }, [...boxes.values()].map(({ element }) => element)), draw };
}

/** −12 %, +3 %, with a true minus. */
export const signed = (share) => {
  const shown = number(Math.abs(share) * 100, { digits: 2 });
  return `${share < 0 && shown !== "0" ? "−" : "+"}${shown}%`;
};
