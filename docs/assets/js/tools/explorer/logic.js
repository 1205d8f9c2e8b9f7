// The results explorer, without a page: choosing, ordering and summing up entries.

/** What a cell can show. `spread`: the columns of its ends; `ideal`: which end of the range is the better one. */
export const VALUES = {
  speedup: { column: "speedup_ratio", spread: ["speedup_low", "speedup_high"], ideal: "max" },
  step: { column: "step_us", spread: ["step_q1_us", "step_q3_us"], ideal: "min" },
  compile_cold: { column: "compile_cold_s", ideal: "min" },
  compile_warm: { column: "compile_warm_s", ideal: "min" },
  pays_cold: { column: "break_even_cold", spread: ["break_even_cold_low", "break_even_cold_high"], ideal: "min" },
  pays_warm: { column: "break_even_warm", spread: ["break_even_warm_low", "break_even_warm_high"], ideal: "min" },
  memory: { column: "peak_mib", ideal: "min" },
  error: { column: "max_rel_error", ideal: "min" },
};

export const EAGER = "eager"; // In rows of the comparison tool: the model, not compiled.
const ORDER = [EAGER, "compile:eager", "aot_eager", "inductor", "cudagraphs"];

/** Texts in order, numbers in them by their value: 2.9.0 comes before 2.13.0. */
const inOrder = (a, b) => String(a).localeCompare(String(b), "en", { numeric: true });

const unique = (items) => [...new Set(items)];

/** Back ends in the order of how much they do; others after them, by name. */
export function orderVariants(variants) {
  const place = (name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  return unique(variants).sort((a, b) => place(a) - place(b) || a.localeCompare(b));
}

/** Entries with what their record says: machine, torch, date, stale. */
export function join(payload) {
  return payload.entries.map((entry, id) => {
    const { machine, torch, date, stale } = payload.records[entry.record];
    return { id, machine, torch, date, stale, ...entry };
  });
}

/** The choices that there are: { machine, torch, workload, model, variant }, each a list. */
export function choicesOf(entries) {
  const of = (column) => unique(entries.map((entry) => entry[column]).filter(Boolean));
  return {
    machine: of("machine"),
    torch: of("torch").sort(inOrder).reverse(),
    workload: of("workload"),
    model: of("model"),
    variant: orderVariants(of("variant")),
  };
}

/** True for what failed before a back end could be named: it belongs to each of them. */
const whole = (entry) => !entry.variant;

/** The entries that a state asks for; an empty list or "" of the state asks for all. */
export function choose(entries, state) {
  const fits = (wanted, value) => wanted === "" || wanted === undefined || wanted === value;
  return entries.filter((entry) =>
    fits(state.machine, entry.machine) && fits(state.torch, entry.torch)
    && (fits(state.workload, entry.workload) || whole(entry))
    && !(state.without ?? []).includes(entry.variant)
    && (!(state.models ?? []).length || state.models.includes(entry.model)));
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** Entries by a column, "-column" descending; what has no value comes last, and equals keep their order. */
export function sortBy(entries, key) {
  if (!key) return [...entries];
  const down = key.startsWith("-");
  const column = down ? key.slice(1) : key;
  const missing = (value) => value === undefined || value === null || value === "";
  return [...entries].sort((a, b) => {
    const [x, y] = [a[column], b[column]];
    if (missing(x) || missing(y)) return missing(x) - missing(y);
    const order = isNumber(x) && isNumber(y) ? x - y : inOrder(x, y);
    return down ? -order : order;
  });
}

/** One line of the heat map for each model (and machine, torch, workload where the entries hold several). */
export function pivot(entries) {
  const parts = ["machine", "torch", "workload"].filter((column) => unique(entries.filter((e) => e[column]).map((e) => e[column])).length > 1);
  const variants = orderVariants(entries.map((entry) => entry.variant).filter(Boolean));
  const lines = new Map();
  for (const entry of entries) {
    const key = JSON.stringify([entry.model, ...parts.map((part) => entry[part])]);
    if (!lines.has(key)) {
      lines.set(key, { model: entry.model, parts: Object.fromEntries(parts.map((part) => [part, entry[part]])), cells: {}, failed: null });
    }
    if (whole(entry)) lines.get(key).failed = entry;
    else lines.get(key).cells[entry.variant] = entry;
  }
  return { variants, lines: [...lines.values()] };
}

/** The geometric mean of positive numbers; null of none. */
export function geometricMean(values) {
  return values.length ? Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length) : null;
}

/**
 * A line for each back end over all entries: how many were tried, ran, were faster, slower or no different, and the
 * geometric mean of the speed-ups. A failure counts as 1 in `mean`, since such a model is run without compiling;
 * `ranMean` is of those that ran.
 */
export function summarize(entries) {
  const broken = entries.filter(whole);
  return orderVariants(entries.map((entry) => entry.variant).filter((name) => name && name !== EAGER)).map((variant) => {
    const own = entries.filter((entry) => entry.variant === variant);
    const ran = own.filter((entry) => entry.status === "ok" && isNumber(entry.speedup_ratio));
    const failed = own.length - ran.length + broken.length;
    const ratios = ran.map((entry) => entry.speedup_ratio);
    const is = (verdict) => ran.filter((entry) => entry.verdict === verdict).length;
    return {
      variant,
      tried: own.length + broken.length,
      ran: ran.length,
      failed,
      faster: is("faster"),
      slower: is("slower"),
      same: is("no difference"),
      ranMean: geometricMean(ratios),
      mean: geometricMean([...ratios, ...Array(failed).fill(1)]),
    };
  });
}

/**
 * How strongly a cell is tinted: { kind: "good" | "bad" | "plain", strength: 0 … 1 }. A speed-up is tinted by its
 * verdict and its size, from 1 to a factor of 2; any other value by its place among those of its line.
 */
export function tint(value, entry, line) {
  const { column, ideal } = VALUES[value];
  const number = entry[column];
  if (!isNumber(number)) return { kind: "plain", strength: 0 };
  if (value === "speedup") {
    const kind = { faster: "good", slower: "bad" }[entry.verdict] ?? "plain";
    return { kind, strength: kind === "plain" ? 0 : Math.min(1, Math.abs(Math.log2(number))) };
  }
  const all = Object.values(line.cells).map((cell) => cell[column]).filter((item) => isNumber(item) && item > 0);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  if (!(number > 0) || all.length < 2 || low === high) return { kind: "plain", strength: 0 };
  const place = (Math.log(number) - Math.log(low)) / (Math.log(high) - Math.log(low));
  return { kind: "good", strength: ideal === "max" ? place : 1 - place };
}

const TABLE = ["machine", "torch", "date", "model", "workload", "variant", "status", "verdict", ...Object.values(VALUES).map(({ column }) => column)];

/** The entries as CSV (RFC 4180), with the ends of every interval and the record each comes from. */
export function toCsv(entries, records) {
  const ends = Object.values(VALUES).flatMap(({ spread }) => spread ?? []);
  const heads = [...TABLE, ...ends, "note", "record"];
  const quote = (value) => {
    let text = value === undefined || value === null ? "" : String(value);
    // A spreadsheet would run a text that begins like a formula.
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const line = (entry) => heads.map((head) => quote(head === "record" ? records[entry.record].url : entry[head])).join(",");
  return [heads.join(","), ...entries.map(line), ""].join("\r\n");
}

/** The middle of numbers; of an even count the mean of the two in the middle, as Python's statistics.median. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length / 2;
  return Number.isInteger(half) ? (sorted[half - 1] + sorted[half]) / 2 : sorted[Math.floor(half)];
}

/** Samples by process: [[3.1, 3.0], [3.2]]; a row without processes is one. */
export function byProcess(row) {
  const groups = [];
  (row.samples_us ?? []).forEach((sample, index) => {
    const process = row.samples_process?.[index] ?? 0;
    (groups[process] ??= []).push(sample);
  });
  return groups.filter(Boolean);
}
