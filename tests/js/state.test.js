import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, encode } from "../../docs/assets/js/tools/common/state.js";

const SPEC = {
  model: { kind: "choice", of: ["mlp", "cnn"], fallback: "mlp" },
  steps: { kind: "number", min: 1, max: 1e6, whole: true, fallback: 100 },
  hidden: { kind: "list", of: ["eager", "inductor"], fallback: [] },
  note: { kind: "text", most: 5, fallback: "" },
  cold: { kind: "flag", fallback: true },
};

test("a state comes back from its address", () => {
  const state = { model: "cnn", steps: 7, hidden: ["inductor", "eager"], note: "a&b=", cold: false };
  assert.deepEqual(decode(SPEC, encode(SPEC, state)), state);
});

test("what falls back stays out of the address, and other keys stay in it", () => {
  assert.equal(encode(SPEC, decode(SPEC, "")), "");
  assert.equal(encode(SPEC, { ...decode(SPEC, ""), steps: 5 }, "?x=1&cold=0"), "?x=1&steps=5");
});

test("what is no value of the tool falls back", () => {
  const wrong = "?model=gpt&steps=-1&hidden=eager,tvm&note=longer&cold=yes";
  assert.deepEqual(decode(SPEC, wrong), decode(SPEC, ""));
  for (const steps of ["", "NaN", "Infinity", "1e99", "x"]) assert.equal(decode(SPEC, `?steps=${steps}`).steps, 100);
});

test("the fallback of a list is not shared between states", () => {
  decode(SPEC, "").hidden.push("eager");
  assert.deepEqual(decode(SPEC, "").hidden, []);
});
