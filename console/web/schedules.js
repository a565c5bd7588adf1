// The schedules of a queue: when each occurs, what has become of it, and what can be done to it.

import { ACTIONS, act } from "./act.js";
import { get } from "./api.js";
import { fromBase64, line, lineOf, shortened, visible } from "./bytes.js";
import { countdown, setClock, timeOfDay } from "./clock.js";
import { preview } from "./columns.js";
import { fill, h } from "./dom.js";
import { count, counted, duration } from "./figures.js";
import { Pager } from "./pager.js";
import { actionButton, refusal } from "./rights.js";
import { queueHref } from "./route.js";
import { Table } from "./table.js";

/** Characters of a name, at most. */
const NAME = 80;
/** Upcoming occurrences that are listed. */
const UPCOMING = 20;

const nameOf = (row) => h("bdi", {}, shortened(line(row.name_b64), NAME));

export class Schedules {
  constructor(route, queue) {
    this.queue = queue;
    this.go(route);
    const key = lineOf(fromBase64(queue.key));
    this.table = new Table({
      label: "Schedules",
      key: (row) => row.name_b64,
      empty: "This queue has no schedules. DEHYDRATOR.EVERY sets one.",
      columns: [
        { name: "id", label: "Schedule", cell: nameOf },
        { label: "State", cell: state },
        { label: "Occurs", cell: (row) => h("bdi", {}, visible(shortened(row.when, NAME))) },
        { label: "Zone", cell: (row) => (row.zone ? h("bdi", {}, visible(row.zone)) : "–") },
        { label: "Next", cell: (row) => (row.next ? countdown(row.next, "now") : "–") },
        { label: "Last", cell: (row) => (row.last ? countdown(row.last) : "–") },
        { label: "Late", numeric: true, cell: (row) => duration(row.late) },
        { label: "Stored", numeric: true, cell: (row) => count(row.stored) },
        { label: "Missed", numeric: true, cell: (row) => count(row.missed) },
        { label: "Group", cell: (row) => (row.group_b64 ? this.#group(row.group_b64) : "–") },
        { label: "Element", wide: true, cell: (row) => preview(row, key) },
        { label: "Do", cell: (row) => h("div", { class: "row" }, this.#buttons(row)) },
      ],
    });
    this.upcoming = new Table({
      label: "Upcoming occurrences",
      key: ({ at, row }) => `${at} ${row.name_b64}`,
      empty: "Nothing is upcoming.",
      columns: [
        { label: "When", cell: ({ at }) => [timeOfDay(at), h("span", { class: "muted" }, " ", countdown(at))] },
        { label: "Schedule", cell: ({ row }) => nameOf(row) },
      ],
    });
    this.status = h("p", { class: "muted", role: "status" });
    this.pager = new Pager((start) => queueHref(queue, { view: "schedules", start }));
    this.element = h("div", {}, [
      this.status,
      this.table.element,
      this.pager.element,
      h(
        "section",
        { class: "part", "aria-labelledby": "upcoming" },
        h("h2", { id: "upcoming" }, "Upcoming"),
        this.upcoming.element,
      ),
    ]);
  }

  /** Shows another page. */
  go(route) {
    this.start = route.start;
  }

  page(step) {
    this.pager.page(step);
  }

  async refresh(signal, { rights }) {
    this.rights = rights;
    const start = this.start;
    const { now, rows, total, next } = await get("schedules", { ...this.queue, start }, signal);
    setClock(now);
    const hidden = !start && rows.length === 0 && total > 0;
    fill(this.status, hidden && `${counted(total, "schedule")} are not shown: you may not read them.`);
    this.table.update(rows);
    this.pager.update(start, next);
    const all = rows.flatMap((row) => row.upcoming.map((at) => ({ at, row })));
    // Of a schedule, no more than some are known: what comes after the last of those may not be the next.
    const end = Math.min(...rows.filter((row) => row.upcoming.length > 1).map((row) => row.upcoming.at(-1)));
    const known = all.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
    this.upcoming.update(known.slice(0, UPCOMING));
  }

  #group(group) {
    const name = h("bdi", {}, shortened(line(group), NAME));
    return h("a", { href: queueHref(this.queue, { group }) }, name);
  }

  #buttons(row) {
    const info = { name: shortened(line(row.name_b64), NAME), part: { schedule_b64: row.name_b64 } };
    return ["run_schedule", row.paused ? "resume" : "pause", "unschedule"].map((action) =>
      actionButton({
        label: ACTIONS[action].label,
        action,
        part: row.name_b64,
        danger: ACTIONS[action].danger,
        reason: refusal(this.rights, action),
        onclick: async () => {
          if (await act({ queue: this.queue, action, on: null, info })) this.onchange?.();
        },
      }),
    );
  }
}

function state(row) {
  const [kind, text] = row.paused ? ["held", "paused"] : row.ended ? ["", "ended"] : ["", "ok"];
  return h("span", { class: `badge ${kind}` }, text);
}
