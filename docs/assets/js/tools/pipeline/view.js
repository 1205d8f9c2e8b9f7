// The pipeline explorer on its page: one function in all its forms, and what of it became what.
import { button, choices, copyButton, select } from "../common/controls.js";
import { calm, fill, h, withCode } from "../common/dom.js";
import { open } from "../common/state.js";
import { BACKENDS, firstLine, pressStage, selectionOf, specOf, UNCOMPILED } from "./logic.js";
import { picture, refill } from "./picture.js";
import { player } from "./player.js";
import { backendName, hasBackwardGraph, many, pickSentence, stageName, walkSentence } from "./say.js";
import { phasesOf, phaseShown, sceneOf, storyOf, viewOf } from "./scene.js";
import { stageColumn } from "./stages.js";
import { readingTime } from "./walk.js";

/** Places are measured to scroll and to move: not before the styles are there. */
const styled = (place) => Promise.all([...place.querySelectorAll('link[rel="stylesheet"]')].map((link) => (
  link.sheet || new Promise((resolve) => { for (const event of ["load", "error"]) link.addEventListener(event, resolve); })
)));

const SITE = new URL("../../../../", import.meta.url);

export async function mount(place, payload, { fetchPart }) {
  const { words } = payload;
  const examples = (payload.examples ?? []).filter(({ targets }) => targets.length);
  if (!examples.length) {
    place.append(h("p", { class: "ck-pipe__empty" }, words.nothing));
    return;
  }
  const state = open(specOf(examples), place);
  const narrow = matchMedia("(max-width: 44.984375em)");
  const parts = new Map();
  let scene;
  let shown = {};
  let columns = new Map();
  let hovered = "";

  // ---- what stands on the page
  const example = select(words.example, examples.map(({ id, title }) => [id, title]),
    (id) => state.set({ example: id, graph: 1, pick: "", step: 0 }));
  const target = choices(words.target, ["cpu", "cuda"].map((id) => [id, words[`target_${id}`]]),
    (id) => state.set({ target: id, pick: "", step: 0 }));
  const backend = choices(words.backend, BACKENDS.map((id) => [id, backendName(words, id)]), (id) => state.set({ backend: id, step: 0 }));
  const graph = select(words.graph, [], (number) => state.set({ graph: Number(number), pick: "", step: 0 }));
  const about = h("p", { class: "ck-pipe__about-example" });
  const drawing = picture(words);
  const walk = player(words, (step) => state.set({ step }));
  const said = h("p", { class: "ck-pipe__said", "aria-live": "polite" });
  const source = h("div", { class: "ck-pipe__source" });
  const chips = h("div", { class: "ck-pipe__steps", role: "group", "aria-label": words.stages });
  const strip = h("div", { class: "ck-pipe__strip" });
  const foot = h("p", { class: "ck-provenance" });
  const main = h("div", { class: "ck-pipe" },
    h("div", { class: "ck-tool__controls ck-pipe__controls" }, example.element, target.element, graph.element),
    about,
    h("div", { class: "ck-pipe__backends" }, backend.element, h("div", { class: "ck-pipe__actions" },
      copyButton(words.copy, words.copied, () => state.link()),
      button(words.reset, () => { walk.stop(); state.reset(); }))),
    h("div", { class: "ck-pipe__bar" }, walk.element, said),
    h("div", { class: "ck-pipe__top" }, h("div", { class: "ck-pipe__left" }, source, drawing.note), drawing.element),
    chips, strip,
    foot);

  const hasBackward = () => hasBackwardGraph(scene);
  const name = (stage) => stageName(words, stage, hasBackward());
  const nameOf = (id) => name(scene.stages.find((stage) => stage.id === id));

  // ---- drawing
  function drawScene(now) {
    scene = sceneOf(parts.get(now.example), now);
    columns = new Map(scene.stages.map((stage, index) => [stage.id, () => stageColumn(stage, {
      name: name(stage), about: words[`about_${stage.id.replace(/_[fb]w$/, "")}`], number: index + 1,
    })]));
    const { targets } = examples.find(({ id }) => id === now.example);
    const { generated_only: unrun, notes = [], record = payload.record } = parts.get(now.example).targets[scene.target];
    const missing = Object.entries(parts.get(now.example).targets)
      .flatMap(([id, { reason }]) => (reason ? [`${words[`target_${id}`]}${words.colon}${reason}`] : []));
    about.replaceChildren(
      unrun ? h("span", { class: "ck-badge ck-badge--unavailable", title: words.generated_title }, words.generated) : "",
      ...withCode(examples.find(({ id }) => id === now.example).about));
    target.element.hidden = targets.length < 2;
    graph.offer(scene.graphs.map(({ title }, index) => [String(index + 1), title]));
    graph.element.hidden = scene.graphs.length < 2;
    for (const id of BACKENDS) {
      const other = sceneOf(parts.get(now.example), { ...now, backend: id });
      const label = backend.element.querySelector(`input[value="${id}"] + label`);
      const count = many(id === "inductor" ? words.n_kernels : words.n_launches, other.count);
      label.replaceChildren(h("span", { class: `ck-backend ck-backend--${id === UNCOMPILED ? "none" : id}` }, backendName(words, id)), h("small", {}, count));
    }
    const link = (address, text) => h("a", { href: new URL(address, SITE).href }, text);
    foot.replaceChildren(
      ...[unrun && !notes.length && words.generated_title, ...notes, ...missing].filter(Boolean).flatMap((line) => [...withCode(line), h("br")]),
      record.stale ? h("span", { class: "ck-badge ck-badge--stale" }, words.stale) : "",
      fill(words.recorded, { machine: record.machine, torch: record.torch, date: record.date }), " · ",
      link(record.url, words.record), " · ", link(parts.get(now.example).source.url, words.source_file));
  }

  function column(id) {
    if (typeof columns.get(id) === "function") columns.set(id, columns.get(id)());
    return columns.get(id);
  }

  const chipOf = (stage, view) => h("button", {
    type: "button", dataset: { chip: stage.id }, "aria-pressed": String(view.visible.includes(stage.id)),
    "aria-current": view.step && scene.steps[view.step - 1].stage === stage.id ? "step" : undefined,
    onclick: () => {
      walk.stop();
      state.set({ shown: pressStage(view.visible, stage.id, { narrow: narrow.matches }), step: 0 });
    },
  }, h("span", { class: "ck-pipe__number" }, scene.stages.indexOf(stage) + 1), stageName(words, stage, false));

  /** One row of stages; with a backward graph a row for each graph. */
  function chipRows(view) {
    const beside = scene.stages.filter(({ id }) => id !== "source");
    const row = (title, own) => h("div", { class: "ck-pipe__chiprow" }, h("span", { class: "ck-pipe__rowname" }, title), own.map((stage) => chipOf(stage, view)));
    if (!hasBackward()) return [row(words.show, beside)];
    const of = (pass) => beside.filter(({ id }) => id.endsWith("_bw") === (pass === "bw"));
    return [row(words.forward, of("fw")), row(words.backward, of("bw"))];
  }

  function drawStages(view) {
    refill(chips, chipRows(view));
    for (const chip of chips.querySelectorAll("[aria-pressed=true]")) {
      chip.parentElement.scrollLeft = chip.offsetLeft - chip.parentElement.offsetLeft - 80; // On a phone the row moves.
    }
    const wanted = view.visible.map((id) => column(id).element);
    if (wanted.length !== strip.children.length || wanted.some((one, at) => strip.children[at] !== one)) strip.replaceChildren(...wanted);
    const first = scene.stages.some(({ id }) => id === "source") ? [column("source").element] : [];
    if (source.firstChild !== first[0]) source.replaceChildren(...first);
    for (const stage of main.querySelectorAll("[data-stage]")) {
      stage.toggleAttribute("data-current", Boolean(view.step) && scene.steps[view.step - 1].stage === stage.dataset.stage);
    }
  }

  function drawPicture(now, view, moving) {
    const phases = phasesOf(scene);
    const links = phases.map(({ phase, count, step }) => ({
      label: many(phase === "launches" && now.backend === "inductor" ? words.n_kernels : words[`n_${phase}`], count),
      current: phase === phaseShown(phases, view.phase),
      press: () => { walk.stop(); state.set({ step }); },
    }));
    const recorded = now.backend === "cudagraphs" && scene.target === "cuda" && view.phase === "launches";
    const launched = now.backend === "inductor" ? words.hint_inductor : scene.route.what ?? "";
    const notes = [
      view.phase === "launches" ? launched : words[`hint_${view.phase}`],
      scene.graph.note, scene.graphs.length > 1 && fill(words.graphs, { n: scene.graphs.length }),
    ];
    drawing.draw(view.groups, {
      backend: now.backend, links, moving,
      replay: recorded ? words.replay : "",
      hint: notes.filter(Boolean).join(words.gap),
    });
  }

  const onPage = () => ["source", ...shown.visible].map((id) => columns.get(id)).filter((one) => one?.element);

  function light() {
    const pinned = !hovered;
    const selection = pinned ? shown.selection : selectionOf(scene.graph, scene.stages, hovered);
    for (const one of onPage()) one.light(selection, pinned);
    drawing.light(selection, pinned);
    for (const chip of chips.querySelectorAll("[data-chip]")) {
      chip.toggleAttribute("data-lit", firstLine(scene.stages.find(({ id }) => id === chip.dataset.chip), selection) >= 0);
    }
  }

  function say(view) {
    const text = view.step ? walkSentence(words, scene, scene.steps[view.step - 1]) : pickSentence(words, scene, storyOf(scene, view.selection));
    const title = view.step ? [h("strong", {}, nameOf(scene.steps[view.step - 1].stage)), words.colon] : [];
    if (said.dataset.text !== text) said.replaceChildren(...title, ...withCode(text));
    said.dataset.text = text;
    walk.follow(readingTime(text));
  }

  function draw(now) {
    if (!parts.has(now.example)) {
      load(now.example);
      return;
    }
    const key = [now.example, now.target, now.backend, now.graph].join();
    const same = key === shown.key;
    if (!same) drawScene(now);
    const view = { key, example: now.example, ...viewOf(scene, now, narrow.matches) };
    const before = shown;
    shown = view;
    example.show(now.example);
    target.show(scene.target);
    backend.show(now.backend);
    graph.show(String(scene.graphs.indexOf(scene.graph) + 1));
    walk.show(view.step, scene.steps.length);
    drawStages(view);
    if (!same || before.phase !== view.phase) drawPicture(now, view, before.example === view.example);
    else drawPressed(view);
    hovered = "";
    light();
    say(view);
    const moved = !same || now.pick !== before.pick || view.visible.join() !== before.visible.join();
    if (moved) for (const one of onPage()) if (one.id !== view.selection.stage) one.reveal(same && !calm());
    shown.pick = now.pick;
  }

  /** The chain keeps its focus: only what is pressed changes. */
  function drawPressed(view) {
    const phases = phasesOf(scene);
    drawing.element.querySelectorAll(".ck-pipe__chain button").forEach((button, index) => {
      button.setAttribute("aria-pressed", String(phases[index].phase === phaseShown(phases, view.phase)));
    });
  }

  const partOf = (id) => examples.find((one) => one.id === id).part;

  /** Fetch an example that the reader chose, and draw it if it is still the one wanted. */
  async function load(id) {
    main.setAttribute("aria-busy", "true");
    try {
      parts.set(id, await fetchPart(partOf(id)));
      if (state.get().example === id) draw(state.get());
    } catch (error) {
      said.dataset.text = "";
      said.replaceChildren(fill(words.failed, { error: error.message }), " ", button(words.again, () => load(id)));
    } finally {
      main.removeAttribute("aria-busy");
    }
  }

  // ---- pointing
  const picked = (event) => (event.target instanceof Element ? event.target.closest("[data-pick]")?.dataset.pick ?? "" : "");
  const point = (pick) => {
    if (pick === hovered || !scene) return;
    hovered = pick;
    light();
  };
  const choose = (pick) => {
    walk.stop();
    state.set({ pick: state.get().pick === pick ? "" : pick });
  };
  main.addEventListener("pointerover", (event) => event.pointerType === "mouse" && point(picked(event)));
  main.addEventListener("pointerleave", () => point(""));
  main.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && point(picked(event)));
  main.addEventListener("focusout", () => point(""));
  main.addEventListener("click", (event) => picked(event) && choose(picked(event)));
  main.addEventListener("keydown", (event) => {
    const line = event.target.closest?.(".ck-pipe__line");
    if (event.key === "Escape") {
      walk.stop();
      state.set({ pick: "", step: 0 });
    } else if (line && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      choose(line.dataset.pick);
    } else if (line && !event.shiftKey && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      event.preventDefault();
      const there = onPage();
      const at = there.findIndex((one) => one.element.contains(line)) + (event.key === "ArrowRight" ? 1 : -1);
      there[at]?.focus();
    }
  });
  narrow.addEventListener("change", () => scene && draw(state.get()));

  const first = state.get().example;
  const [part] = await Promise.all([fetchPart(partOf(first)), styled(place)]);
  parts.set(first, part);
  place.append(main);
  state.watch(draw);
}
