// The picture: operators as boxes, in the box of the kernel, loop or launch that computes them. Between two pictures
// the operators move to their new places, which is how one sees kernels merge.
import { calm, fill, h, withCode } from "../common/dom.js";
import { originsOf } from "./groups.js";
import { many } from "./say.js";

const MOVE = { duration: 600, easing: "cubic-bezier(.3, .7, .2, 1)" };

/** Other children for `box`; where a button had the focus, the one in its place gets it. */
export function refill(box, children) {
  const at = [...box.querySelectorAll("button")].indexOf(document.activeElement);
  box.replaceChildren(...children);
  if (at >= 0) box.querySelectorAll("button")[at]?.focus({ preventScroll: true });
}

/** Returns { element, note, draw(groups, options), light(selection, pinned) }. */
export function picture(words) {
  const rows = h("div", { class: "ck-pipe__rows" });
  const chain = h("div", { class: "ck-pipe__chain", role: "group", "aria-label": words.chain });
  const note = h("p", { class: "ck-pipe__note" });
  const element = h("figure", { class: "ck-pipe__picture", "aria-label": words.picture }, chain, rows);
  let shown = [];
  let chips = new Map();

  const chipOf = (chip) => {
    const button = h("button", {
      type: "button", class: "ck-pipe__chip", title: chip.title || undefined, "aria-pressed": "false",
      dataset: { pick: chip.keys.join(",") },
    }, chip.label);
    chips.set(chip.id, button);
    return button;
  };

  const titleOf = (group) => {
    const kinds = { fused: many(words.kind_fused, group.chips.length), extern: words.kind_extern, template: words.kind_template, loop: words.kind_loop, library: words.kind_extern };
    return [
      ["loop", "library", "call"].includes(group.kind) ? null : h("button", {
        type: "button", class: "ck-pipe__kernel", "aria-pressed": "false",
        dataset: { pick: group.chips.flatMap(({ keys }) => keys).join(",") },
      }, group.name),
      kinds[group.kind] && h("span", { class: "ck-pipe__kind" }, group.kind === "fused" && group.chips.length === 1 ? words.kind_single : kinds[group.kind]),
      group.reads !== undefined && h("span", { class: "ck-pipe__traffic" }, fill(words.traffic, group)),
    ];
  };

  const groupOf = (group, number) => h("li", { class: `ck-pipe__group ck-pipe__group--${group.kind}` },
    group.kind === "bare" ? null : h("div", { class: "ck-pipe__title" },
      ["fused", "extern", "template", "call"].includes(group.kind) && h("span", { class: "ck-pipe__launch" }, number), titleOf(group)),
    h("div", { class: "ck-pipe__chips" }, group.chips.map(chipOf)));

  const rowsOf = (groups, replay) => ["fw", "bw"].flatMap((pass) => {
    const own = groups.filter((group) => group.pass === pass);
    if (!own.length) return [];
    const list = h("ol", { class: "ck-pipe__groups" }, own.map((group) => groupOf(group, groups.indexOf(group) + 1)));
    const framed = replay ? h("div", { class: "ck-pipe__replay" }, h("p", {}, replay), list) : list;
    const both = groups.some((group) => group.pass === "bw");
    return [both && h("p", { class: "ck-pipe__pass" }, pass === "fw" ? words.forward : words.backward), framed];
  });

  const move = (places, next) => {
    const origins = originsOf(shown, next);
    for (const [id, button] of chips) {
      const from = places.get(origins.get(id));
      const to = button.getBoundingClientRect();
      if (!from || (from.x === to.x && from.y === to.y)) continue;
      button.animate([{ transform: `translate(${from.x - to.x}px, ${from.y - to.y}px)` }, { transform: "none" }], MOVE);
    }
    for (const title of rows.querySelectorAll(".ck-pipe__title")) title.animate([{ opacity: 0 }, { opacity: 1 }], MOVE);
  };

  return {
    element,
    note,
    /** `links` are the parts of the chain: { label, current, press }; `moving` false where another example is drawn. */
    draw(groups, { backend, links, replay, hint, moving }) {
      const places = new Map([...chips].map(([id, button]) => [id, button.getBoundingClientRect()]));
      chips = new Map();
      element.dataset.backend = backend;
      refill(rows, rowsOf(groups, replay).filter(Boolean));
      refill(chain, links.flatMap((link, index) => [
        index ? h("span", { "aria-hidden": "true" }, "→") : [],
        h("button", { type: "button", "aria-pressed": String(link.current), onclick: link.press }, link.label),
      ]).flat());
      note.replaceChildren(...withCode(hint));
      if (moving && !calm()) move(places, groups);
      shown = groups;
    },
    light({ keys }, pinned) {
      for (const button of element.querySelectorAll("[data-pick]")) {
        const lit = button.dataset.pick.split(",").some((key) => keys.has(key));
        const whole = lit && button.dataset.pick.split(",").every((key) => keys.has(key));
        button.toggleAttribute("data-lit", button.classList.contains("ck-pipe__kernel") ? whole : lit);
        if (pinned) button.setAttribute("aria-pressed", String(button.hasAttribute("data-lit")));
      }
      for (const group of rows.querySelectorAll(".ck-pipe__group")) {
        group.toggleAttribute("data-lit", Boolean(group.querySelector(".ck-pipe__chip[data-lit]")));
      }
    },
  };
}
