// The stages as columns of lines: a list to move about in with the arrow keys, in which lines light.
import { freshId, h } from "../common/dom.js";
import { pieces } from "./code.js";
import { baseOf, firstLine, lightOf } from "./logic.js";

const ofLine = (stage, line, index) => {
  const text = line.text.trimEnd();
  if (!text.trim()) return h("li", { class: "ck-pipe__line", role: "presentation" }, " ");
  const raw = line.words ? text.trim().replace(/ {2,}/g, "  ") : text;
  const code = pieces(raw, stage.language).map(([kind, piece]) => (kind ? h("span", { class: `ck-pipe__${kind}` }, piece) : piece));
  return h("li", {
    class: "ck-pipe__line", role: "option", tabindex: -1, "aria-selected": "false",
    dataset: { pick: `${stage.id}:${index}`, ...(line.keys?.length || line.block ? { linked: "" } : {}) },
  }, line.words ? [h("span", { class: "ck-pipe__words" }, line.words), h("code", {}, code)] : code);
};

/**
 * One stage. `name` and `about` are its words, `number` its place on the way.
 * Returns { id, element, light(selection, pinned), reveal(smooth), focus() }.
 */
export function stageColumn(stage, { name, about, number }) {
  const label = freshId("stage");
  const items = stage.lines.map((line, index) => ofLine(stage, line, index));
  const options = items.filter((item) => item.dataset.pick);
  const spoken = stage.lines.some(({ words }) => words);
  const list = h("ol", {
    class: `ck-pipe__lines${spoken ? " ck-pipe__lines--spoken" : ""}`,
    role: "listbox", "aria-multiselectable": "true", "aria-labelledby": label,
  }, items);
  const element = h("section", { class: `ck-pipe__stage ck-pipe__stage--${baseOf(stage.id)}`, dataset: { stage: stage.id } },
    h("header", {}, h("p", { class: "ck-pipe__name", id: label }, h("span", { class: "ck-pipe__number" }, number), name), h("p", { class: "ck-pipe__about" }, about)),
    list);
  let entry = options[0];
  const enterAt = (option) => {
    entry?.setAttribute("tabindex", "-1");
    entry = option;
    entry?.setAttribute("tabindex", "0");
  };
  enterAt(entry);
  const focus = (option) => {
    enterAt(option);
    option?.focus({ preventScroll: true });
    option?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  list.addEventListener("focusin", ({ target }) => target.dataset.pick && enterAt(target));
  list.addEventListener("keydown", (event) => {
    const at = options.indexOf(document.activeElement);
    const moved = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 12, PageUp: at - 12, Home: 0, End: options.length - 1 }[event.key];
    if (moved === undefined || at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    focus(options[Math.max(0, Math.min(options.length - 1, moved))]);
  });
  let lit;
  return {
    id: stage.id,
    element,
    light(selection, pinned) {
      if (pinned) lit = items[firstLine(stage, selection)];
      stage.lines.forEach((line, index) => {
        const item = items[index];
        const lit = String(lightOf(line, selection));
        if ((item.dataset.lit ?? "0") !== lit) item.dataset.lit = lit;
        if (item.dataset.pick && pinned) item.setAttribute("aria-selected", String(lit === "2"));
      });
      const own = selection.stage === stage.id ? items[selection.index] : undefined;
      for (const item of list.querySelectorAll("[data-own]")) if (item !== own) delete item.dataset.own;
      if (own) own.dataset.own = "";
      if (pinned && lit && !list.contains(document.activeElement)) enterAt(lit);
    },
    /** Scroll the lit line to look at first into view inside the list, and nothing around it. */
    reveal(smooth) {
      const top = lit ? lit.offsetTop - list.clientHeight / 3 : 0;
      list.scrollTo({ top, behavior: smooth ? "smooth" : "instant" });
    },
    focus: () => focus(lit ?? entry),
  };
}
