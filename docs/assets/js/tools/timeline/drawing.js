// The drawing: for each chef two lanes of blocks over one time axis, with a cursor.
import { h, s } from "../common/dom.js";
import { at, marks } from "./logic.js";
import { laneName, ticks } from "./says.js";

const LANES = ["host", "device"];
const HEAD = 22; // the line with a chef's name and time
const LANE = 20;
const GAP = 3;
const REST = 16; // between chefs
const AXIS = 28;
const RIGHT = 10;

/**
 * `say(row, block)` gives a block's sentence; `onSay(sentence, kind)` hears of the block that is pointed at;
 * `onCursor(time, done)` of the time that is dragged to. Returns { element, draw(rows, span), cursor(time) }.
 */
export function drawing(words, { say, onSay, onCursor }) {
  const svg = s("svg", { class: "ck-timeline__svg", role: "group" });
  const element = h("div", { class: "ck-timeline__drawing" }, svg);
  let shown = { rows: [], span: 1, device: "cpu" };
  let width = 0;
  let gutter = 60;
  let line = null;
  let blocks = []; // [{ node, row, block }]
  let lit = []; // the nodes of blocks that run at the cursor
  let active = { row: 0, lane: "host", place: 0 };

  const x = (time) => gutter + (time / shown.span) * (width - gutter - RIGHT);
  const timeAt = (event) => {
    const box = svg.getBoundingClientRect();
    const share = (event.clientX - box.left - gutter) / (width - gutter - RIGHT);
    return Math.min(Math.max(share, 0), 1) * shown.span;
  };

  function rowNodes(row, index, top) {
    const { one, list, name, told } = row;
    const end = x(Math.min(row.end, shown.span));
    const parts = [
      s("text", { class: "ck-timeline__name", x: 0, y: top + 15 }, name),
      s("text", { class: "ck-timeline__total", x: width - RIGHT, y: top + 15, "text-anchor": "end" }, told),
    ];
    for (const [order, lane] of LANES.entries()) {
      const y = top + HEAD + order * (LANE + GAP);
      parts.push(
        s("text", { class: "ck-timeline__lane", x: 0, y: y + 14 }, laneName(words, one.device, lane)),
        s("rect", { class: "ck-timeline__track", x: gutter, y, width: Math.max(0, end - gutter), height: LANE }));
      for (const block of list.filter((item) => item.lane === lane && item.start < shown.span)) {
        const left = x(block.start);
        const wide = Math.max(0.6, x(Math.min(block.end, shown.span)) - left);
        const seam = wide > 4 ? 1 : 0;
        const node = s("rect", {
          class: `ck-timeline__block ck-timeline__block--${block.kind}`, x: left, y, width: wide - seam, height: LANE, rx: wide > 8 ? 2 : 0,
          role: "img", tabindex: "-1", "aria-label": say(row, block),
        });
        blocks.push({ node, row: index, block });
        parts.push(node);
        const text = label(block, wide);
        if (text) parts.push(s("text", { class: "ck-timeline__label", x: left + (wide - seam) / 2, y: y + 14, "text-anchor": "middle", "aria-hidden": "true" }, text));
      }
    }
    if (row.end > shown.span * (1 + 1e-9)) parts.push(s("path", { class: "ck-timeline__more", d: `M${width - RIGHT + 2} ${top + HEAD + 12}l6 10l-6 10z`, "aria-hidden": "true" }));
    else parts.push(s("path", { class: "ck-timeline__end", d: `M${end} ${top + HEAD - 3}V${top + HEAD + 2 * LANE + GAP + 3}` }));
    return parts;
  }

  function label({ kind, index }, wide) {
    if (kind === "launch" || kind === "compute") return wide > 8 * String(index).length + 6 ? String(index) : "";
    const text = words[`kind_${kind}`];
    return wide > text.length * (/[\u4e00-\u9fff]/.test(text) ? 13 : 7) + 6 ? text : "";
  }

  function draw() {
    if (!width) return;
    const { rows, span } = shown;
    const had = blocks.find(({ node }) => node === document.activeElement);
    blocks = [];
    gutter = Math.max(...LANES.map((lane) => laneName(words, shown.device, lane)).map((text) => text.length * (/[\u4e00-\u9fff]/.test(text) ? 12.5 : 6.6))) + 10;
    const each = HEAD + 2 * LANE + GAP + REST;
    const height = rows.length * each + AXIS;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    const below = rows.length * each;
    const times = marks(0, span, Math.max(2, Math.floor((width - gutter) / 80)));
    const told = ticks(times);
    const axis = times.map((time, index) => [
      s("path", { class: "ck-timeline__grid", d: `M${x(time)} ${HEAD}V${below}` }),
      s("text", { class: "ck-timeline__tick", x: x(time), y: below + 21, "text-anchor": x(time) > width - 40 ? "end" : "middle" }, told[index]),
    ]);
    const through = rows.map((_, index) => `M0 ${index * each + HEAD - 4}v${2 * LANE + GAP + 8}`).join("");
    line = s("g", { class: "ck-timeline__cursor", "aria-hidden": "true" }, s("path", { d: through }), s("path", { class: "ck-timeline__grip", d: `M-6 ${below}H6L0 ${below - 9}z` }));
    svg.replaceChildren(...axis.flat(), ...rows.flatMap((row, index) => rowNodes(row, index, index * each)), line);
    cursor(shown.time ?? 0);
    if (!find(active)) active = { row: 0, lane: "host", place: 0 };
    const first = find(active) ?? blocks[0];
    first?.node.setAttribute("tabindex", "0");
    if (had) first?.node.focus({ preventScroll: true });
  }

  const find = ({ row, lane, place }) => blocks.filter((item) => item.row === row && item.block.lane === lane)[place];

  function activate(item, focus) {
    for (const { node } of blocks) if (node.getAttribute("tabindex") === "0") node.setAttribute("tabindex", "-1");
    item.node.setAttribute("tabindex", "0");
    active = { row: item.row, lane: item.block.lane, place: blocks.filter((other) => other.row === item.row && other.block.lane === item.block.lane).indexOf(item) };
    if (focus) item.node.focus({ preventScroll: true });
  }

  const itemOf = (node) => blocks.find((item) => item.node === node);
  const tell = (item) => onSay(item.node.getAttribute("aria-label"), item.block.kind);

  svg.addEventListener("pointerover", (event) => {
    const item = itemOf(event.target);
    if (item) tell(item);
  });
  svg.addEventListener("focusin", (event) => {
    const item = itemOf(event.target);
    if (!item) return;
    activate(item, false);
    tell(item);
  });
  svg.addEventListener("keydown", (event) => {
    const item = itemOf(event.target);
    if (!item) return;
    const same = blocks.filter((other) => other.row === item.row && other.block.lane === item.block.lane);
    const place = same.indexOf(item);
    const lanes = [...new Map(blocks.map((other) => [`${other.row} ${other.block.lane}`, other])).values()];
    const beside = (by) => {
      const own = lanes.findIndex((other) => other.row === item.row && other.block.lane === item.block.lane);
      const next = lanes[own + by];
      if (!next) return undefined;
      const there = blocks.filter((other) => other.row === next.row && other.block.lane === next.block.lane);
      return there.find((other) => other.block.end > item.block.start) ?? there.at(-1);
    };
    const target = {
      ArrowRight: () => same[place + 1], ArrowLeft: () => same[place - 1], Home: () => same[0], End: () => same.at(-1),
      ArrowDown: () => beside(1), ArrowUp: () => beside(-1),
    }[event.key];
    if (target) {
      event.preventDefault();
      const next = target();
      if (next) activate(next, true);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onCursor(item.block.start, true);
    }
  });

  let dragging = false;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    dragging = true;
    svg.setPointerCapture(event.pointerId);
    onCursor(timeAt(event), false);
  });
  svg.addEventListener("pointermove", (event) => {
    if (dragging) onCursor(timeAt(event), false);
  });
  const drop = (event) => {
    if (!dragging) return;
    dragging = false;
    onCursor(timeAt(event), true);
  };
  svg.addEventListener("pointerup", drop);
  svg.addEventListener("pointercancel", () => { dragging = false; });

  function cursor(time) {
    shown.time = time;
    line?.setAttribute("transform", `translate(${x(Math.min(time, shown.span))} 0)`);
    const now = new Set(shown.rows.flatMap(({ list }) => LANES.map((lane) => at(list, lane, time))));
    for (const node of lit) node.removeAttribute("data-now");
    lit = blocks.filter(({ block }) => now.has(block)).map(({ node }) => node);
    for (const node of lit) node.setAttribute("data-now", "");
  }

  new ResizeObserver(([entry]) => {
    const next = Math.floor(entry.contentRect.width);
    if (next === width) return;
    width = next;
    draw();
  }).observe(element);

  return {
    element,
    /** `rows`: [{ one, list, end, name, told }]; `span`: the time at the right edge. */
    draw(rows, span, device, aria) {
      shown = { rows, span: span || 1, device, time: shown.time };
      svg.setAttribute("aria-label", aria);
      draw();
    },
    cursor,
  };
}
