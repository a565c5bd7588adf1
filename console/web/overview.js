// All queues and all nodes.

import { get } from "./api.js";
import { line, shortened, toBase64, utf8 } from "./bytes.js";
import { nextMoment, setClock } from "./clock.js";
import { queueLink } from "./columns.js";
import { fill, h, labelled } from "./dom.js";
import { count, counted, duration, rate, size } from "./figures.js";
import { History } from "./history.js";
import { shortLimits } from "./limits.js";
import { elementHref, href } from "./route.js";
import { stats } from "./stats.js";
import { Table } from "./table.js";

const PAGE = 100;

/** What is best read from the greatest down. */
const DOWN = new Set(["oldest", "waiting", "due", "held", "dead", "net", "memory"]);

export class OverviewView {
  every = 2000;
  title = "Overview";

  constructor(route) {
    this.route = route;
    const match = h("input", {
      type: "search",
      name: "match",
      autocomplete: "off",
      spellcheck: "false",
    });
    match.addEventListener("search", () => match.value || this.#apply());
    const find = h("input", { name: "find", autocomplete: "off", spellcheck: "false" });
    this.fields = { match, find };
    this.found = h("p", { role: "status", hidden: true });
    this.node = h("select", { onchange: () => this.#apply() });
    this.banner = h("div", {});
    this.totals = h("div", {});
    this.history = new History("The last hour");
    this.queues = this.#queueTable();
    this.nodes = this.#nodeTable();
    this.pager = h("nav", { class: "pager", "aria-label": "Pages of queues" });
    this.element = h("section", { class: "overview", "aria-labelledby": "head" }, [
      h("h1", { id: "head", tabindex: "-1" }, "Overview"),
      this.banner,
      this.totals,
      h("section", { class: "part queues", "aria-labelledby": "queues" }, [
        h(
          "div",
          { class: "headline" },
          h("h2", { id: "queues" }, "Queues"),
          h(
            "form",
            {
              class: "filters",
              role: "search",
              "aria-label": "Filter queues",
              onsubmit: (event) => this.#apply(event),
            },
            labelled("Name contains", match),
            h("button", { type: "submit" }, "Filter"),
          ),
          h(
            "form",
            {
              class: "filters",
              role: "search",
              "aria-label": "Find an element",
              onsubmit: (event) => this.#apply(event),
            },
            labelled("Element with the id", find),
            h("button", { type: "submit" }, "Find"),
          ),
        ),
        this.found,
        this.queues.element,
        this.pager,
      ]),
      h("section", { class: "part hour", "aria-labelledby": "hour" }, [
        h("div", { class: "headline" }, h("h2", { id: "hour" }, "Last hour"), labelled("Node", this.node)),
        this.history.element,
      ]),
      h(
        "section",
        { class: "part", "aria-labelledby": "nodes" },
        h("h2", { id: "nodes" }, "Nodes"),
        this.nodes.element,
      ),
    ]);
    this.go(route);
  }

  takes = (route) => route.page === "overview";

  go(route) {
    this.route = route;
    for (const [name, field] of Object.entries(this.fields))
      if (document.activeElement !== field) field.value = route[name] ?? "";
    this.sought = undefined;
    this.queues.showSort(this.#sort(), this.#descending());
  }

  #sort = () => this.route.sort ?? "oldest";
  #descending = () => (this.route.desc ?? (this.route.sort ? "0" : "1")) === "1";

  #apply(event) {
    event?.preventDefault();
    const { match, find } = this.fields;
    this.#to({ match: match.value, find: find.value, node: this.node.value, offset: null });
  }

  #to(change) {
    const { sort, desc, match, find, offset, node } = { ...this.route, ...change };
    location.hash = href({ page: "overview", sort, desc, match, find, offset, node });
  }

  #sortBy(name) {
    const descending = this.#sort() === name ? !this.#descending() : DOWN.has(name);
    this.#to({ sort: name, desc: descending ? "1" : "0", offset: null });
  }

  #queueTable() {
    return new Table({
      label: "Queues",
      key: (queue) => `${queue.node} ${queue.db} ${queue.key_b64}`,
      empty: "No queues yet. The first DEHYDRATOR.PUSH creates one.",
      onsort: (name) => this.#sortBy(name),
      rowClass: (queue) => (queue.failures > 0 ? "failing" : ""),
      columns: [
        {
          name: "id",
          label: "Queue",
          sort: "key",
          cell: (queue) => [
            queueLink(queue),
            this.many && h("small", { class: "muted" }, ` ${queue.node}`),
            queue.db > 0 && h("small", { class: "muted" }, ` db ${queue.db}`),
            queue.groups > 0 && h("small", { class: "muted" }, ` ${counted(queue.groups, "group")}`),
          ],
        },
        { label: "State", cell: states },
        { label: "Waiting", numeric: true, sort: "waiting", cell: (queue) => count(queue.waiting) },
        { label: "Due", numeric: true, sort: "due", cell: (queue) => mood(count(queue.due), queue.due > 0 && "warm") },
        {
          label: "Held",
          numeric: true,
          sort: "held",
          cell: (queue) =>
            queue.oldest_held_ms === null
              ? count(queue.held)
              : h("span", { title: `The longest for ${duration(queue.oldest_held_ms)}` }, count(queue.held)),
        },
        {
          label: "Dead",
          numeric: true,
          sort: "dead",
          cell: (queue) => mood(count(queue.dead?.count), queue.dead?.count > 0 && "warm"),
        },
        {
          label: "Oldest due",
          numeric: true,
          sort: "oldest",
          cell: (queue) => mood(duration(queue.oldest_due_ms), queue.oldest_due_ms > 1000 && "hot"),
        },
        { label: "Late", numeric: true, cell: (queue) => mood(count(queue.overdue), queue.overdue > 0 && "hot") },
        { label: "Next", numeric: true, cell: (queue) => nextMoment(queue) },
        { label: "Net", numeric: true, sort: "net", cell: (queue) => rate(queue.net) },
        { label: "Limits", wide: true, cell: (queue) => chips(shortLimits(queue)) },
        { label: "Memory", numeric: true, sort: "memory", cell: (queue) => size(queue.memory) },
      ],
    });
  }

  #nodeTable() {
    return new Table({
      label: "Nodes",
      key: (node) => node.node,
      empty: "No node is known yet.",
      rowClass: (node) => (node.trouble ? "failing" : ""),
      columns: [
        { name: "id", label: "Node", cell: (node) => h("bdi", {}, node.node) },
        { label: "State", wide: true, cell: nodeState },
        { label: "Server", cell: (node) => node.server ?? "–" },
        { label: "Elements", numeric: true, cell: (node) => count(node.fields?.elements) },
        { label: "In", numeric: true, cell: (node) => rate(node.rates?.pushes) },
        { label: "Out", numeric: true, cell: (node) => rate(node.rates?.out) },
        { label: "Late, 99 %", numeric: true, cell: (node) => micros(node.fields?.lateness_recent_p99_us) },
        { label: "Blocked workers", numeric: true, cell: (node) => count(node.fields?.blocked_clients) },
        { label: "Clients", numeric: true, cell: (node) => count(node.clients) },
        { label: "Memory", numeric: true, cell: (node) => size(node.memory) },
      ],
    });
  }

  /** Returns what the page's link says, if not all is well. */
  async refresh(signal) {
    const { match, offset, node } = this.route;
    const reply = await get(
      "overview",
      { sort: this.#sort(), desc: this.#descending() ? 1 : 0, offset, limit: PAGE, match },
      signal,
    );
    setClock(reply.now);
    this.many = reply.nodes.length > 1;
    this.#showNodes(reply, node ?? "");
    const silent = reply.nodes.filter((each) => each.trouble).length;
    this.queues.empty =
      silent && silent === reply.nodes.length
        ? "Nothing is known: no server answers."
        : match
          ? "No queue matches the filter."
          : reply.nodes.some((each) => each.walking)
            ? "Looking for queues…"
            : "No queues yet. The first DEHYDRATOR.PUSH creates one.";
    this.queues.update(reply.queues);
    this.#showPager(reply);
    await this.#find(signal);
    await this.history.refresh({ node }, signal);
    return silent && (reply.nodes.length === 1 ? "server down" : `${silent} of ${reply.nodes.length} nodes down`);
  }

  /** Looks for the id in all queues, once. */
  async #find(signal) {
    const { find } = this.route;
    this.found.hidden = !find;
    if (!find || this.sought === find) return;
    const { rows, complete } = await get("find", { id: toBase64(utf8(find)) }, signal);
    this.sought = find;
    const links = rows.map((queue) => [
      " ",
      h("a", { href: elementHref(queue, toBase64(utf8(find))) }, h("bdi", {}, shortened(line(queue.key_b64), 80))),
    ]);
    fill(this.found, [
      rows.length ? `In ${counted(rows.length, "queue")}:` : "No queue has an element with this id",
      links,
      complete ? "." : ". Not all queues were asked: filter by name, or try again.",
    ]);
  }

  #showNodes({ nodes }, chosen) {
    const down = nodes.filter((each) => each.trouble);
    fill(
      this.banner,
      down.map((each) =>
        h(
          "p",
          { class: "banner bad", role: "alert" },
          `${each.node}: ${each.trouble} ${each.advice ?? ""} Trying again.`,
        ),
      ),
    );
    this.nodes.update(nodes);
    const options = [["", "all nodes"], ...nodes.map((each) => [each.node, each.node])];
    fill(
      this.node,
      options.map(([value, text]) => h("option", { value }, text)),
    );
    if (document.activeElement !== this.node) this.node.value = chosen;
    this.node.parentElement.hidden = nodes.length < 2;
    const sum = (name) =>
      nodes
        .filter((each) => each.role !== "replica" && each.role !== "slave" && !each.trouble)
        .reduce((all, each) => (each.fields?.[name] === undefined ? all : (all ?? 0) + each.fields[name]), null);
    const oldest = nodes.reduce((most, each) => Math.max(most, each.fields?.oldest_due_s ?? 0), 0);
    const totals = [
      ["Queues", count(sum("dehydrators"))],
      ["Elements", count(sum("elements"))],
      ["Held", count(sum("leased"))],
      ["Retries waiting", count(sum("given_back"))],
      ["Dead letters since start", count(sum("dead_letters"))],
      ["Oldest due", oldest ? duration(oldest * 1000) : "–", oldest > 0 && "hot"],
      ["Failing queues", count(sum("failing")), sum("failing") > 0 && "hot"],
      ["Paused queues", count(sum("paused")), sum("paused") > 0 && "warm"],
      ["Blocked workers", count(sum("blocked_clients"))],
    ];
    fill(this.totals, stats(totals));
  }

  #showPager({ total, queues }) {
    const from = Number(this.route.offset ?? 0);
    const to = from + queues.length;
    const at = (offset) => href({ ...this.route, page: "overview", offset: offset || null });
    fill(
      this.pager,
      total > PAGE || from > 0
        ? [
            from > 0 && h("a", { href: at(Math.max(0, from - PAGE)) }, "‹ Previous"),
            h("span", { class: "muted" }, `${count(from + 1)} to ${count(to)} of ${counted(total, "queue")}`),
            to < total && h("a", { href: at(to) }, "Next page ›"),
          ]
        : [],
    );
  }

  page(step) {
    const link = [...this.pager.querySelectorAll("a")].find((each) =>
      each.textContent.includes(step > 0 ? "Next" : "Previous"),
    );
    link?.click();
  }

  close() {
    this.history.close();
  }
}

const mood = (text, name) => (name ? h("span", { class: name }, text) : text);

const chips = (list) => (list.length ? h("span", { class: "chips" }, list) : "–");

const micros = (us) => (us === undefined || us === null ? "–" : duration(us / 1000));

function states(queue) {
  const found = [];
  if (queue.failures > 0) found.push(["stuck", "failing"]);
  if (queue.paused) found.push(["held", "paused"]);
  if (queue.overdue > 0 && !queue.paused) found.push(["due", "late"]);
  if (!found.length) found.push(["", queue.length ? "ok" : "empty"]);
  return chips(found.map(([kind, text]) => h("span", { class: `badge ${kind}` }, text)));
}

function nodeState(node) {
  if (node.trouble) return h("span", { class: "hot" }, node.trouble);
  const link = node.link && node.link !== "up" ? `, link ${node.link}` : "";
  return `${node.role ?? ""}${link}${node.walking ? ", looking for queues" : ""}`;
}
