// Where things lie in the chart: pure numbers, pixels in and out.
import { number, scaleOf } from "../common/format.js";
import { stepsDomain, totalAt } from "./logic.js";

const POINTS = 96;
const THIN = "\u202f";
/** A share beyond this many times the plain model's total is cut off, unless a variant ends higher. */
const SHARE_SHOWN = 2;
const MARGIN = { top: 30, right: 14, bottom: 62, left: 64 };

const log = Math.log10;

/** Position along an axis: { to(value), back(pixel) }. */
function axis(domain, range, kind) {
  const put = kind === "log" ? log : (value) => value;
  const undo = kind === "log" ? (value) => 10 ** value : (value) => value;
  const [low, high] = domain.map(put);
  const scale = (range[1] - range[0]) / (high - low);
  return { domain, to: (value) => range[0] + (put(value) - low) * scale, back: (pixel) => undo(low + (pixel - range[0]) / scale) };
}

/** The powers of ten within a domain, thinned out to `most`. */
export function powersOfTen([low, high], most) {
  const first = Math.ceil(log(low) - 1e-9);
  const last = Math.floor(log(high) + 1e-9);
  const every = Math.max(1, Math.ceil((last - first + 1) / most));
  return Array.from({ length: last - first + 1 }, (_, index) => first + index)
    .filter((power) => (power - first) % every === 0).map((power) => 10 ** power);
}

/** A power of ten in seconds as words; minutes and hours would be no round numbers. */
export function powerWords(seconds) {
  const scale = scaleOf(seconds, "s");
  const { factor, symbol } = ["min", "h"].includes(scale.symbol) ? { factor: 1, symbol: "s" } : scale;
  return number(seconds * factor, { places: 0 }) + THIN + symbol;
}

const stepWords = (steps) => (steps < 1e6 ? number(steps, { places: 0 }) : `10${[...String(log(steps))].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]).join("")}`);

/** What is drawn of an entry at N: total seconds, or the share of the plain model's total. */
function heightOf(entry, plain, steps, end, share) {
  const total = totalAt(entry, steps, end);
  if (total === null) return null;
  return share ? total / totalAt(plain, steps) : total;
}

function linearTicks(high) {
  const step = high <= 1.6 ? 0.25 : high <= 3.2 ? 0.5 : Math.ceil(high / 5);
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, index) => index * step);
}

/**
 * The chart of a case: axes with ticks, and for each timed entry its line, band and N*.
 * `size` { width, height } in pixels; `share`: the share of not compiling instead of seconds.
 */
export function layout({ plain, entries }, { steps, share, size }) {
  const domain = stepsDomain(entries, steps);
  const left = size.width < 480 ? 52 : MARGIN.left;
  const box = { left, top: MARGIN.top, right: size.width - MARGIN.right, bottom: size.height - MARGIN.bottom };
  const x = axis(domain, [box.left, box.right], "log");
  const timed = entries.filter((entry) => entry.timed);
  const places = Array.from({ length: POINTS + 1 }, (_, index) => x.back(box.left + ((box.right - box.left) * index) / POINTS));
  const lines = timed.map((entry) => {
    const ends = ["center", "low", "high"].map((end) => places.map((n) => heightOf(entry, plain, n, end, share)));
    return { entry, center: ends[0], low: ends[1], high: ends[2] };
  });
  let y;
  let ticks;
  if (share) {
    const far = lines.map(({ center }) => center.at(-1));
    const high = Math.max(SHARE_SHOWN, ...far.map((value) => Math.min(value * 1.15, 6)));
    y = axis([0, high], [box.bottom, box.top], "linear");
    ticks = linearTicks(high).map((value) => ({ at: y.to(value), words: `${number(value * 100, { places: 0 })}%` }));
  } else {
    const all = lines.flatMap(({ center }) => center);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    y = axis([low / 1.5, high * 1.5], [box.bottom, box.top], "log");
    const most = Math.max(3, Math.floor((box.bottom - box.top) / 30));
    ticks = powersOfTen(y.domain, most).map((value) => ({ at: y.to(value), words: powerWords(value) }));
  }
  const inside = (value) => Math.min(box.bottom + 2000, Math.max(box.top - 2000, value));
  const path = (values) => values.map((value, index) => `${index ? "L" : "M"}${x.to(places[index]).toFixed(1)} ${inside(y.to(value)).toFixed(1)}`).join("");
  const band = ({ low, high }) => {
    if (low.includes(null) || high.includes(null)) return null;
    const back = high.map((value, index) => `L${x.to(places[index]).toFixed(1)} ${inside(y.to(value)).toFixed(1)}`).reverse();
    return `${path(low)}${back.join("")}Z`;
  };
  const clamp = (n) => Math.min(domain[1], Math.max(domain[0], n));
  const roomForTicks = Math.max(2, Math.floor((box.right - box.left) / 64));
  return {
    box, domain,
    at: x.to(clamp(steps)),
    stepsAt: (pixel) => clamp(x.back(pixel)),
    xAt: (n) => x.to(clamp(n)),
    xTicks: powersOfTen(domain, roomForTicks).map((n) => ({ at: x.to(n), words: stepWords(n) })),
    yTicks: ticks,
    lines: lines.map((line) => ({
      entry: line.entry, path: path(line.center), band: line.entry.plain ? null : band(line),
      dot: inside(y.to(heightOf(line.entry, plain, clamp(steps), "center", share))),
    })),
    marks: timed.filter((entry) => entry.nStar !== null && entry.nStar >= domain[0] && entry.nStar <= domain[1]).map((entry) => ({
      entry, x: x.to(entry.nStar), y: y.to(heightOf(plain, plain, entry.nStar, "center", share)),
      from: x.to(clamp(Math.max(1, entry.nLow ?? entry.nStar))), to: x.to(clamp(entry.nHigh ?? domain[1])),
    })),
  };
}
