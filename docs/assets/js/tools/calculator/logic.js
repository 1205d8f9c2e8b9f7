// The sums of the break-even calculator: the same as in snippets/measuring/compare_backends.py (add_sums, pick),
// which tests/test_tool_calculator.py holds against every record. Nothing of the page is in here.
//
// A case is { method, rows }; a row has the columns of a report (variant, status, step_us, speedup_ratio, ...), and
// `plain: true` where it is the model without compiling. How a case's numbers came about decides two details:
//   paired   compare_backends: a step is that of the plain model over the paired ratio; a compile that was timed
//            once is trusted to 10 %
//   medians  overview/four_backends: a step is its own median, and the interval leaves the compile time out
//   typed    by the reader: bounds are what the reader gave

/** A compile time that was taken once is trusted to this fraction, as in the comparison tool. */
export const SINGLE_COMPILE_SPREAD = 0.1;
export const LEAST_STEPS = 1;
export const MOST_STEPS = 1e9;
const SECONDS_AN_HOUR = 3600;
const POWERS = 9;
/** Places a decade at which the pick is looked up before the place of a change is searched exactly. */
const LOOKS = 24;

const known = (value) => value !== null && value !== undefined;
const isPlain = (row) => row.plain === true;

/** What a step saves, in microseconds, if the speed-up is `ratio`. */
function savedAt(plain, row, ratio, method) {
  if (!known(ratio)) return null;
  if (method !== "medians") return plain.step_us * (1 - 1 / ratio);
  const saved = plain.step_us - row.step_us;
  return ratio === row.speedup_ratio ? saved : (saved * (1 - 1 / ratio)) / (1 - 1 / row.speedup_ratio);
}

/** Least and greatest time of one compile, in seconds. */
function compileBounds(row, start, method) {
  const center = row[`compile_${start}_s`];
  if (method === "medians") return [center, center];
  const low = row[`compile_${start}_low_s`] ?? center;
  const high = row[`compile_${start}_high_s`] ?? center;
  if (method === "typed" || low !== high) return [low, high];
  return [low * (1 - SINGLE_COMPILE_SPREAD), high * (1 + SINGLE_COMPILE_SPREAD)];
}

/** Steps until compiling has paid, or null where a step saves nothing. */
function breakEven(compile, saved) {
  return known(saved) && saved > 0 ? Math.ceil(compile / (saved * 1e-6)) : null;
}

/** Total seconds of an entry for `steps` steps, at its "center", "low" or "high" end. */
export function totalAt(entry, steps, end = "center") {
  const compile = { center: entry.compile, low: entry.compileLow, high: entry.compileHigh }[end];
  const step = { center: entry.step, low: entry.stepLow, high: entry.stepHigh }[end];
  return known(compile) && known(step) ? compile + steps * step * 1e-6 : null;
}

/** What is known of a row, compiled `compiles` times from a "cold" or "warm" start. Times in s, steps in µs. */
function entryOf(row, plain, method, { start, compiles }) {
  const entry = {
    row, key: row.variant, plain: row === plain, verdict: row.verdict ?? null,
    timed: plain !== null && row.status === "ok" && known(row.step_us) && known(row[`compile_${start}_s`]),
    compile: null, compileLow: null, compileHigh: null, step: null, stepLow: null, stepHigh: null, saved: null,
    nStar: null, nLow: null, nHigh: null,
  };
  if (row === plain) {
    const zero = { compile: 0, compileLow: 0, compileHigh: 0, saved: 0, timed: true };
    return { ...entry, ...zero, step: row.step_us, stepLow: row.step_us, stepHigh: row.step_us };
  }
  if (!entry.timed) return entry;
  entry.saved = savedAt(plain, row, row.speedup_ratio, method);
  if (entry.saved === null) return { ...entry, timed: false };
  const [low, high] = compileBounds(row, start, method);
  entry.compile = compiles * row[`compile_${start}_s`];
  [entry.compileLow, entry.compileHigh] = [compiles * low, compiles * high];
  entry.step = plain.step_us - entry.saved;
  const [most, least] = [row.speedup_high, row.speedup_low].map((ratio) => savedAt(plain, row, ratio, method));
  entry.stepLow = known(most) ? plain.step_us - most : null;
  entry.stepHigh = known(least) ? plain.step_us - least : null;
  if (entry.verdict === "faster") {
    entry.nStar = breakEven(entry.compile, entry.saved);
    entry.nLow = breakEven(entry.compileLow, most);
    entry.nHigh = breakEven(entry.compileHigh, least);
  }
  return entry;
}

/** The payoff R over `steps` steps; null where there is no difference (noise times N is no payoff). */
function payoff(entry, steps) {
  if (entry.plain || !entry.timed || entry.verdict === "no difference" || !(entry.compile > 0)) return null;
  return (entry.saved * 1e-6 * steps) / entry.compile;
}

/** Whether a named back end did not run the graph: "no: ...". */
export const didNotRun = (row) => (row.ran ?? "yes").startsWith("no");

const mayBePicked = (entry) => entry.timed && entry.row.status === "ok" && !didNotRun(entry.row)
  && (entry.plain || (entry.verdict === "faster" && Boolean(entry.row.speedup_low) && Boolean(entry.row.speedup_high)));

/**
 * The entry to take for `steps` steps: the simplest (the plain model first, then the least compile time) that the best
 * total does not clearly beat. `best` is the one with the least total.
 */
export function pick(entries, steps) {
  const found = entries.filter(mayBePicked).map((entry) => ({
    entry, compile: entry.compile, center: totalAt(entry, steps),
    low: totalAt(entry, steps, "low"), high: totalAt(entry, steps, "high"),
  }));
  if (!found.length) return { chosen: null, best: null };
  const best = found.reduce((least, next) => (next.center < least.center ? next : least));
  const simplestFirst = [...found].sort((one, other) => one.compile - other.compile);
  const chosen = simplestFirst.find((total) => total === best || total.low <= best.high);
  return { chosen: chosen.entry, best: best.entry };
}

/** Everything of a case for one N: its entries with total, payoff and cost, and the pick. */
export function evaluate({ method, rows }, { steps, start = "cold", compiles = 1, price = 0 }) {
  const found = rows.find(isPlain);
  // Without a step time of the plain model there is nothing to compare with: all rows are listed, none has times.
  const plain = found && found.status === "ok" && known(found.step_us) ? found : null;
  const entries = rows.map((row) => {
    const entry = entryOf(row, plain, method, { start, compiles });
    entry.total = totalAt(entry, steps);
    entry.totalLow = totalAt(entry, steps, "low");
    entry.totalHigh = totalAt(entry, steps, "high");
    entry.r = payoff(entry, steps);
    entry.cost = entry.total === null ? null : (entry.total / SECONDS_AN_HOUR) * price;
    return entry;
  });
  return { plain: entries.find((entry) => entry.plain) ?? null, entries, ...pick(entries, steps) };
}

/** Which entry is picked from which N on: [{ from, entry }], the first from `low` on. Changes are found to the step. */
export function pickRanges(entries, low, high) {
  const at = (steps) => pick(entries, steps).chosen;
  const ranges = [{ from: low, entry: at(low) }];
  let before = low;
  const decades = Math.log10(high / low);
  for (let look = 1; look <= decades * LOOKS; look += 1) {
    const here = Math.round(low * 10 ** (look / LOOKS));
    const found = at(here);
    let under = before;
    while (ranges.at(-1).entry !== found) {
      const last = ranges.at(-1).entry;
      let over = here;
      while (over - under > 1) {
        const middle = Math.floor((under + over) / 2);
        if (at(middle) === last) under = middle;
        else over = middle;
      }
      ranges.push({ from: over, entry: at(over) });
      under = over;
    }
    before = here;
  }
  return ranges;
}

/** A case from what a reader types: seconds and milliseconds; spreads in percent, of the ratio and of the compile time. */
export function typedCase({ compile, eager, step, pm_step: stepSpread, pm_compile: compileSpread }) {
  const ratio = eager / step;
  const wide = 1 + stepSpread / 100;
  const [low, high] = [ratio / wide, ratio * wide];
  const verdict = low > 1 ? "faster" : high < 1 ? "slower" : "no difference";
  const spread = { center: compile, low: compile * (1 - compileSpread / 100), high: compile * (1 + compileSpread / 100) };
  const row = { variant: "compiled", status: "ok", step_us: step * 1e3, speedup_ratio: ratio, speedup_low: low, speedup_high: high, verdict };
  for (const start of ["cold", "warm"]) {
    row[`compile_${start}_s`] = spread.center;
    row[`compile_${start}_low_s`] = spread.low;
    row[`compile_${start}_high_s`] = spread.high;
  }
  const plain = { variant: "eager", plain: true, status: "ok", step_us: eager * 1e3, compile_cold_s: 0, compile_warm_s: 0 };
  return { method: "typed", rows: [plain, row] };
}

const kept = (value) => Number(value.toPrecision(7));

/** What a reader would type to get this row again from this start, or null where it has no times. */
export function asTyped({ method, rows }, key, start) {
  const plain = rows.find(isPlain);
  const row = rows.find((candidate) => candidate.variant === key);
  if (!plain || !row || row === plain) return null;
  const entry = entryOf(row, plain, method, { start, compiles: 1 });
  if (!known(plain.step_us) || !entry.timed || !(entry.step > 0) || !(entry.compile >= 0)) return null;
  const { speedup_ratio: ratio, speedup_low: low, speedup_high: high } = row;
  // Without an interval there is no verdict; typed numbers would be taken as exact.
  if (!known(low) || !known(high)) return null;
  let off = Math.max(high / ratio, ratio / low) - 1;
  // What the record could not tell from noise must not turn into a difference.
  if (row.verdict === "no difference") off = Math.max(off, Math.max(ratio, 1 / ratio) * 1.0001 - 1);
  const away = Math.max(entry.compile - entry.compileLow, entry.compileHigh - entry.compile);
  return {
    compile: kept(entry.compile), eager: kept(plain.step_us / 1e3), step: kept(entry.step / 1e3),
    pm_step: kept(off * 100), pm_compile: kept(entry.compile > 0 ? (away / entry.compile) * 100 : 0),
  };
}

/** The case that a state names, or the nearest that there is: same machine, same model, then same workload. */
export function findCase(cases, { machine, model, work }, preferred = "resnet18") {
  const best = (found, test) => {
    const fitting = found.filter(test);
    return fitting.length ? fitting : found;
  };
  let found = best(cases, (one) => one.machine === machine);
  found = found.some((one) => one.model === model)
    ? found.filter((one) => one.model === model)
    : best(found, (one) => one.model === preferred);
  return best(found, (one) => one.work === work)[0] ?? null;
}

/** The variant that the answer is about: the one asked for, else inductor, else the first that was compiled. */
export function focusOf(entries, key) {
  const compiled = entries.filter((entry) => !entry.plain);
  const timed = compiled.filter((entry) => entry.timed);
  return compiled.find((entry) => entry.key === key)
    ?? timed.find((entry) => entry.key === "inductor")
    ?? timed[0] ?? compiled[0] ?? null;
}

/** A number of steps that a slider or the pointer means: three digits are enough. */
export function tidySteps(value) {
  const whole = Math.round(Number(value.toPrecision(3)));
  return Math.min(MOST_STEPS, Math.max(LEAST_STEPS, whole));
}

/** The N that a chart shows: decades around every crossing, with `steps` inside. */
export function stepsDomain(entries, steps) {
  const crossings = entries.flatMap((entry) => [entry.nLow, entry.nStar, entry.nHigh]).filter((n) => known(n) && n > 0);
  let low = crossings.length ? Math.floor(Math.log10(Math.min(...crossings)) - 2.5) : 1;
  let high = crossings.length ? Math.ceil(Math.log10(Math.max(...crossings)) + 1.5) : 7;
  low = Math.min(low, Math.floor(Math.log10(steps)));
  high = Math.max(high, Math.ceil(Math.log10(steps)));
  return [10 ** Math.max(0, low), 10 ** Math.min(POWERS, Math.max(high, Math.max(0, low) + 1))];
}
