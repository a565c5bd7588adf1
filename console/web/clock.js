// The server's clock, and the moments on the page that count down by it.

import { h } from "./dom.js";
import { fullMoment, isMoment, moment, relative } from "./figures.js";

let offset = 0;

/** Sets the clock by a reply's `now`. */
export function setClock(serverNow) {
  if (serverNow) offset = serverNow - Date.now();
}

export const now = () => Date.now() + offset;

/** Creates a moment as text that counts: "in 5 min". The full moment is its tooltip. `past`: the text once it has passed. */
export function countdown(ms, past = "") {
  if (!isMoment(ms)) return h("span", { class: "muted" }, relative(ms, now()));
  const data = { counts: String(ms), past };
  const time = h("time", { datetime: new Date(ms).toISOString(), title: fullMoment(ms), data });
  time.textContent = counted(time);
  return time;
}

function counted({ dataset: { counts, past } }) {
  return past && Number(counts) <= now() ? past : relative(Number(counts), now());
}

/** Creates the moment of a queue's next element: "due" once it has passed, and the end of the pause of a paused queue. */
export function nextMoment({ next_deadline: ms, paused, paused_until: until }) {
  if (paused) return isMoment(until) ? h("span", { class: "pause" }, "paused until ", timeOfDay(until)) : "paused";
  return ms === null || ms === undefined ? "–" : countdown(ms, "due");
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
      const text = counted(time);
      if (time.textContent !== text) time.textContent = text;
    }
  }, 1000);
}
