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
import { meters } from "./limits.js";
import { actionButton, refusal } from "./rights.js";
import { queueHref } from "./route.js";
import { Timeline } from "./timeline.js";

const TABS = [
  ["next", "Next"],
  ["due", "Due"],
  ["held", "Held"],
  ["dead", "Dead letters"],
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
    const numbers = { next: queue?.length, due: queue?.due, held: queue?.held, dead: queue?.dead?.count };
    fill(
      this.tabs,
      TABS.map(([name, label]) =>
        h("a", { href: queueHref(this.queue, { view: name }), "aria-current": name === this.view ? "page" : null }, [
          label,
          numbers[name] !== undefined &&
            numbers[name] !== null &&
            h("span", { class: "number" }, ` ${count(numbers[name])}`),
        ]),
      ),
    );
  }

  async refresh(signal) {
    this.about = await get("queue", this.queue, signal);
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
      queue.paused && h("p", { class: "banner" }, `Paused ${pausedUntil(queue)}: workers get nothing.`),
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
    const stats = [
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
    fill(
      this.stats,
      h(
        "dl",
        { class: "stats" },
        stats.map(([name, value, mood]) => h("div", { class: mood || null }, h("dt", {}, name), h("dd", {}, value))),
      ),
    );
    fill(this.limits, meters(queue));
    fill(this.groups, greatest(queue, this.about.greatest_groups));
    this.#showActions();
  }

  #showActions() {
    const { queue, rights } = this.about;
    const names = [queue.paused ? "resume" : "pause", "limit", "ondue"];
    fill(
      this.actions,
      names.map((action) =>
        actionButton({
          label: ACTIONS[action].label,
          action,
          reason: refusal(rights, action),
          onclick: () => this.run(action),
        }),
      ),
    );
  }

  async run(action) {
    const { queue } = this.about;
    const info = { name: shortened(this.name, 80), limits: queue.limits, policy: queue.ondue };
    if (await act({ queue: this.queue, action, on: null, info })) this.onchange?.();
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
