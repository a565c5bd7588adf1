// The log of actions: a stream on the server.

import { get } from "./api.js";
import { visible } from "./bytes.js";
import { countdown, setClock, timeOfDay } from "./clock.js";
import { queueLink } from "./columns.js";
import { fill, h, labelled } from "./dom.js";
import { count, duration, moment } from "./figures.js";
import { href } from "./route.js";
import { subjectText } from "./subject.js";
import { Table } from "./table.js";

const NAMES = {
  run_now: "run now",
  postpone: "postpone",
  cancel: "cancel",
  edit: "edit",
  give_back: "give back",
  revive: "retry dead letters",
  drop_dead: "drop dead letters",
  push: "put a job",
  run_schedule: "run a schedule now",
  unschedule: "unschedule",
  pause: "pause",
  resume: "resume",
  limit: "set limits",
  ondue: "set the policy",
};

export class LogView {
  every = 3000;
  title = "Log";

  constructor(route) {
    this.route = route;
    this.node = h("select", {
      onchange: () => {
        location.hash = href({ page: "log", node: this.node.value });
      },
    });
    this.table = new Table({
      label: "Actions, the latest first",
      key: (row) => `${row.node ?? ""} ${row.entry}`,
      empty: "No action has been logged.",
      columns: [
        {
          name: "id",
          label: "When",
          cell: (row) => [timeOfDay(row.moment), h("span", { class: "muted" }, " ", countdown(row.moment))],
        },
        { name: "who", label: "Who", cell: (row) => h("bdi", {}, visible(String(row.who ?? "–"))) },
        { name: "who", label: "Redis user", cell: (row) => h("bdi", {}, visible(String(row.user ?? "–"))) },
        { label: "Action", cell: (row) => NAMES[row.action] ?? String(row.action) },
        { label: "Queue", cell: (row) => queueLink(row.queue) },
        { label: "On", wide: true, cell: (row) => h("bdi", {}, subjectText(row.on)) },
        { label: "Elements", numeric: true, cell: (row) => count(numberOf(row)) },
        { label: "Arguments", wide: true, cell: (row) => h("bdi", {}, visible(argsOf(row.args))) },
      ],
    });
    this.pager = h("nav", { class: "pager", "aria-label": "Pages of the log" });
    this.choice = labelled("Node", this.node);
    this.element = h("section", { "aria-labelledby": "head" }, [
      h("div", { class: "headline" }, h("h1", { id: "head", tabindex: "-1" }, "Log"), this.choice),
      h(
        "p",
        { class: "muted" },
        "What was done by this page: who did what to which elements. It is a stream on the server, which anybody with its rights can read.",
      ),
      this.table.element,
      this.pager,
    ]);
  }

  takes = (route) => route.page === "log";

  go(route) {
    this.route = route;
  }

  async refresh(signal) {
    if (!this.nodes) {
      const { nodes, now } = await get("overview", { limit: 1 }, signal);
      setClock(now);
      this.nodes = nodes.filter((each) => each.role !== "replica" && each.role !== "slave").map((each) => each.node);
      fill(
        this.node,
        this.nodes.map((each) => h("option", { value: each }, each)),
      );
      this.choice.hidden = this.nodes.length < 2;
    }
    const node = this.route.node ?? this.nodes[0];
    this.node.value = node;
    const reply = await get("log", { node, before: this.route.before }, signal);
    this.table.empty = reply.off
      ? "The log is off: dehydrator-top was started with --log ''."
      : "No action has been logged.";
    this.table.update(reply.rows);
    fill(this.pager, [
      this.route.before && h("a", { href: href({ page: "log", node: this.route.node }) }, "« The latest"),
      reply.next && h("a", { href: href({ page: "log", node: this.route.node, before: reply.next }) }, "Earlier ›"),
    ]);
  }
}

// How many a batch will touch is not known when it begins.
const numberOf = (row) =>
  row.count === 0 && row.args.startsWith("batch") && row.args.endsWith("}") ? null : row.count;

/** Returns the arguments of an action in words: "batch 3, 10 min". They are JSON, after the number of a batch. */
function argsOf(args) {
  const [, batch = "", json] = /^(batch \S+ )?(\{.*\})$/s.exec(args ?? "") ?? [];
  if (json === undefined) return args ?? "";
  try {
    const words = Object.entries(JSON.parse(json)).map(([name, value]) => WORDS[name]?.(value) ?? `${name} ${value}`);
    return [batch.trim(), ...words].filter(Boolean).join(", ");
  } catch {
    return args;
  }
}

const WORDS = {
  ms: duration,
  at: (at) => moment(at),
  words: (words) => words.join(" "),
  held: (held) => (held === true ? "held ones too" : `held ${held}`),
};
