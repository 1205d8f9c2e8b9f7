// Draws the chart: lines of all variants, N*, and the line at N that a reader moves by pointer or keyboard.
import { count, number } from "../common/format.js";
import { fill, freshId, h, s, withCode } from "../common/dom.js";
import { layout } from "./geometry.js";
import { LEAST_STEPS, MOST_STEPS, pickRanges, tidySteps } from "./logic.js";

const BACKENDS = { "compile:eager": "eager", aot_eager: "aot_eager", inductor: "inductor", cudagraphs: "cudagraphs", compiled: "inductor" };
/** Hues for variants of other names: first those that no back end of the case has. */
const SERIES = ["eager", "cudagraphs", "aot_eager", "warn", "bad", "inductor"];
const DASHES = ["7 4", "2 4", "9 3 2 3"];
const NARROW = 480;

/** A colour and a dash for each row: back ends have colours of their own, others what is left, dashed. */
export function stylesOf(rows) {
  const owned = new Set(rows.map((row) => BACKENDS[row.variant]));
  const free = SERIES.filter((name) => !owned.has(name));
  const styles = new Map();
  let others = 0;
  for (const row of rows) {
    const own = BACKENDS[row.variant];
    if (row.plain) styles.set(row.variant, { colour: "var(--ck-none)", dash: "6 3" });
    else if (own) styles.set(row.variant, { colour: `var(--ck-${own})`, dash: "" });
    else {
      const dash = DASHES[Math.floor(others / free.length) % DASHES.length];
      styles.set(row.variant, { colour: `var(--ck-${free[others % free.length]})`, dash });
      others += 1;
    }
  }
  return styles;
}

/** A short line in a variant's colour and dash, for the legend and the table. */
export const swatch = ({ colour, dash }) =>
  s("svg", { class: "ck-calc__swatch", width: 22, height: 10, viewBox: "0 0 22 10", "aria-hidden": "true" },
    s("line", { x1: 1, x2: 21, y1: 5, y2: 5, stroke: colour, "stroke-width": 3, "stroke-dasharray": dash || null }));

/** A grip in the chart: a slider of its own, so that the keyboard moves the line too. */
function makeGrip(label, onSteps) {
  const grip = h("div", { class: "ck-calc__grip", role: "slider", tabindex: 0, "aria-label": label, "aria-orientation": "horizontal",
    "aria-valuemin": LEAST_STEPS, "aria-valuemax": MOST_STEPS });
  let now = 1;
  const factors = { ArrowRight: 1.05, ArrowUp: 1.05, ArrowLeft: 1 / 1.05, ArrowDown: 1 / 1.05, PageUp: 10, PageDown: 0.1 };
  grip.addEventListener("keydown", (event) => {
    let next = null;
    if (event.key in factors) {
      next = tidySteps(now * factors[event.key]);
      // One step at least, where five per cent are less than one.
      if (next === now) next = tidySteps(now + (factors[event.key] > 1 ? 1 : -1));
    } else if (event.key === "Home") next = LEAST_STEPS;
    else if (event.key === "End") next = MOST_STEPS;
    if (next === null || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    onSteps(next);
  });
  return {
    element: grip,
    show(steps, words) {
      now = steps;
      grip.setAttribute("aria-valuenow", steps);
      grip.setAttribute("aria-valuetext", words);
    },
  };
}

/** Moving the line by mouse, pen or finger; a finger that scrolls the page moves nothing. */
function listenToPointer(host, stepsAt, onSteps) {
  const SLACK = 6;
  let held = null;
  const place = (event) => event.clientX - host.getBoundingClientRect().left;
  host.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button !== 0) return;
    held = { id: event.pointerId, from: place(event), moving: event.pointerType !== "touch" };
    host.setPointerCapture(event.pointerId);
    if (held.moving) {
      event.preventDefault(); // No selection of text; the grip gets the focus instead.
      onSteps(stepsAt(held.from));
    }
  });
  host.addEventListener("pointermove", (event) => {
    if (!held || event.pointerId !== held.id) return;
    if (!held.moving && Math.abs(place(event) - held.from) > SLACK) held.moving = true;
    if (held.moving) onSteps(stepsAt(place(event)));
  });
  host.addEventListener("pointerup", (event) => {
    if (held && event.pointerId === held.id && !held.moving) onSteps(stepsAt(held.from)); // a tap
    held = null;
  });
  host.addEventListener("pointercancel", () => { held = null; });
}

function drawAxes(plan, { words, share, size }) {
  const { box } = plan;
  const parts = [];
  for (const tick of plan.yTicks) {
    parts.push(s("line", { class: "ck-calc__grid", x1: box.left, x2: box.right, y1: tick.at, y2: tick.at }));
    parts.push(s("text", { x: box.left - 7, y: tick.at + 4, "text-anchor": "end" }, tick.words));
  }
  for (const tick of plan.xTicks) {
    parts.push(s("line", { class: "ck-calc__grid", x1: tick.at, x2: tick.at, y1: box.top, y2: box.bottom }));
    const anchor = tick.at > size.width - 30 ? "end" : "middle";
    parts.push(s("text", { x: anchor === "end" ? box.right : tick.at, y: box.bottom + 16, "text-anchor": anchor }, tick.words));
  }
  parts.push(s("text", { class: "ck-calc__axis", x: 2, y: 12 }, share ? words.axis_share : words.axis_total));
  parts.push(s("text", { class: "ck-calc__axis", x: box.right - 4, y: box.bottom - 6, "text-anchor": "end" }, words.axis_steps));
  return parts;
}

/** The stripe under the axis: which variant is picked where. */
function drawPicks(plan, ranges, { words, styles, nameOf }) {
  const { box } = plan;
  const top = box.bottom + 24;
  const parts = [s("text", { class: "ck-calc__axis", x: 2, y: top + 9 }, words.pick)];
  ranges.forEach((range, index) => {
    const from = plan.xAt(range.from);
    const to = index + 1 < ranges.length ? plan.xAt(ranges[index + 1].from) : box.right;
    if (!range.entry || to - from < 0.5) return;
    const name = nameOf(range.entry.row).replaceAll("`", "");
    parts.push(s("rect", { x: from, y: top, width: to - from, height: 10, fill: styles.get(range.entry.key).colour }));
    if (name.length * 7.5 < to - from) parts.push(s("text", { x: (from + to) / 2, y: top + 25, "text-anchor": "middle" }, name));
  });
  return parts;
}

function drawLines(plan, focus, styles, clip) {
  // The plain model's line is dashed and lies above those that it may coincide with; that of the answer lies on top.
  const rank = ({ entry }) => (entry === focus ? 2 : Number(entry.plain));
  const lines = [...plan.lines].sort((one, other) => rank(one) - rank(other));
  return s("g", { "clip-path": `url(#${clip})` },
    lines.map(({ entry, band }) => band && s("path", { class: "ck-calc__band", d: band, fill: styles.get(entry.key).colour })),
    lines.map(({ entry, path }) => {
      const { colour, dash } = styles.get(entry.key);
      return s("path", { class: "ck-calc__line", d: path, stroke: colour, "stroke-width": entry === focus ? 3 : 2, "stroke-dasharray": dash || null });
    }));
}

/** Diamonds with their intervals; the one of the answer has its number beside it. */
function drawMarks(plan, focus, words, narrow) {
  const { box } = plan;
  return plan.marks.map(({ entry, x, y, from, to }) => {
    const label = fill(words.mark, { n: count(entry.nStar) });
    const left = x + label.length * 7 > box.right;
    return [
      s("line", { class: "ck-calc__whisker", x1: from, x2: to, y1: y, y2: y }),
      s("path", { class: "ck-calc__diamond", d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z` }),
      entry === focus && s("text", { class: "ck-calc__mark", x: left ? x - 9 : x + 9, y: y + (narrow ? 22 : 20), "text-anchor": left ? "end" : "start" }, label),
    ];
  });
}

/**
 * The chart's own part of the page: { element, show(model) }.
 * model: { result, focus, steps, share, styles, nameOf }; `onSteps(n)` is called when a reader moves the line;
 * `ways` is the control that chooses how it is drawn.
 */
export function makeChart(words, onSteps, ways) {
  const legend = h("ul", { class: "ck-calc__legend" });
  const canvas = h("div", { class: "ck-calc__canvas" });
  const grip = makeGrip(words.handle, onSteps);
  const host = h("div", { class: "ck-calc__plot" }, canvas, grip.element);
  const title = h("p", { class: "ck-calc__title", id: freshId("title") });
  const element = h("figure", { class: "ck-calc__figure", "aria-labelledby": title.id }, h("div", { class: "ck-calc__head" }, title, ways), legend, host, h("p", { class: "ck-calc__note" }, words.legend_note));
  const clip = freshId("clip");
  let plan = null;
  let model = null;
  let ranges = { key: null, found: [] };

  listenToPointer(host, (pixel) => (plan ? tidySteps(plan.stepsAt(pixel)) : LEAST_STEPS), (steps) => {
    grip.element.focus({ preventScroll: true });
    onSteps(steps);
  });

  function draw() {
    const { result, focus, steps, share, styles, nameOf } = model;
    element.hidden = !result.plain;
    if (!result.plain || !host.clientWidth) return;
    const size = { width: host.clientWidth, height: host.clientWidth < NARROW ? 300 : 360 };
    plan = layout(result, { steps, share, size });
    const { box } = plan;
    // The pick depends on everything but N and the way of drawing: it is looked up once for each set of numbers.
    const key = JSON.stringify([plan.domain, result.entries.map((entry) =>
      [entry.compile, entry.compileLow, entry.compileHigh, entry.step, entry.stepLow, entry.stepHigh, entry.verdict])]);
    if (ranges.key !== key) ranges = { key, found: pickRanges(result.entries, ...plan.domain) };
    const style = { words, share, styles, nameOf, size };
    const name = share ? words.chart_share_title : words.chart_total_title;
    const lineWords = fill(words.line, { n: number(steps, { places: 0 }) });
    const onLeft = plan.at > (box.left + box.right) / 2;
    title.textContent = name;
    canvas.replaceChildren(s("svg", { width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": name },
      s("defs", {}, s("clipPath", { id: clip }, s("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }))),
      drawAxes(plan, style), drawPicks(plan, ranges.found, style), drawLines(plan, focus, styles, clip),
      s("line", { class: "ck-calc__now", x1: plan.at, x2: plan.at, y1: box.top - 6, y2: box.bottom }),
      drawMarks(plan, focus, words, size.width < NARROW),
      plan.lines.filter(({ dot }) => dot >= box.top && dot <= box.bottom)
        .map(({ entry, dot }) => s("circle", { class: "ck-calc__dot", cx: plan.at, cy: dot, r: 4, fill: styles.get(entry.key).colour })),
      s("text", { class: "ck-calc__mark", x: plan.at + (onLeft ? -16 : 16), y: 18, "text-anchor": onLeft ? "end" : "start" }, lineWords)));
    grip.element.style.left = `${plan.at}px`;
    grip.show(steps, lineWords);
    legend.replaceChildren(...result.entries.filter((entry) => entry.timed)
      .map((entry) => h("li", {}, swatch(styles.get(entry.key)), h("span", {}, withCode(nameOf(entry.row))))));
  }

  // The drawing is as wide as its place: text keeps its size on a phone.
  let width = 0;
  new ResizeObserver(() => {
    if (model && host.clientWidth !== width) draw();
    width = host.clientWidth;
  }).observe(host);

  return {
    element,
    show(next) {
      model = next;
      draw();
    },
  };
}
