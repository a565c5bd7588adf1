// One queue: its state, its limits, and what is in it.

import { ACTIONS, act, pausedUntil } from "./act.js";
import { get, nameOf } from "./api.js";
import { line, shortened } from "./bytes.js";
import { nextMoment, setClock, timeOfDay } from "./clock.js";
import { fill, h } from "./dom.js";
import { Elements } from "./elements.js";
import { count, duration, rate, size } from "./figures.js";
import { greatest } from "./groups.js";
import { History } from "./history.js";
import { meters, ofGroup } from "./limits.js";
import { actionButton, refusal } from "./rights.js";
import { queueHref } from "./route.js";
import { Schedules } from "./schedules.js";
import { stats } from "./stats.js";
import { Timeline } from "./timeline.js";
import { pausedBy } from "./why.js";

const TABS = [
  ["next", "Next"],
  ["due", "Due"],
  ["held", "Held"],
  ["dead", "Dead letters"],
  ["schedules", "Schedules"],
  ["timeline", "Timeline"],
  ["history", "Last hour"],
];

export class QueueView {
  every = 2000;

  constructor(route) {
    this.queue = nameOf(route);
    this.name = line(this.queue.key);
    this.title = this.name;
    this.place = h("p", { class: "muted where" });
    this.actions = h("div", { class: "toolbar", role: "group", "aria-label": "Actions on the queue" });
    this.trouble = h("div", {});
    this.stats = h("div", {});
    this.limits = h("div", {});
    this.groups = h("div", {});
    this.tabs = h("nav", { class: "tabs", "aria-label": "Views of the queue" });
    this.inside = h("div", {});
    this.element = h("section", { "aria-labelledby": "head" }, [
      h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, h("a", { href: "#/", data: { up: "" } }, "Overview")),
      h(
        "div",
        { class: "headline" },
        h("h1", { id: "head", tabindex: "-1" }, h("bdi", {}, shortened(this.name, 200))),
        this.actions,
      ),
      this.place,
      this.trouble,
      this.stats,
      this.limits,
      this.groups,
      this.tabs,
      this.inside,
    ]);
    this.go(route);
  }

  /** Whether a route is of this queue. */
  takes(route) {
    return (
      route.page === "queue" && ["node", "db", "key"].every((name) => (route[name] ?? "") === (this.queue[name] ?? ""))
    );
  }

  go(route) {
    this.group = route.group;
    const view = TABS.some(([name]) => name === route.view) ? route.view : "next";
    if (this.view === view) this.part.go?.({ ...route, view });
    else {
      this.part?.close?.();
      this.view = view;
      this.part = this.#create({ ...route, view });
      this.part.onchange = () => this.onchange?.();
      this.inside.replaceChildren(this.part.element);
    }
    this.#showTabs();
  }

  #create(route) {
    if (route.view === "schedules") return new Schedules(route, this.queue);
    if (route.view === "timeline") return new Timeline(this.queue);
    if (route.view === "history") {
      const charts = new History("The last hour of this queue");
      return {
        element: charts.element,
        refresh: (signal) => charts.refresh(this.queue, signal),
        close: () => charts.close(),
      };
    }
    return new Elements(route, this.queue);
  }

  #showTabs() {
    const queue = this.about?.queue;
    const numbers = {
      next: queue?.length,
      due: queue?.due,
      held: queue?.held,
      dead: queue?.dead?.count,
      schedules: queue?.schedules,
    };
    fill(
      this.tabs,
      TABS.map(([name, label]) =>
        h(
          "a",
          {
            href: queueHref(this.queue, { view: name, group: this.group }),
            "aria-current": name === this.view ? "page" : null,
          },
          [
            label,
            numbers[name] !== undefined &&
              numbers[name] !== null &&
              h("span", { class: "number" }, ` ${count(numbers[name])}`),
          ],
        ),
      ),
    );
  }

  async refresh(signal) {
    this.about = await get("queue", { ...this.queue, group: this.group }, signal);
    if (!this.about.queue.paused) this.by = undefined;
    else this.by ??= await pausedBy(this.queue, signal);
    setClock(this.about.now);
    this.#show();
    await this.part.refresh(signal, this.about);
  }

  #show() {
    const { queue, read_only } = this.about;
    this.#showTabs();
    const { policy } = queue;
    fill(this.place, [
      `${this.queue.node} · db ${this.queue.db} · `,
      h("span", { title: "The policy of ONDUE" }, h("bdi", {}, policy)),
    ]);
    fill(this.trouble, [
      queue.paused && h("p", { class: "banner" }, `Paused ${pausedUntil(queue)}${this.by}: workers get nothing.`),
      queue.failures > 0 &&
        h("p", { class: "banner bad" }, [
          `${count(queue.failures)} deliveries failed since `,
          timeOfDay(queue.failing_since),
          queue.last_failure_b64 && [": ", h("bdi", {}, line(queue.last_failure_b64))],
        ]),
      read_only &&
        h(
          "p",
          { class: "banner" },
          typeof read_only === "string"
            ? read_only
            : (this.about.reason ?? "This node is a replica: nothing can be changed here."),
        ),
    ]);
    const figures = [
      ["Waiting", count(queue.waiting)],
      ["Due", count(queue.due), queue.due > 0 && "warm"],
      ["Held", count(queue.held)],
      ["Oldest held", duration(queue.oldest_held_ms)],
      ["Given back", count(queue.given_back)],
      ["Dead letters", count(queue.dead?.count), queue.dead?.count > 0 && "warm"],
      ["Remembered", count(queue.remembered)],
      ["Next", nextMoment(queue)],
      ["Oldest due", duration(queue.oldest_due_ms), queue.oldest_due_ms > 1000 && "hot"],
      ["Overdue", count(queue.overdue), queue.overdue > 0 && "hot"],
      ["Net", rate(queue.net)],
      ["Memory", size(queue.memory)],
    ];
    fill(this.stats, stats(figures));
    fill(this.limits, meters(queue));
    fill(this.groups, this.about.group ? this.#chosen(this.about.group) : greatest(queue, this.about.greatest_groups));
    const whole = { name: shortened(this.name, 80), limits: queue.limits, policy: queue.ondue };
    const each = { ...whole, name: `each group of ${whole.name}`, limits: queue.each, part: { each: true } };
    fill(this.actions, [
      this.#buttons(["push", queue.paused ? "resume" : "pause", "limit"], whole),
      queue.groups > 0 && this.#buttons(["limit"], each, "Limits of each group…"),
      this.#buttons(["ondue"], whole),
    ]);
  }

  /** Creates what is known of a group, and its actions. */
  #chosen(group) {
    const name = shortened(line(group.group_b64), 80);
    const info = {
      name: `group ${name}`,
      limits: { ...group.limits, share: group.share },
      part: { group_b64: group.group_b64 },
    };
    return h("div", { class: "group", role: "group", "aria-label": "Group" }, [
      stats([
        ["Group", h("bdi", {}, name)],
        ["Elements", count(group.length)],
        ["Next", nextMoment(group)],
        ["Share", count(group.share)],
        ["Limits", ofGroup(group)],
      ]),
      h("div", { class: "toolbar" }, [
        this.#buttons([group.paused ? "resume" : "pause", "limit"], info),
        h("a", { href: queueHref(this.queue, { view: this.view }) }, "All groups"),
      ]),
    ]);
  }

  /** Creates buttons for actions on the queue, or on the part of it that `info` names. */
  #buttons(names, info, label) {
    return names.map((action) =>
      actionButton({
        label: label ?? ACTIONS[action].label,
        action,
        part: info.part && JSON.stringify(info.part),
        reason: refusal(this.about.rights, action),
        onclick: async () => {
          if (await act({ queue: this.queue, action, on: null, info })) this.onchange?.();
        },
      }),
    );
  }

  get fields() {
    return this.part.fields;
  }

  press(key) {
    return this.part.press?.(key) ?? false;
  }

  mark(key) {
    this.part.mark?.(key);
  }

  page(step) {
    this.part.page?.(step);
  }

  /** Shows the view with that number. */
  tab(number) {
    const tab = TABS[number - 1];
    if (tab) location.hash = queueHref(this.queue, { view: tab[0] });
    return Boolean(tab);
  }

  again() {
    this.part.again?.();
  }

  close() {
    this.part.close?.();
  }
}
