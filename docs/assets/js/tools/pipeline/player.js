// The walk: play, pause, back, next. It goes on by itself only while it plays, and never where less motion is asked for.
import { calm, fill, h } from "../common/dom.js";
import { button } from "../common/controls.js";

/** `go(step)` shows a step (0: no walk). Returns { element, show(step, steps), stop(), follow(milliseconds) }. */
export function player(words, go) {
  let current = 0;
  let last = 0;
  let playing = false;
  let timer;
  let stay = 0;
  const play = button("", () => {
    if (playing) return stop();
    playing = !calm();
    go(current === last || !current ? 1 : current + (calm() ? 1 : 0));
    arm();
  }, { class: "ck-button ck-pipe__play" });
  const back = button(words.back, () => step(-1));
  const next = button(words.next, () => step(1));
  const place = h("span", { class: "ck-pipe__place" });

  function step(by) {
    stop();
    go(Math.max(0, Math.min(last, current + by)));
  }
  function stop() {
    playing = false;
    clearTimeout(timer);
    paint();
  }
  function arm() {
    clearTimeout(timer);
    if (playing && current >= last) playing = false;
    if (playing) timer = setTimeout(() => go(current + 1), stay);
    paint();
  }
  function paint() {
    play.textContent = playing ? words.pause : words.play;
    // Not disabled: that would take the focus away from under the reader's finger.
    back.setAttribute("aria-disabled", String(current === 0));
    next.setAttribute("aria-disabled", String(current === last && last > 0));
    place.textContent = current ? fill(words.place, { n: current, of: last }) : "";
  }

  paint();
  return {
    element: h("div", { class: "ck-pipe__player", role: "group", "aria-label": words.walk }, play, back, next, place),
    show(step, steps) {
      current = step;
      last = steps;
      if (!step) playing = false;
      paint();
    },
    stop,
    /** While it plays: the next step after so many milliseconds. */
    follow(milliseconds) {
      stay = milliseconds;
      arm();
    },
  };
}
