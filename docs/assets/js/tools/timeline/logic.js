// The model of a step: who is busy when, as blocks on two lanes, and the chapters' formulas for the same step.
//
// Times are in microseconds. Each chef's step is a plan: a set-up of the call, then `count` launches, then kernels.
//   "cpu"  one thread: an operator is launched, then computed, then the next one is launched. Nothing overlaps.
//   "gpu"  the host launches without waiting; a kernel starts when it is launched and the one before it is done.
// Blocks and formulas are made apart; the tests hold one to the other.

export const CHEFS = ["none", "aot_eager", "inductor", "cudagraphs"];

/** What can be set: the ends of each range, and whose it is ("" for all chefs). */
export const TERMS = {
  m: { min: 1, max: 64, whole: true, chef: "" },
  launch: { min: 0.01, max: 100, chef: "" },
  compute: { min: 0.01, max: 10000, chef: "" },
  aotsetup: { min: 0.1, max: 1000, chef: "aot_eager" },
  aotlaunch: { min: 0.01, max: 100, chef: "aot_eager" },
  call: { min: 0.1, max: 1000, chef: "inductor" },
  group: { min: 1, max: 64, whole: true, chef: "inductor" },
  fused: { min: 0.01, max: 10000, chef: "inductor" },
  graphcall: { min: 0.1, max: 1000, chef: "cudagraphs" },
  replay: { min: 0.1, max: 1000, chef: "cudagraphs" },
  capture: { min: 1, max: 100000, chef: "cudagraphs" },
};

/** The smallest value that a term may have: times may be 0, counts may not. */
export const least = (term) => (TERMS[term].whole ? TERMS[term].min : 0);

/** A time to the picosecond: an address may hold 1e-300, which no axis can show. */
const exact = (value) => Number(value.toFixed(6));

/** The values that count: the preset's, unless the state has its own. */
export function valuesOf(preset, state) {
  const own = (term) => (state[term] === null || state[term] === undefined ? preset.values[term] : exact(state[term]));
  return Object.fromEntries(Object.keys(TERMS).map((term) => [term, own(term)]));
}

/** The terms that a chef's step is made of, on a device. */
export function termsOf(chef, device) {
  if (chef === "none") return ["m", "launch", "compute"];
  if (chef === "inductor") return ["m", "call", "group", "launch", "fused"];
  if (chef === "cudagraphs" && device === "gpu") return ["m", "graphcall", "replay", "capture", "compute"];
  return ["m", "aotsetup", "aotlaunch", "compute"];
}

/**
 * The plan of a chef's step, or null where a value for it is missing. On a CPU nothing is recorded as a CUDA graph:
 * `cudagraphs` then runs the operators one by one, as `aot_eager` does.
 */
export function plan(chef, values, device) {
  if (termsOf(chef, device).some((term) => values[term] === undefined)) return null;
  const { m, launch, compute, aotsetup, aotlaunch, call, group, fused, graphcall, replay, capture } = values;
  const one = { chef, device, operators: m, group: 1, setup: 0, count: m, launch, compute, capture: 0, graph: false };
  if (chef === "none") return one;
  if (chef === "inductor") return { ...one, group, setup: call, count: Math.ceil(m / group), compute: fused };
  if (chef === "cudagraphs" && device === "gpu") return { ...one, setup: graphcall, launch: replay, capture, graph: true };
  return { ...one, setup: aotsetup, launch: aotlaunch };
}

/** The operators that a kernel holds: [first, last], counted from 1. */
export const held = ({ group, operators }, kernel) => [(kernel - 1) * group + 1, Math.min(kernel * group, operators)];

/**
 * The blocks of `steps` steps, one after the other without waiting in between: { lane, kind, step, index, start, end }.
 * A block of no length is left out. `record`: the one-off capture goes first.
 */
export function blocks(one, steps = 1, record = false) {
  const found = [];
  let host = 0; // when the host is free again
  let device = 0;
  const add = (lane, kind, step, index, start, length) => {
    if (length > 0) found.push({ lane, kind, step, index, start, end: start + length });
    return start + length;
  };
  if (record && one.capture) host = device = add("host", "capture", 0, 0, 0, one.capture);
  for (let step = 1; step <= steps; step += 1) {
    host = add("host", "setup", step, 0, host, one.setup);
    if (one.graph) host = add("host", "replay", step, 0, host, one.launch);
    for (let index = 1; index <= one.count; index += 1) {
      if (!one.graph) host = add("host", "launch", step, index, host, one.launch);
      device = add("device", "compute", step, index, Math.max(host, device), one.compute);
      if (one.device === "cpu") host = device;
    }
  }
  return found;
}

/** The end of the last block. */
export const endOf = (some) => some.reduce((latest, { end }) => Math.max(latest, end), 0);

// ---------------------------------------------------------------- the formulas

const term = (kind, value) => ({ term: kind, value });

/**
 * The formula of one step from an idle start ("first"), and on a GPU of each step that follows without waiting
 * ("further"): lists of words and { term, value }. Their values fill the formula in.
 */
export function formulas(one, record = false) {
  const { setup, count, launch, compute, capture, chef } = one;
  const isSetUp = chef !== "none";
  const own = isSetUp && chef !== "inductor" ? "aotlaunch" : "launch";
  const names = { setup: chef === "inductor" ? "call" : one.graph ? "graphcall" : "aotsetup", launch: own, compute: chef === "inductor" ? "fused" : "compute" };
  const n = term(chef === "inductor" ? "kernels" : "m", count);
  const l = term(one.graph ? "replay" : names.launch, launch);
  const c = term(names.compute, compute);
  const before = [...(record && capture ? [term("capture", capture), " + "] : []), ...(isSetUp ? [term(names.setup, setup), " + "] : [])];
  const inStep = isSetUp ? [term(names.setup, setup), " + "] : [];
  if (one.device === "cpu") return { first: [...before, n, " × (", l, " + ", c, ")"] };
  if (one.graph) return {
    first: [...before, l, " + ", n, " × ", c],
    further: ["max(", ...inStep, l, ", ", n, " × ", c, ")"],
  };
  return {
    first: [...before, n, " × max(", l, ", ", c, ") + min(", l, ", ", c, ")"],
    further: ["max(", ...inStep, n, " × ", l, ", ", n, " × ", c, ")"],
  };
}

/** The value of such a formula. */
export function valueOf(formula) {
  const code = formula.map((part) => (typeof part === "string" ? part : part.value)).join("");
  let rest = code.replaceAll(" ", "");
  const take = (sign) => rest.startsWith(sign) && ((rest = rest.slice(sign.length)), true);
  const atom = () => {
    for (const [name, call] of [["max(", Math.max], ["min(", Math.min], ["(", (only) => only]]) {
      if (take(name)) {
        const given = [sum()];
        while (take(",")) given.push(sum());
        take(")");
        return call(...given);
      }
    }
    const [digits] = /^[\d.]+(e[+-]?\d+)?/.exec(rest);
    rest = rest.slice(digits.length);
    return Number(digits);
  };
  const product = () => {
    let value = atom();
    while (take("×")) value *= atom();
    return value;
  };
  const sum = () => {
    let value = product();
    while (take("+")) value += product();
    return value;
  };
  return sum();
}

/** The time of `steps` steps by the formulas. */
export function total(one, steps = 1, record = false) {
  const { first, further } = formulas(one, record);
  if (further) return valueOf(first) + (steps - 1) * valueOf(further);
  return valueOf(first) + (steps - 1) * valueOf(formulas(one).first);
}

// ---------------------------------------------------------------- what can be read off

/** How long each kind of block takes, and how long the device has nothing to do, from 0 to the end. */
export function shares(some) {
  const sums = { setup: 0, launch: 0, replay: 0, capture: 0, compute: 0 };
  for (const { kind, start, end } of some) sums[kind] += end - start;
  return { ...sums, end: endOf(some), idle: endOf(some) - sums.compute };
}

/** The block of a lane at a time, or null where the lane is idle. A block's end belongs to what follows. */
export const at = (some, lane, time) => some.find((block) => block.lane === lane && block.start <= time && time < block.end) ?? null;

/** All times at which something starts or ends, ascending, without doubles (a billionth of the end apart). */
export function moments(lists) {
  const times = lists.flat().flatMap(({ start, end }) => [start, end]).sort((one, other) => one - other);
  const near = (times.at(-1) ?? 0) * 1e-9;
  return times.filter((time, index) => index === 0 || time - times[index - 1] > near);
}

/** The next moment after `time` (or before it, with direction -1) that is at least `apart` away. */
export function nextMoment(times, time, direction = 1, apart = 0) {
  const far = (moment) => (moment - time) * direction > Math.max(apart, 1e-9 * (times.at(-1) ?? 0));
  return (direction > 0 ? times.find(far) : times.findLast(far)) ?? (direction > 0 ? times.at(-1) ?? 0 : 0);
}

/** Round marks for an axis from `from` to `to`: at most `most`. */
export function marks(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  if (!(rough > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * (1 - 1e-9));
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}

/** Which chef is done first: { chef, time }, or null where there is none. */
export function quickest(times) {
  return Object.entries(times).reduce((best, [chef, time]) => (best === null || time < best.time ? { chef, time } : best), null);
}
