import assert from "node:assert/strict";
import { test } from "node:test";
import * as logic from "../../docs/assets/js/tools/timeline/logic.js";
import * as profile from "../../docs/assets/js/tools/timeline/profile.js";

const VALUES = { m: 4, launch: 2, compute: 5, aotsetup: 10, aotlaunch: 3, call: 12, group: 3, fused: 6, graphcall: 8, replay: 7, capture: 100 };
const planned = (chef, device, more = {}) => logic.plan(chef, { ...VALUES, ...more }, device);
const near = (one, other) => assert.ok(Math.abs(one - other) <= 1e-9 * Math.max(1, Math.abs(other)), `${one} is not ${other}`);

test("on a CPU launch and compute take turns on one thread", () => {
  const some = logic.blocks(planned("none", "cpu"));
  assert.deepEqual(some.slice(0, 3).map(({ lane, start, end }) => [lane, start, end]), [["host", 0, 2], ["device", 2, 7], ["host", 7, 9]]);
  const inTime = [...some].sort((one, other) => one.start - other.start);
  for (let index = 1; index < inTime.length; index += 1) near(inTime[index].start, inTime[index - 1].end);
  assert.equal(logic.endOf(some), 28);
});

test("on a GPU the host does not wait, kernels queue, and one starts no sooner than its launch ends", () => {
  for (const [launch, compute] of [[2, 5], [5, 2]]) {
    const some = logic.blocks(planned("none", "gpu", { launch, compute }));
    const [host, device] = ["host", "device"].map((lane) => some.filter((block) => block.lane === lane));
    host.forEach(({ start }, index) => near(start, index * launch));
    device.forEach(({ start }, index) => near(start, Math.max(host[index].end, device[index - 1]?.end ?? 0)));
  }
});

test("a kernel of Inductor holds a group, the last one what is left", () => {
  const one = planned("inductor", "cpu");
  assert.equal(one.count, 2);
  assert.deepEqual([logic.held(one, 1), logic.held(one, 2)], [[1, 3], [4, 4]]);
  assert.equal(logic.endOf(logic.blocks(one)), 12 + 2 * (2 + 6));
});

test("a CPU records no CUDA graph: cudagraphs is there what aot_eager is", () => {
  const times = ["aot_eager", "cudagraphs"].map((chef) => logic.endOf(logic.blocks(planned(chef, "cpu"), 2, true)));
  assert.equal(times[0], times[1]);
  assert.ok(!logic.blocks(planned("cudagraphs", "cpu"), 1, true).some(({ kind }) => kind === "capture" || kind === "replay"));
});

test("a graph is captured once, launched once a step, and its kernels leave no gap", () => {
  const some = logic.blocks(planned("cudagraphs", "gpu"), 3, true);
  const count = (kind) => some.filter((block) => block.kind === kind).length;
  assert.deepEqual([count("capture"), count("replay"), count("compute"), count("launch")], [1, 3, 12, 0]);
  const kernels = some.filter(({ kind, step }) => kind === "compute" && step === 1);
  kernels.slice(1).forEach(({ start }, index) => near(start, kernels[index].end));
});

test("blocks end where the formulas say, on both devices, for one step and several", () => {
  let cases = 0;
  for (const device of ["cpu", "gpu"]) for (const m of [1, 2, 7, 64]) for (const launch of [0, 0.5, 6]) for (const compute of [0, 0.2, 6, 90]) {
    for (const setup of [0, 13]) for (const group of [1, 3, 64]) for (const steps of [1, 2, 4]) for (const record of [true, false]) {
      const values = { m, launch, compute, aotsetup: setup, aotlaunch: 1.7 * launch, call: setup, group, fused: 1.1 * compute, graphcall: setup, replay: 2 * launch, capture: 500 };
      for (const chef of logic.CHEFS) {
        const one = logic.plan(chef, values, device);
        near(logic.endOf(logic.blocks(one, steps, record)), logic.total(one, steps, record));
        cases += 1;
      }
    }
  }
  assert.ok(cases > 10000);
});

test("what is said of shares adds up to what the lanes do", () => {
  for (const device of ["cpu", "gpu"]) {
    for (const chef of logic.CHEFS) {
      const some = logic.blocks(planned(chef, device), 2, true);
      const { setup, launch, replay, capture, compute, idle, end } = logic.shares(some);
      near(compute + idle, end);
      if (device === "cpu") near(setup + launch + replay + capture + compute, end);
    }
  }
});

test("a chef without its values has no plan, and the others have theirs", () => {
  assert.equal(planned("inductor", "cpu", { fused: undefined }), null);
  assert.ok(planned("none", "cpu", { fused: undefined }));
  assert.ok(planned("cudagraphs", "cpu", { replay: undefined }));
  assert.equal(planned("cudagraphs", "gpu", { replay: undefined }), null);
});

test("a state's values go before the preset's, 0 too", () => {
  const values = logic.valuesOf({ values: { launch: 2, compute: 5 } }, { launch: 0, compute: null });
  assert.deepEqual([values.launch, values.compute, values.fused], [0, 5, undefined]);
});

test("what runs at a moment: a block's end belongs to the next", () => {
  const some = logic.blocks(planned("none", "cpu"));
  assert.equal(logic.at(some, "host", 0).index, 1);
  assert.equal(logic.at(some, "host", 2), null);
  assert.equal(logic.at(some, "device", 2).index, 1);
  assert.equal(logic.at(some, "device", 28), null);
});

test("moments are ascending and each once; stepping stops at both ends", () => {
  const times = logic.moments([logic.blocks(planned("none", "cpu")), logic.blocks(planned("none", "gpu"))]);
  times.slice(1).forEach((time, index) => assert.ok(time > times[index]));
  assert.equal(times[0], 0);
  assert.equal(logic.nextMoment(times, 0), 2);
  assert.equal(logic.nextMoment(times, 2, -1), 0);
  assert.equal(logic.nextMoment(times, 0, -1), 0);
  assert.equal(logic.nextMoment(times, times.at(-1)), times.at(-1));
  assert.ok(logic.nextMoment(times, 0, 1, 5) > 5);
  assert.equal(logic.nextMoment([], 3), 0);
});

test("an axis has round marks, not too many", () => {
  assert.deepEqual(logic.marks(0, 100, 5), [0, 20, 40, 60, 80, 100]);
  for (const span of [0.37, 14.03, 54500]) {
    for (const most of [2, 4, 11]) {
      const found = logic.marks(0, span, most);
      assert.ok(found.length >= 2 && found.length <= most + 1, `${span} ${most}: ${found}`);
      assert.ok(found.at(-1) <= span * (1 + 1e-9));
    }
  }
});

test("the quickest of some, or of none", () => {
  assert.deepEqual(logic.quickest({ none: 3, inductor: 2, aot_eager: 4 }), { chef: "inductor", time: 2 });
  assert.equal(logic.quickest({}), null);
});

const PROFILE = {
  columns: ["name", "lane", "step_phase", "depth", "start_us", "duration_us", "self_us"],
  events: [
    ["forward", "host", "forward", 0, 0, 10, 2],
    ["aten::linear", "host", "forward", 1, 1, 4, 1],
    ["aten::addmm", "host", "forward", 2, 2, 3, 3],
    ["aten::relu", "host", "forward", 1, 6, 2, 2],
    ["backward", "host", "backward", 0, 12, 8, 3],
    ["autograd::engine::evaluate_function: ReluBackward0", "host", "backward", 1, 13, 5, 5],
    ["gemm", "device", "", 1, 3, 20, null],
  ],
};

test("events of a profile know their caller and their row", () => {
  const events = profile.eventsOf(PROFILE);
  assert.deepEqual(events.map(({ parent }) => parent), [null, 0, 1, 0, null, 4, null]);
  assert.deepEqual(profile.lanesOf(events), [{ lane: "host", rows: 3 }, { lane: "device", rows: 1 }]);
  assert.deepEqual(profile.extent(events), [0, 23]);
  assert.deepEqual(profile.phases(events).map(({ name }) => name), ["forward", "backward"]);
  assert.deepEqual(events.map(profile.kindOf), ["phase", "operator", "operator", "operator", "phase", "autograd", "kernel"]);
  assert.equal(profile.shortName(events[5].name), "ReluBackward0");
});

test("keys lead along a row, and between caller and called", () => {
  const events = profile.eventsOf(PROFILE);
  const to = (id, key) => profile.moved(events, events[id], key).id;
  assert.deepEqual([to(1, "ArrowRight"), to(3, "ArrowRight"), to(5, "ArrowRight"), to(1, "ArrowLeft")], [3, 5, 5, 1]);
  assert.deepEqual([to(0, "ArrowDown"), to(2, "ArrowUp"), to(0, "ArrowUp"), to(5, "Home"), to(1, "End")], [1, 1, 0, 1, 5]);
  assert.equal(to(2, "ArrowDown"), 6);
  assert.equal(events[to(6, "ArrowUp")].lane, "host");
  assert.equal(to(6, "ArrowDown"), 6);
});

test("a window keeps inside the whole, and zooming keeps its centre", () => {
  const whole = [0, 100];
  assert.deepEqual(profile.windowed(whole, -20, 30), [0, 50]);
  assert.deepEqual(profile.windowed(whole, 80, 130), [50, 100]);
  assert.deepEqual(profile.windowed(whole, -50, 500), [0, 100]);
  assert.deepEqual(profile.zoomed(whole, [40, 60], 0.5), [45, 55]);
  assert.deepEqual(profile.zoomed(whole, [40, 60], 100), [0, 100]);
  const [from, to] = profile.windowed(whole, 50, 50);
  assert.ok(to > from);
  const events = profile.eventsOf(PROFILE);
  assert.deepEqual(profile.visible(events, [5.5, 11]).map(({ id }) => id), [0, 3, 6]);
});

test("a time from an address is kept to the picosecond, so that an axis can show it; 0 and what is missing stay", () => {
  const preset = { values: { ...VALUES, replay: undefined } };
  const none = Object.fromEntries(Object.keys(logic.TERMS).map((term) => [term, null]));
  const values = logic.valuesOf(preset, { ...none, launch: 1e-300, compute: 0.1234567, fused: 0 });
  assert.deepEqual([values.launch, values.compute, values.fused, values.m, values.replay], [0, 0.123457, 0, 4, undefined]);
});
