// Numbers as the pages show them: the same digits and units as kitchen/format.py (tests/test_javascript.py compares).

const THIN = "\u202f";
const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

const SECONDS = [[0, 1e9, "ns"], [1e-6, 1e6, "µs"], [1e-3, 1e3, "ms"], [1, 1, "s"], [600, 1 / 60, "min"], [7200, 1 / 3600, "h"]];
const KIB = [[0, 1, "KiB"], [1024, 1 / 1024, "MiB"], [1024 ** 2, 1 / 1024 ** 2, "GiB"]];
const rebased = (ladder, size) => ladder.map(([least, factor, symbol]) => [least / size, factor * size, symbol]);

const LADDERS = {
  ns: rebased(SECONDS, 1e-9), us: rebased(SECONDS, 1e-6), ms: rebased(SECONDS, 1e-3), s: SECONDS,
  kib: KIB, mib: rebased(KIB, 1024), gib: rebased(KIB, 1024 ** 2),
  gbs: [[0, 1, "GB/s"]], percent: [[0, 1, "%"]], share: [[0, 100, "%"]], ratio: [[0, 1, "×"]], "": [[0, 1, ""]],
};

function decimals(value, digits) {
  if (value === 0 || !Number.isFinite(value)) return 0;
  // The exponent of the rounded number: 99.96 has three digits as 100.
  const exponent = Number(Math.abs(value).toExponential(digits - 1).split("e")[1]);
  return Math.max(0, digits - 1 - exponent);
}

/** 2.3×10⁻⁷. */
export function scientific(value, digits = 2) {
  if (value === 0) return "0";
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const power = [...String(Number(exponent))].map((sign) => SUPERSCRIPT[sign]).join("");
  return `${mantissa}×10${power}`.replaceAll("-", "−");
}

/** `places` digits after the point; an exact half goes to the even neighbour, as in Python. */
function fixed(value, places) {
  const scaled = value * 10 ** places;
  const tie = Number.isInteger(value * 2 ** 20) && Math.abs(scaled % 1) === 0.5;
  return (tie ? (2 * Math.round(scaled / 2)) / 10 ** places : value).toFixed(places);
}

const grouped = (text) => text.replace(/^(-?\d+)/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));

/** Numbers that are no longer readable as digits: shown as powers of ten. */
const isExtreme = (value) => value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e9);

/** A number with three significant digits (or `places` after the point), thousands apart, a true minus. */
export function number(value, { digits = 3, places } = {}) {
  if (isExtreme(value) && places === undefined) return scientific(value, digits);
  const shown = grouped(fixed(value, places ?? decimals(value, digits)));
  return (/[1-9]/.test(shown) ? shown : shown.replace("-", "")).replaceAll("-", "−");
}

/** A computed number of things: whole, with no more digits than its sources have. */
export function count(value, digits = 3) {
  const whole = Number(fixed(value, 0));
  const step = 10 ** Math.max(0, String(Math.abs(whole)).length - digits);
  const kept = Number(fixed(whole / step, 0)) * step;
  return grouped(String(BigInt(kept))).replaceAll("-", "−");
}

/** The unit that suits a number: { factor, symbol }. */
export function scaleOf(value, unit) {
  const ladder = LADDERS[unit] ?? [[0, 1, unit]];
  const [, factor, symbol] = ladder.filter(([least]) => Math.abs(value) * (1 + 1e-9) >= least).at(-1);
  return { factor, symbol };
}

const withUnit = (shown, symbol) => (["×", "%", ""].includes(symbol) ? shown + symbol : shown + THIN + symbol);

/** One number in the unit that suits it: 97.3 µs, 1.32×. */
export function quantity(value, unit, options = {}) {
  const { factor, symbol } = scaleOf(value, unit);
  return withUnit(number(value * factor, options), symbol);
}

/** Both ends of an interval with the places that `like` (the upper end) needs: 95.1–99.0 µs; extreme ones in powers of ten. */
export function interval(low, high, unit, like = high) {
  const { factor, symbol } = scaleOf(like, unit);
  if (isExtreme(like * factor)) return withUnit(`${scientific(low * factor, 3)}–${scientific(high * factor, 3)}`, symbol);
  const places = decimals(like * factor, 3);
  return withUnit(`${number(low * factor, { places })}–${number(high * factor, { places })}`, symbol);
}
