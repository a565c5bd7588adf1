// The links between the pages of a list that tells with each page where the next one begins.

import { fill, h } from "./dom.js";

export class Pager {
  #start = "";
  #next = null;
  #trail = [];

  /** `hrefOf(start)` is the address of the page that begins there, and of the first page without a start. */
  constructor(hrefOf) {
    this.hrefOf = hrefOf;
    this.element = h("nav", { class: "pager", "aria-label": "Pages" });
  }

  /** The rows are those of another list. */
  reset() {
    this.#trail = [];
  }

  /** Shows the next page (1), or the one before (-1). */
  page(step) {
    if (step > 0 && this.#next !== null) {
      this.#trail.push(this.#start);
      location.hash = this.hrefOf(this.#next);
    } else if (step < 0 && this.#start) location.hash = this.hrefOf(this.#trail.pop());
  }

  /** Shows the links of the page that begins at `start`, and is followed by that at `next`. */
  update(start, next) {
    this.#start = start ?? "";
    this.#next = next ?? null;
    const button = (label, action, step) =>
      h("button", { type: "button", data: { action }, onclick: () => this.page(step) }, label);
    fill(this.element, [
      this.#start && h("a", { href: this.hrefOf(null) }, "« First page"),
      this.#trail.length > 0 && button("‹ Previous", "previous", -1),
      this.#next !== null && button("Next page ›", "next", 1),
    ]);
  }
}
