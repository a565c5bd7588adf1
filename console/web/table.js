// A table that is refreshed in place: rows keep their elements, so focus and marks stay.
// On a phone each row becomes a card (see style.css); the roles keep it a table for screen readers.

import { fill, h } from "./dom.js";
import { titleOf } from "./titles.js";

export class Table {
  #columns;
  #key;
  #body;
  #rows = new Map();
  #empty;
  #sort;

  /**
   * `columns`: each with `name`, `label`, `cell(row)`, and optionally `numeric`, `sort` (the name to sort by), `head`
   * (a node instead of the label), `wide`. `key(row)` tells rows apart. `empty`: the text without rows.
   * `onsort(name)` is called for a sortable header.
   */
  constructor({ label, columns, key, empty, onsort, rowClass }) {
    this.#columns = columns;
    this.#key = key;
    this.rowClass = rowClass;
    this.#body = h("tbody", { role: "rowgroup" });
    this.#sort = new Map();
    const heads = columns.map((column) => this.#head(column, titleOf(column.label, label), onsort));
    this.table = h("table", { role: "table", "aria-label": label }, [
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)),
      this.#body,
    ]);
    this.#empty = h("p", { class: "empty", hidden: true }, empty);
    this.element = h("div", { class: "table" }, this.table, this.#empty);
  }

  #head(column, title, onsort) {
    const kind = { role: "columnheader", scope: "col", class: column.numeric ? "numeric" : null, title };
    if (!column.sort || !onsort) return h("th", kind, column.head ?? column.label);
    const button = h("button", { type: "button", class: "sort", onclick: () => onsort(column.sort) }, column.label);
    const head = h("th", kind, button);
    this.#sort.set(column.sort, head);
    return head;
  }

  showSort(name, descending) {
    for (const [each, head] of this.#sort) {
      if (each === name) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }

  /** Sets the text that is shown without rows. */
  set empty(text) {
    fill(this.#empty, text);
  }

  update(rows) {
    const active = document.activeElement;
    const focused = this.#body.contains(active) ? active.closest("tr") : null;
    const place = focused ? [...this.#body.children].indexOf(focused) : -1;
    const left = new Map(this.#rows);
    let previous = null;
    for (const row of rows) {
      const key = this.#key(row);
      left.delete(key);
      let line = this.#rows.get(key);
      if (!line) {
        line = h(
          "tr",
          { role: "row", data: { row: key } },
          this.#columns.map((column) => this.#cell(column)),
        );
        this.#rows.set(key, line);
      }
      line.className = this.rowClass?.(row) ?? "";
      this.#columns.forEach((column, i) => {
        fill(line.children[i], column.cell(row));
        line.children[i].classList.toggle("quiet", line.children[i].textContent === "–");
      });
      const next = previous ? previous.nextElementSibling : this.#body.firstElementChild;
      if (next !== line) this.#body.insertBefore(line, next);
      previous = line;
    }
    for (const [key, line] of left) {
      line.remove();
      this.#rows.delete(key);
    }
    // The focused row is gone: the one that took its place gets the focus.
    if (focused && !focused.isConnected) {
      const heir = this.#body.children[Math.min(place, this.#body.children.length - 1)];
      heir?.querySelector("a[href]")?.focus();
    } else if (focused && active.isConnected && !this.#body.contains(document.activeElement)) {
      // It moved, and lost the focus.
      active.focus();
    }
    this.#empty.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
  }

  #cell(column) {
    const kind = [column.numeric ? "numeric" : "", column.wide ? "wide" : "", column.name ?? ""].join(" ").trim();
    return h("td", { role: "cell", class: kind, data: { label: column.label } });
  }
}
