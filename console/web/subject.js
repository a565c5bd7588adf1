// What an action is about, in words: the elements that match a filter, or those with some ids.

import { visible } from "./bytes.js";
import { count, counted } from "./figures.js";

/** Returns a filter in words. */
export function matchText({ view, id, text, group }, noun = view === "dead" ? "dead letter" : "element") {
  const filters = [
    group && `of group “${group}”`,
    id && `whose id contains “${id}”`,
    text && `whose text contains “${text}”`,
  ].filter(Boolean);
  const kind = { held: "All that are held", due: "All that are due" }[view] ?? `All ${noun}s`;
  return `${kind}${filters.length ? ` ${filters.join(" and ")}` : " of the queue"}`;
}

/** Returns what an entry of the log, or a batch, is about: the filter, or the first ids and their number. */
export function subjectText(on) {
  if (on?.match) return visible(matchText(on.match));
  const [names, noun] = on?.entries ? [on.entries, "dead letter"] : [on?.ids, "id"];
  if (!names) return "";
  const left = on.number - names.length;
  const all = `${names.map(visible).join(", ")}${left > 0 ? `, and ${count(left)} more` : ""}`;
  return on.number > 1 || on.entries ? `${counted(on.number, noun)}: ${all}` : all;
}
