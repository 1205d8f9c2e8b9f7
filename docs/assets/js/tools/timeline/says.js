// What the timeline says: times, blocks and symbols in words.
import { fill, h } from "../common/dom.js";
import { number, quantity, scaleOf } from "../common/format.js";
import { held } from "./logic.js";

/** A time in the unit that suits it. */
export const us = (value) => quantity(value, "us");

/** Marks of an axis in words: one unit for all, and no more digits than the distance between them needs. */
export function ticks(times) {
  const step = times.length > 1 ? times[1] - times[0] : times[0] || 1;
  const { factor, symbol: unit } = scaleOf(times.at(-1) || 1, "us");
  const places = Math.max(0, -Math.floor(Math.log10(step * factor) + 1e-9));
  return times.map((time) => `${number(time * factor, { places })}\u202f${unit}`);
}

/** Each term as the chapters write it: a letter and what stands below it. */
const SYMBOLS = {
  m: ["m"], kernels: ["⌈m/g⌉"], group: ["g"], launch: ["t", "launch"], compute: ["t", "compute"],
  aotsetup: ["T", "setup"], aotlaunch: ["t", "launch"], call: ["T", "setup"], fused: ["t", "fused"],
  graphcall: ["T", "setup"], replay: ["T", "launch graph"], capture: ["T", "capture"],
};

/** A term's symbol as nodes. */
export function symbol(term) {
  const [letter, below] = SYMBOLS[term];
  return [h("i", {}, letter), below ? h("sub", {}, below) : null];
}

/** The kind of block that a term is the length of. */
export const KIND = {
  launch: "launch", aotlaunch: "launch", compute: "compute", fused: "compute", aotsetup: "setup", call: "setup",
  graphcall: "setup", replay: "replay", capture: "capture",
};

/** A formula with its symbols, or filled in, as nodes. */
export const symbols = (formula) => formula.map((part) => (typeof part === "string" ? part : h("span", { class: "ck-timeline__term", "data-kind": KIND[part.term] }, symbol(part.term))));
export const filled = (formula) => formula.map((part) => (typeof part === "string" ? part : number(part.value, Number.isInteger(part.value) ? { places: 0 } : {})));

/** What a block is: "launch of operator 3 of 16". */
export function what(words, one, { kind, index }) {
  if (kind === "setup") return words.setup;
  if (kind === "replay") return words.replay;
  if (kind === "capture") return words.capture;
  const values = { index, count: one.count };
  const many = one.chef === "inductor";
  if (!many) return fill(kind === "launch" ? words.launch_of : words.compute_of, values);
  const [first, last] = held(one, index);
  const operators = first === last ? fill(words.holds_one, { first }) : fill(words.holds, { first, last });
  return fill(kind === "launch" ? words.launch_of_kernel : words.compute_of_kernel, { ...values, operators });
}

/** A Chinese sentence without the blanks that would stand beside Latin words. */
export const tidy = (text) => text.replace(/([\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]) +(?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])/g, "$1");

/** All about a block, in a sentence. */
export function blockSentence(words, names, one, block, steps) {
  const { lane, step, start, end } = block;
  const thing = what(words, one, block);
  return fill(steps > 1 && step ? words.block_of_step : words.block, {
    chef: names.chef[one.chef], lane: laneName(words, one.device, lane), what: thing, step,
    start: us(start), end: us(end), length: us(end - start),
  });
}

/** The name of a lane: on a CPU both are the same thread. */
export function laneName(words, device, lane) {
  if (device === "cpu") return lane === "host" ? words.lane_launching : words.lane_computing;
  return lane === "host" ? words.lane_host : words.lane_device;
}

/** The name of a preset: what it is, and on which machine where there are several. */
export function presetName(words, preset, machines) {
  const facts = { ...preset.facts };
  if (facts.elements) facts.elements = number(facts.elements, { places: 0 });
  const name = fill(words[`preset_${preset.kind}`], facts);
  return preset.machine && Object.keys(machines).length > 1 ? `${name} · ${machines[preset.machine]}` : name;
}
