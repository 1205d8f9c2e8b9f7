// A tool's state lives in the address, so that a link repeats what a reader saw.
//
// A tool describes its state once:
//   const SPEC = {
//     model:  { kind: "choice", of: ["mlp", "cnn"], fallback: "mlp" },
//     steps:  { kind: "number", min: 1, max: 1e9, fallback: 10000 },     whole: true for whole numbers
//     hidden: { kind: "list", of: ["eager", "inductor"], fallback: [] },
//     note:   { kind: "text", fallback: "" },                            most: 200 characters
//     cold:   { kind: "flag", fallback: true },
//   };
// What an address holds that is no such value falls back: an old link still opens. Fallbacks stay out of the address.

const READ = {
  choice: (text, { of }) => (of.includes(text) ? text : undefined),
  number: (text, { min = -Infinity, max = Infinity, whole = false }) => {
    const value = text.trim() === "" ? NaN : Number(text);
    if (!Number.isFinite(value) || value < min || value > max) return undefined;
    return whole ? Math.round(value) : value;
  },
  list: (text, { of }) => {
    const items = text === "" ? [] : text.split(",");
    return items.every((item) => of.includes(item)) ? [...new Set(items)] : undefined;
  },
  text: (text, { most = 200 }) => (text.length <= most ? text : undefined),
  flag: (text) => ({ 1: true, 0: false })[text],
};

const WRITE = {
  choice: String,
  number: String,
  list: (items) => items.join(","),
  text: String,
  flag: (value) => (value ? "1" : "0"),
};

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** The state that a query string ("?a=1") holds. */
export function decode(spec, search) {
  const given = new URLSearchParams(search);
  const state = {};
  for (const [key, rule] of Object.entries(spec)) {
    const text = given.get(key);
    const value = text === null ? undefined : READ[rule.kind](text, rule);
    state[key] = value === undefined ? structuredClone(rule.fallback) : value;
  }
  return state;
}

/** The query string of a state, "" where all is as it falls back. Keys that are not the tool's own are kept. */
export function encode(spec, state, search = "") {
  const query = new URLSearchParams(search);
  for (const [key, rule] of Object.entries(spec)) {
    if (same(state[key], rule.fallback)) query.delete(key);
    else query.set(key, WRITE[rule.kind](state[key]));
  }
  const text = query.toString().replaceAll("%2C", ",");
  return text ? `?${text}` : "";
}

/**
 * The state of the tool at `place`: `state.get()`, `state.set({ key: value })`, `state.reset()`, and
 * `state.watch(draw)`, which draws now and after each change. The address follows.
 */
export function open(spec, place) {
  let current = decode(spec, location.search);
  const watchers = [];
  const tell = () => {
    for (const draw of watchers) draw(current);
  };
  const write = () => {
    if (!place.isConnected) return;
    history.replaceState(history.state, "", location.pathname + encode(spec, current, location.search) + location.hash);
  };
  return {
    get: () => current,
    set(change) {
      const next = { ...current, ...change };
      if (same(next, current)) return;
      current = next;
      write();
      tell();
    },
    reset() {
      current = decode(spec, "");
      write();
      tell();
    },
    watch(draw) {
      watchers.push(draw);
      draw(current);
    },
    /** The address that repeats this state. */
    link: () => location.origin + location.pathname + encode(spec, current, "") + location.hash,
  };
}
