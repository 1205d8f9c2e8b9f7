// A profiled step as a flame chart: lanes, rows by depth, and moving among the events. Pure, as logic.js is.

/** The events of a profile as objects, with `row` (0 at the top of its lane), `parent` and `id` (their place). */
export function eventsOf({ columns, events }) {
  const place = Object.fromEntries(columns.map((column, index) => [column, index]));
  const found = events.map((cells, id) => ({
    id,
    name: cells[place.name],
    lane: cells[place.lane],
    phase: cells[place.step_phase],
    depth: cells[place.depth],
    start: cells[place.start_us],
    length: cells[place.duration_us],
    self: cells[place.self_us],
    parent: null,
  }));
  const above = {};
  for (const event of found) {
    // Kernels of a device lie inside of nothing; events of the host stand each before what lies inside it.
    if (event.lane === "device") event.depth = 0;
    const open = (above[event.lane] ??= []);
    open.length = event.depth;
    event.parent = open[event.depth - 1]?.id ?? null;
    open[event.depth] = event;
    event.row = event.depth;
  }
  return found;
}

/** The lanes with how many rows each needs: [{ lane, rows }], the host first. */
export function lanesOf(events) {
  const rows = {};
  for (const { lane, row } of events) rows[lane] = Math.max(rows[lane] ?? 0, row + 1);
  return Object.entries(rows).map(([lane, count]) => ({ lane, rows: count }));
}

/** [first, last] moment of all events. */
export const extent = (events) => [Math.min(...events.map(({ start }) => start)), Math.max(...events.map(({ start, length }) => start + length))];

/** The name as it fits a bar: without autograd's long prefix. */
export const shortName = (name) => name.replace(/^autograd::engine::evaluate_function: /, "").replace(/^torch::autograd::/, "").replace(/^Optimizer\.\w+#/, "");

/** What kind of work an event is: phase, backward (a node of autograd), operator, other. */
export function kindOf({ name, depth, lane }) {
  if (lane === "device") return "kernel";
  if (depth === 0) return "phase";
  if (/^(autograd::|torch::autograd::)|Backward\d*$/.test(name)) return "autograd";
  return /^\w+::/.test(name) ? "operator" : "other";
}

/** The phases as events of depth 0, by name. */
export const phases = (events) => events.filter(({ lane, depth }) => lane === "host" && depth === 0);

/** Where a key leads from an event: the event there, or the same one. Left and right stay in the row, up and down follow who called whom. */
export function moved(events, event, key) {
  const row = events.filter(({ lane, row: own }) => lane === event.lane && own === event.row).sort((one, other) => one.start - other.start);
  const place = row.indexOf(event);
  if (key === "ArrowRight") return row[place + 1] ?? event;
  if (key === "ArrowLeft") return row[place - 1] ?? event;
  if (key === "Home") return row[0];
  if (key === "End") return row.at(-1);
  if (key === "ArrowUp") {
    if (event.parent !== null) return events[event.parent];
    return event.lane === "device" ? nearest(events.filter(({ lane }) => lane !== "device"), event) : event;
  }
  if (key === "ArrowDown") return events.find(({ parent }) => parent === event.id) ?? below(events, event);
  return event;
}

const nearest = (some, { start }) => some.reduce((best, other) => (best && Math.abs(best.start - start) <= Math.abs(other.start - start) ? best : other), null);

function below(events, event) {
  const kernels = events.filter(({ lane }) => lane === "device");
  return event.lane === "device" || !kernels.length ? event : nearest(kernels, event);
}

/** A window that keeps inside the whole: [from, to], at least `least` long. */
export function windowed([first, last], from, to, least = (last - first) / 2000) {
  const length = Math.min(Math.max(to - from, least), last - first);
  const start = Math.min(Math.max(from, first), last - length);
  return [start, start + length];
}

/** The window around its middle (or `about`), `factor` times as long. */
export function zoomed(whole, [from, to], factor, about = (from + to) / 2) {
  return windowed(whole, about - (about - from) * factor, about + (to - about) * factor);
}

/** The window that shows an event with a little room on both sides. */
export const around = (whole, { start, length }) => windowed(whole, start - length * 0.05, start + length * 1.05);

/** Events that a window shows. */
export const visible = (events, [from, to]) => events.filter(({ start, length }) => start + length > from && start < to);
