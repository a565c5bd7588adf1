// The groups of a queue.

import { line, shortened } from "./bytes.js";
import { h } from "./dom.js";
import { count, counted } from "./figures.js";

/** Characters of a name, at most. */
const NAME = 40;

/** Returns the number of groups and the greatest of them, with their numbers of elements; nothing without groups. */
export function greatest(queue, groups) {
  if (!queue.groups) return [];
  return h("div", { class: "limits", role: "group", "aria-label": "Greatest groups" }, [
    h(
      "span",
      {},
      counted(queue.groups, "group"),
      groups.length < queue.groups && groups.length > 0 && ", the greatest:",
    ),
    groups.map((group) =>
      h("span", { class: "limit" }, [
        h("bdi", {}, shortened(line(group.group_b64), NAME)),
        h("strong", {}, count(group.length)),
      ]),
    ),
  ]);
}
