// The player: a cursor that walks over time, by itself, by button, or dragged.
import { button } from "../common/controls.js";
import { calm, freshId, h } from "../common/dom.js";
import { nextMoment } from "./logic.js";
import { us } from "./says.js";

const LASTS_MS = 7000; // playing from end to end
const STOPS = 16; // where motion is reduced: so many stops at most
const STOP_MS = 900;

/**
 * `onTime(time, done)`: the cursor is there; `done` where it stays. Returns { element, set(moments, span, time),
 * stop(), time() }.
 */
export function player(words, onTime) {
  let span = 1;
  let moments = [0];
  let time = 0;
  let running = null;

  const input = h("input", { type: "range", min: 0, max: 1000, step: 1, id: freshId("time"), "aria-label": words.time });
  const told = h("output", { for: input.id });
  const play = button(words.play, () => (running ? stop(true) : start()), { class: "ck-button ck-timeline__play" });
  const back = button("‹", () => jump(-1), { "aria-label": words.earlier, title: words.earlier });
  const forth = button("›", () => jump(1), { "aria-label": words.later, title: words.later });

  function show(next) {
    time = Math.min(Math.max(next, 0), span);
    input.value = String((time / span) * 1000);
    told.textContent = us(time);
    input.setAttribute("aria-valuetext", us(time));
  }
  function go(next, done) {
    show(next);
    onTime(time, done);
  }
  function jump(direction) {
    stop(false);
    go(nextMoment(moments, time, direction), true);
  }
  function stop(tell) {
    if (!running) return;
    running();
    running = null;
    play.textContent = words.play;
    if (tell) go(time, true);
  }
  function start() {
    if (time >= span * (1 - 1e-9)) go(0, false);
    play.textContent = words.pause;
    if (calm()) {
      const clock = setInterval(() => {
        if (!play.isConnected) clearInterval(clock);
        else if (time >= span * (1 - 1e-9)) stop(true);
        else go(nextMoment(moments, time, 1, span / STOPS), false);
      }, STOP_MS);
      running = () => clearInterval(clock);
      return;
    }
    let last = performance.now();
    let frame = 0;
    const tick = (now) => {
      if (!play.isConnected) return;
      const next = time + ((now - last) / LASTS_MS) * span;
      last = now;
      go(next, false);
      if (next >= span) stop(true);
      else frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    running = () => cancelAnimationFrame(frame);
  }
  input.addEventListener("input", () => {
    stop(false);
    go((Number(input.value) / 1000) * span, false);
  });
  input.addEventListener("change", () => go(time, true));

  return {
    element: h("div", { class: "ck-timeline__player" }, play, back, forth, input, told),
    set(nextMoments, nextSpan, nextTime) {
      moments = nextMoments;
      span = nextSpan || 1;
      if (!running) show(nextTime);
      else show(time);
    },
    /** The cursor was moved elsewhere. */
    moved(next) {
      stop(false);
      show(next);
    },
    time: () => time,
  };
}
