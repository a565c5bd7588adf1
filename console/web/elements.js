// The elements of a queue, page by page: those next in line, held ones, due ones, and dead letters. Filters, marks,
// and actions on what is marked.

import { ACTIONS, act } from "./act.js";
import { get } from "./api.js";
import { fromBase64, line, lineOf, shortened } from "./bytes.js";
import { now, setClock } from "./clock.js";
import { columnsOf, keyOf, TOKENS } from "./columns.js";
import { findLetter, showLetter } from "./deadletter.js";
import { closeAll } from "./dialog.js";
import { fill, h, labelled } from "./dom.js";
import { count, counted, MOMENTS, parseMoment } from "./figures.js";
import { notice } from "./notices.js";
import { Pager } from "./pager.js";
import { actionButton, refusal } from "./rights.js";
import { parse, queueHref } from "./route.js";
import { Table } from "./table.js";

const PAGE = 50;

const VIEWS = {
  next: { actions: ["run_now", "postpone", "cancel"], empty: "Nothing waits in this queue." },
  due: { actions: ["postpone", "cancel"], empty: "Nothing is due: workers have taken all that was." },
  held: { actions: ["give_back", "cancel"], empty: "No worker holds an element of this queue.", note: TOKENS },
  dead: { actions: ["revive", "drop_dead"], empty: "There are no dead letters." },
};

export class Elements {
  #marks = new Map();
  #all = false;
  #rows = [];
  #next = null;
  #scan = null;
  #stopped = false;
  #fresh = false;
  #opened = null;

  constructor(route, queue) {
    this.queue = queue;
    this.key = lineOf(fromBase64(queue.key));
    this.view = route.view ?? "next";
    this.spec = VIEWS[this.view];
    this.noun = this.view === "dead" ? "dead letter" : "element";
    this.#build();
    this.go(route);
  }

  /** Shows another page, or another filter. */
  go(route) {
    const filter = `${route.id ?? ""}\n${route.text ?? ""}\n${route.group ?? ""}`;
    if (this.filter !== undefined && this.filter !== filter) {
      this.#unmark();
      this.pager.reset();
    }
    this.filter = filter;
    this.route = route;
    // The browser's Back closes a dead letter.
    if (this.#opened && !route.entry) closeAll();
    this.#fresh = false;
    this.#stopped = false;
    for (const [name, field] of Object.entries(this.fields)) {
      if (name !== "jump" && document.activeElement !== field) field.value = route[name] ?? "";
    }
  }

  #build() {
    const field = (name) => h("input", { type: "search", name, autocomplete: "off", spellcheck: "false" });
    this.fields = { id: field("id"), text: field("text") };
    const form = h(
      "form",
      { class: "filters", role: "search", "aria-label": "Filter", onsubmit: (event) => this.#apply(event) },
      [
        labelled("Id contains", this.fields.id),
        labelled("Text contains", this.fields.text),
        h("button", { type: "submit" }, "Filter"),
        h("button", { type: "button", data: { clear: "" }, onclick: () => this.#apply(null, {}) }, "Clear"),
      ],
    );
    // The cross in a search field empties it without a submit.
    for (const each of Object.values(this.fields)) each.addEventListener("search", () => each.value || this.#apply());
    let jump = null;
    if (this.view === "next") {
      this.fields.jump = h("input", {
        name: "jump",
        placeholder: "14:05, 2h",
        autocomplete: "off",
        spellcheck: "false",
      });
      jump = h("form", { class: "filters", "aria-label": "Jump", onsubmit: (event) => this.#jump(event) }, [
        labelled("Jump to a moment", this.fields.jump),
        h("button", { type: "submit" }, "Jump"),
      ]);
    }
    this.status = h("p", { class: "muted status", role: "status" });
    this.toolbar = h("div", { class: "toolbar", role: "group", "aria-label": "Actions on marked rows" });
    this.pager = new Pager((start) => this.#href({ start }));
    this.markAll = h("input", {
      type: "checkbox",
      "aria-label": "Mark all on this page",
      onchange: () => this.#markPage(),
    });
    this.note = this.spec.note && h("p", { class: "muted" }, this.spec.note);
    this.#buildTable();
    this.element = h("div", {}, [
      h("div", { class: "row filter-row" }, form, jump),
      this.toolbar,
      this.note,
      this.status,
      this.table.element,
      this.pager.element,
    ]);
  }

  #buildTable() {
    this.table = new Table({
      label: { next: "Elements in order", due: "Due elements", held: "Held elements", dead: "Dead letters" }[this.view],
      key: keyOf,
      empty: this.spec.empty,
      rowClass: (row) => (this.#all || this.#marks.has(keyOf(row)) ? "marked" : ""),
      columns: [
        { name: "mark", label: "Mark", head: this.markAll, cell: (row) => this.#checkbox(row) },
        ...columnsOf(this.view, this.queue, (entry) => this.#href({ entry })),
      ],
    });
  }

  #checkbox(row) {
    const key = keyOf(row);
    const name = row.id_b64 === null || row.id_b64 === undefined ? key : line(row.id_b64);
    return h("input", {
      type: "checkbox",
      data: { row: key },
      "aria-label": `Mark ${shortened(name, 80)}`,
      checked: this.#all || this.#marks.has(key),
      onchange: () => this.mark(key),
    });
  }

  /** Marks a row, or unmarks it. */
  mark(key) {
    if (this.#all) {
      this.#all = false;
      this.#marks = new Map(this.#rows.map((row) => [keyOf(row), row]));
    }
    if (!this.#marks.delete(key)) {
      const row = this.#rows.find((each) => keyOf(each) === key);
      if (row) this.#marks.set(key, row);
    }
    this.#show();
  }

  #markPage() {
    const rows = this.#rows;
    const complete = rows.length > 0 && rows.every((row) => this.#marks.has(keyOf(row)));
    this.#all = false;
    for (const row of rows) {
      if (complete) this.#marks.delete(keyOf(row));
      else this.#marks.set(keyOf(row), row);
    }
    this.#show();
  }

  #unmark() {
    this.#marks.clear();
    this.#all = false;
  }

  #apply(event, given) {
    event?.preventDefault();
    const { id, text } = given ?? { id: this.fields.id.value, text: this.fields.text.value };
    if (given) for (const name of ["id", "text"]) this.fields[name].value = "";
    const next = queueHref(this.queue, { view: this.view, id, text, group: this.route.group });
    if (location.hash === next) this.#fresh = false;
    location.hash = next;
  }

  #jump(event) {
    event.preventDefault();
    const at = parseMoment(this.fields.jump.value, now(), true);
    if (at === null) return notice(`Jump: write for example ${MOMENTS}.`);
    this.#to(`~${at}`);
  }

  #to(start) {
    location.hash = this.#href({ start });
  }

  page(step) {
    this.pager.page(step);
  }

  async refresh(signal, { rights }) {
    this.rights = rights;
    const { id, text, group } = this.route;
    const filtered = id || text;
    // What took several steps is not done again every two seconds.
    if (filtered && this.#fresh && this.#scan?.steps > 1) return this.#show();
    let start = this.route.start;
    let rows = [];
    const scan = { steps: 0, scanned: 0, running: true, filtered: Boolean(filtered) };
    this.#scan = scan;
    do {
      const query = { ...this.queue, start, id, text, count: PAGE - rows.length };
      const reply =
        this.view === "dead"
          ? await get("dead", query, signal)
          : await get("elements", { ...query, view: this.view, group }, signal);
      setClock(reply.now);
      this.kind = reply.kind;
      rows = rows.concat(reply.rows);
      start = reply.next;
      scan.steps += 1;
      scan.scanned += reply.scanned ?? reply.rows.length;
      scan.at = reply.at;
      // Without a filter, and if the page filled, it is shown once.
      scan.running = start !== null && start !== undefined && rows.length < PAGE && !this.#stopped;
      if (scan.running && scan.steps > 1) this.#show(rows, start);
    } while (scan.running);
    this.#fresh = true;
    this.#show(rows, start);
    if (this.route.entry) this.#open(this.route.entry).catch((error) => notice(error.message, true));
  }

  #show(rows = this.#rows, next = this.#next) {
    this.#rows = rows;
    this.#next = next ?? null;
    for (const row of rows) if (this.#marks.has(keyOf(row))) this.#marks.set(keyOf(row), row);
    const scan = this.#scan;
    this.table.empty = this.#emptyText(scan);
    this.table.update(rows);
    const marked = rows.filter((row) => this.#all || this.#marks.has(keyOf(row))).length;
    this.markAll.checked = rows.length > 0 && marked === rows.length;
    this.markAll.indeterminate = marked > 0 && marked < rows.length;
    fill(this.status, this.#statusText(scan));
    this.pager.update(this.route.start, this.#next);
    this.#showToolbar();
  }

  #emptyText(scan) {
    if (scan?.running) return "Looking…";
    if (scan?.filtered) return `No ${this.noun} matches the filter${this.#next === null ? "" : " so far"}.`;
    if (this.route.start) return `There are no ${this.noun}s from there on.`;
    if (this.view === "dead" && this.kind === "none")
      return "There are no dead letters, or no place for them: see On due….";
    return this.spec.empty;
  }

  #statusText(scan) {
    if (!scan?.filtered || !scan.steps) return [];
    const looked = `Looked through ${counted(scan.scanned, this.noun)}: ${counted(this.#rows.length, "match", "matches")}${this.#next === null ? "" : " so far"}. `;
    if (scan.running)
      return [
        looked,
        h(
          "button",
          {
            type: "button",
            data: { action: "stop" },
            onclick: () => {
              this.#stopped = true;
            },
          },
          "Stop",
        ),
      ];
    return [
      looked,
      scan.steps > 1 &&
        h("button", { type: "button", data: { action: "again" }, onclick: () => this.#readAgain() }, "Look again"),
    ];
  }

  /** Has the next refresh read the page again, also with a filter. */
  again() {
    this.#fresh = false;
    this.#stopped = false;
  }

  #showToolbar() {
    const number = this.#marks.size;
    const none = !this.#all && number === 0;
    const told = this.#all
      ? h("strong", {}, this.filter.trim() ? "All that match are marked" : `All ${this.noun}s are marked`)
      : h("span", {}, none ? `Mark ${this.noun}s to act on them` : h("strong", {}, `${count(number)} marked`));
    const buttons = this.spec.actions.map((action) =>
      actionButton({
        label: ACTIONS[action].label,
        action,
        danger: ACTIONS[action].danger,
        shortcut: ACTIONS[action].key,
        reason: refusal(this.rights, action) ?? (none ? `Mark ${this.noun}s first.` : null),
        onclick: () => this.run(action),
      }),
    );
    const filtered = this.filter.trim();
    fill(this.toolbar, [
      buttons,
      told,
      this.#all || number
        ? h(
            "button",
            {
              type: "button",
              class: "link",
              data: { action: "unmark" },
              onclick: () => {
                this.#unmark();
                this.#show();
              },
            },
            "Unmark",
          )
        : null,
      !this.#all &&
        this.#rows.length > 0 &&
        h(
          "button",
          {
            type: "button",
            class: "link",
            data: { action: filtered ? "all-match" : "all" },
            onclick: () => {
              this.#all = true;
              this.#show();
            },
          },
          filtered ? "Mark all that match" : `Mark all ${this.noun}s`,
        ),
    ]);
  }

  /** Runs an action on what is marked, or on one row. */
  async run(action, only, info = {}) {
    const rows = only ? [only] : [...this.#marks.values()];
    let on;
    const { id = "", text = "", group } = this.route;
    if (this.#all && !only)
      on = { match: { view: this.view, id, text, group_b64: this.view === "dead" ? undefined : group } };
    else if (this.view === "dead") on = { entries: rows.map((row) => row.entry) };
    else on = { ids_b64: rows.map((row) => row.id_b64) };
    const name = rows.length === 1 && rows[0].id_b64 ? line(rows[0].id_b64) : undefined;
    if (!(await act({ queue: this.queue, action, on, info: { name, held: this.view === "held", ...info } }))) return;
    if (!only) this.#unmark();
    this.#readAgain();
  }

  #readAgain() {
    this.again();
    this.onchange?.();
  }

  /** Runs the action of a key: on what is marked, else on the row that has the focus. */
  press(key) {
    const action = this.spec.actions.find((each) => ACTIONS[each].key === key);
    if (!action) return false;
    const focused = document.activeElement?.closest("tr[data-row]");
    const row = this.#rows.find((each) => keyOf(each) === focused?.dataset.row);
    const reason = refusal(this.rights, action);
    if (reason) notice(reason);
    else if (this.#all || this.#marks.size) this.run(action);
    else if (row) this.run(action, row);
    else notice(`Mark ${this.noun}s first, with x.`);
    return true;
  }

  /** Shows the dead letter that the address names. */
  async #open(entry) {
    if (this.#opened === entry) return;
    this.#opened = entry;
    const row = this.#rows.find((each) => each.entry === entry) ?? (await findLetter(this.queue, entry));
    if (row) {
      await showLetter(row, {
        key: this.key,
        reasonOf: (action) => refusal(this.rights, action),
        run: (action, info) => this.run(action, row, info),
      });
    } else notice("This dead letter is not there any more.", true);
    this.#opened = null;
    // Not if it was closed because the reader has gone elsewhere.
    if (parse(location.hash).entry === entry) location.replace(this.#href());
  }

  /** Returns the address of this page, with its filter. */
  #href(more = {}) {
    const { id, text, group, start } = this.route;
    return queueHref(this.queue, { view: this.view, id, text, group, start, ...more });
  }

  close() {
    this.#stopped = true;
  }
}
