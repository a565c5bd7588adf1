// The groups of a queue: the greatest of them, and one that was chosen.

import { line, shortened } from "./bytes.js";
import { countdown } from "./clock.js";
import { h } from "./dom.js";
import { count, counted } from "./figures.js";
import { queueHref } from "./route.js";

/** Characters of a name, at most. */
const NAME = 40;

/** Returns the number of groups and the greatest of them, each with its number of elements and its oldest. */
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
        h(
          "a",
          { href: queueHref(queue, { group: group.group_b64 }), title: "Shows this group alone" },
          h("bdi", {}, shortened(line(group.group_b64), NAME)),
        ),
        h("strong", { title: "Elements" }, count(group.length)),
        group.paused
          ? h("span", { class: "pause" }, "paused")
          : h("span", { class: "muted", title: "Its oldest element is due" }, countdown(group.next_deadline, "due")),
      ]),
    ),
  ]);
}
