// The server's clock, and the moments on the page that count down by it.

import { h } from "./dom.js";
import { fullMoment, isMoment, moment, relative } from "./figures.js";

let offset = 0;

/** Sets the clock by a reply's `now`. */
export function setClock(serverNow) {
  if (serverNow) offset = serverNow - Date.now();
}

export const now = () => Date.now() + offset;

/** Creates a moment as text that counts: "in 5 min". The full moment is its tooltip. */
export function countdown(ms) {
  if (!isMoment(ms)) return h("span", { class: "muted" }, relative(ms, now()));
  const time = h("time", { datetime: new Date(ms).toISOString(), title: fullMoment(ms), data: { counts: String(ms) } });
  time.textContent = relative(ms, now());
  return time;
}

/** Creates the moment of a queue's next element: "due" once it has passed, and the end of the pause of a paused queue. */
export function nextMoment({ next_deadline: ms, paused, paused_until: until }) {
  if (paused) return isMoment(until) ? ["paused until ", timeOfDay(until)] : "paused";
  if (ms === null || ms === undefined) return "–";
  return ms <= now() ? "due" : countdown(ms);
}

/** Creates a moment as the time of the day. */
export function timeOfDay(ms) {
  if (!isMoment(ms)) return h("span", { class: "muted" }, "–");
  return h("time", { datetime: new Date(ms).toISOString(), title: fullMoment(ms) }, moment(ms, now()));
}

/** Counts down all moments on the page, each second. */
export function startCounting() {
  setInterval(() => {
    for (const time of document.querySelectorAll("time[data-counts]")) {
      const text = relative(Number(time.dataset.counts), now());
      if (time.textContent !== text) time.textContent = text;
    }
  }, 1000);
}
