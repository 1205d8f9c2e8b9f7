// Reads a report of the comparison tool (compare_backends.py --json or --csv) and trusts nothing in it.
// Pure: text in, cases out. What is wrong is a ReportError: its code names the sentence, its values say where and what.

export const MOST_BYTES = 4 * 1024 * 1024;
const MOST_ROWS = 500;
const MOST_TEXT = 400;
const FORMAT = "compare-backends/report";
const RECORD_FORMAT = "compile-kitchen/record";
const VERSION = 1;

const STATUSES = ["ok", "failed", "wrong", "not measured"];
const VERDICTS = ["faster", "slower", "no difference"];
const TEXTS = ["note", "failure", "phase", "model", "workload", "device", "ran"];
const POSITIVE = ["step_us", "speedup_ratio", "speedup_low", "speedup_high"];
const TIMES = ["cold", "warm"].flatMap((start) => ["", "_low", "_high"].map((end) => `compile_${start}${end}_s`));
/** Columns without which nothing can be computed; a report always has them, empty where nothing was measured. */
const NEEDED = ["variant", "status", "model", "workload", "verdict", ...POSITIVE, ...TIMES];
/** These three stand in order, where all are known. */
const SPREADS = [
  ["speedup_low", "speedup_ratio", "speedup_high"],
  ...["cold", "warm"].map((start) => [`compile_${start}_low_s`, `compile_${start}_s`, `compile_${start}_high_s`]),
];

/** A number as Python writes it; Number() alone would also take "0x10" and " ". */
const DECIMAL = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;

export class ReportError extends Error {
  constructor(code, values = {}) {
    super(`${code}: ${JSON.stringify(values)}`);
    this.code = code;
    this.values = values;
  }
}

/** A value as it may stand in a sentence. */
const short = (value) => {
  const cut = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);
  return typeof value === "string" ? `"${cut(value)}"` : cut(JSON.stringify(value) ?? String(value));
};

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** The text of bytes; a report is UTF-8. */
export function decodeText(bytes) {
  if (bytes.byteLength > MOST_BYTES) throw new ReportError("too_large", { size: bytes.byteLength });
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes); // takes the byte order mark away
  } catch {
    throw new ReportError("not_text");
  }
}

// ---- one row -----------------------------------------------------------------------------------------------------

/** Marks that turn the direction of writing: in a name they would turn the sentence around it, too. */
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

function text(row, column, where, { needed = false } = {}) {
  const given = row[column] ?? null;
  if (given === null && !needed) return null;
  const value = typeof given === "string" ? given.replace(TURNING, "") : given;
  if (typeof value !== "string" || (needed && value.trim() === "")) {
    throw new ReportError("value", { where: `${where}, ${column}`, found: short(value), wants: "text" });
  }
  return value.slice(0, MOST_TEXT);
}

function oneOf(row, column, where, allowed) {
  const value = row[column] ?? null;
  if (value === null && column === "verdict") return null;
  if (!allowed.includes(value)) {
    throw new ReportError("value", { where: `${where}, ${column}`, found: short(value), wants: allowed.join(" | ") });
  }
  return value;
}

function numeric(row, column, where, positive) {
  const value = row[column] ?? null;
  if (value === null) return null;
  if (typeof value !== "number" || !Number.isFinite(value) || (positive && value <= 0)) {
    throw new ReportError("value", { where: `${where}, ${column}`, found: short(value), wants: positive ? "> 0" : "number" });
  }
  return value;
}

/** The columns of a row that the calculator reads, each of its kind. */
function checkRow(row, where) {
  if (!isObject(row)) throw new ReportError("value", { where, found: short(row), wants: "object" });
  const missing = NEEDED.filter((column) => !(column in row));
  if (missing.length) throw new ReportError("column", { where, column: missing.join(", ") });
  const kept = { variant: text(row, "variant", where, { needed: true }), status: oneOf(row, "status", where, STATUSES) };
  kept.verdict = oneOf(row, "verdict", where, VERDICTS);
  for (const column of TEXTS) kept[column] = text(row, column, where);
  for (const column of POSITIVE) kept[column] = numeric(row, column, where, true);
  for (const column of TIMES) kept[column] = numeric(row, column, where, false);
  for (const columns of SPREADS) {
    const [low, center, high] = columns.map((column) => kept[column]);
    if (center !== null && ((low !== null && low > center) || (high !== null && high < center))) {
      throw new ReportError("order", { where, column: columns.join(" ≤ "), found: [low, center, high].map(short).join(", ") });
    }
  }
  return kept;
}

// ---- all rows ----------------------------------------------------------------------------------------------------

/** Rows as cases, one for each model and workload; the A/A twin of the plain model stands apart. */
function casesOf(rows) {
  const cases = new Map();
  for (const [row, where] of rows) {
    const key = JSON.stringify([row.model, row.workload, row.device]);
    if (!cases.has(key)) cases.set(key, { method: "paired", model: row.model, workload: row.workload, device: row.device, again: null, rows: [] });
    const one = cases.get(key);
    if (row.variant === "eager again") {
      one.again = row;
      continue;
    }
    if (one.rows.some((other) => other.variant === row.variant)) throw new ReportError("twice", { where, variant: row.variant });
    one.rows.push(row.variant === "eager" ? { ...row, plain: true } : row);
  }
  for (const one of cases.values()) {
    const plain = one.rows.find((row) => row.plain);
    if (!plain) throw new ReportError("no_eager", { model: one.model ?? "", workload: one.workload ?? "" });
    if (plain.status !== "ok" || plain.step_us === null) {
      throw new ReportError("eager_untimed", { status: plain.status, reason: plain.note ?? plain.failure ?? "–" });
    }
    one.rows.sort((first, second) => Number(second.plain === true) - Number(first.plain === true));
    if (one.rows.length < 2) throw new ReportError("only_eager", { model: one.model ?? "" });
  }
  return [...cases.values()];
}

function readJson(content) {
  let data;
  try {
    data = JSON.parse(content);
  } catch (error) {
    throw new ReportError("not_json", { detail: error.message.slice(0, 160) });
  }
  if (!isObject(data) || data.format !== FORMAT) {
    const code = isObject(data) && data.format === RECORD_FORMAT ? "record" : "not_report";
    throw new ReportError(code, { found: short(isObject(data) ? data.format ?? null : data) });
  }
  if (data.version !== VERSION) throw new ReportError("version", { found: short(data.version), wants: String(VERSION) });
  if (!Array.isArray(data.rows) || data.rows.length === 0) throw new ReportError("no_rows");
  const environment = isObject(data.environment) ? data.environment : {};
  const said = (value) => (typeof value === "string" ? value.slice(0, MOST_TEXT) : null);
  return {
    rows: data.rows.map((row, index) => [row, `rows[${index}]`]),
    machine: said(environment.device_name) ?? said(environment.cpu),
    torch: said(environment.torch),
    warnings: Array.isArray(data.warnings) ? data.warnings.map(said).filter(Boolean).slice(0, 5) : [],
  };
}

/** The fields of CSV text, a list a line with the number of the line it began on; quotes as in RFC 4180. */
export function parseCsv(content) {
  const lines = [];
  let [fields, field, quoted, wasQuoted, line, began] = [[], "", false, false, 1, 1];
  const endField = () => {
    fields.push(field);
    [field, wasQuoted] = ["", false];
  };
  const endLine = () => {
    endField();
    if (fields.length > 1 || fields[0] !== "") lines.push({ fields, line: began });
    fields = [];
  };
  for (let at = 0; at < content.length; at += 1) {
    const sign = content[at];
    if (sign === "\n") line += 1;
    if (quoted) {
      if (sign !== '"') field += sign;
      else if (content[at + 1] === '"') {
        field += '"';
        at += 1;
      } else quoted = false;
    } else if (sign === '"' && field === "" && !wasQuoted) [quoted, wasQuoted] = [true, true];
    else if (sign === '"' || (wasQuoted && sign !== "," && sign !== "\r" && sign !== "\n")) {
      throw new ReportError("csv_quote", { line });
    } else if (sign === ",") endField();
    else if (sign === "\n") {
      endLine();
      began = line;
    } else if (sign !== "\r") field += sign;
  }
  if (quoted) throw new ReportError("csv_open", { line: began });
  endLine();
  return lines;
}

/** Whether the first line names the columns; looked at before the rest is read, for it may be any text at all. */
function checkHeader(content) {
  const first = content.split("\n", 1)[0];
  const names = first.split(",").map((name) => name.trim().replace(/^"|"$/g, ""));
  const missing = NEEDED.filter((name) => !names.includes(name));
  if (!missing.length) return;
  const few = missing.slice(0, 4).join(", ") + (missing.length > 4 ? ", …" : "");
  throw new ReportError("csv_header", { column: few, found: short(first.trim()) });
}

function readCsv(content) {
  checkHeader(content);
  const [head, ...lines] = parseCsv(content);
  const names = head.fields.map((name) => name.trim());
  if (!lines.length) throw new ReportError("no_rows");
  const numbers = new Set([...POSITIVE, ...TIMES]);
  const rows = lines.filter(({ fields }) => fields.join() !== head.fields.join()).map(({ fields, line }) => {
    if (fields.length !== names.length) throw new ReportError("csv_cells", { line, found: fields.length, wants: names.length });
    const row = {};
    names.forEach((name, index) => {
      const value = fields[index];
      // What is no number stays a text, so that it is named where it is found.
      if (value === "") row[name] = null;
      else row[name] = numbers.has(name) && DECIMAL.test(value) ? Number(value) : value;
    });
    return [row, `CSV:${line}`];
  });
  return { rows, machine: null, torch: null, warnings: [] };
}

/** A report as { cases, machine, torch, warnings }. */
export function readReport(content) {
  const bare = content.replace(/^\uFEFF/, "");
  if (bare.trim() === "") throw new ReportError("empty");
  const found = /^\s*[[{]/.test(bare) ? readJson(bare) : readCsv(bare);
  if (found.rows.length > MOST_ROWS) throw new ReportError("too_many", { found: found.rows.length, most: MOST_ROWS });
  const { rows, ...about } = found;
  return { ...about, cases: casesOf(rows.map(([row, where]) => [checkRow(row, where), where])) };
}
