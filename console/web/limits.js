// The limits of a queue, and how much of them is used.

import { h } from "./dom.js";
import { count, counted, duration } from "./figures.js";

/** Returns the limits that are set: `[name, used, limit, text]`. */
export function used(queue) {
  const { length, held, rate, per, remember } = queue.limits ?? {};
  const found = [];
  if (length) found.push(["Length", queue.length, length, `${count(queue.length)} of ${count(length)}`]);
  if (held) found.push(["Held", queue.running ?? 0, held, `${count(queue.running ?? 0)} running of ${count(held)}`]);
  if (rate) {
    const gone = rate - (queue.rate_room ?? rate);
    found.push(["Rate", gone, rate, `${count(gone)} of ${count(rate)} in ${duration(per)}`]);
  }
  const each = queue.each ?? {};
  const ofEach = [
    each.length && `${count(each.length)} elements`,
    each.held && `${count(each.held)} held`,
    each.rate && `${count(each.rate)} in ${duration(each.per)}`,
  ].filter(Boolean);
  if (ofEach.length) found.push(["Each group", null, ofEach, ofEach.join(", ")]);
  if (remember) found.push(["Remember", null, remember, `ids for ${duration(remember)}`]);
  return found;
}

export function meters(queue) {
  const found = used(queue);
  if (!found.length) return [];
  return h(
    "div",
    { class: "limits", role: "group", "aria-label": "Limits" },
    found.map(([name, now, limit, text]) => {
      return h("span", { class: "limit" }, [
        h("span", {}, name, " ", h("strong", {}, text)),
        now !== null &&
          h("progress", {
            max: limit,
            value: Math.min(now, limit),
            "aria-label": `${name}: ${text}`,
            class: now >= limit ? "full" : null,
          }),
      ]);
    }),
  );
}

/** Returns the limits that apply to a group: its own, or those of each. The server does not tell how much is used. */
export function ofGroup({ limits: { length, held, rate, per } }) {
  const found = [
    length && `at most ${counted(length, "element")}`,
    held && `${count(held)} held at a time`,
    rate && `${count(rate)} in ${duration(per)}`,
  ].filter(Boolean);
  return found.join(", ") || "none";
}

/** Returns the limits as short texts, for a table. */
export const shortLimits = (queue) =>
  used(queue)
    .filter(([, now]) => now !== null)
    .map(([name, now, limit, text]) =>
      h(
        "span",
        { class: now >= limit ? "chip full" : "chip", title: `${name}: ${text}` },
        `${name.toLowerCase()} ${text}`,
      ),
    );
