// Who holds what since when, in all queues.

import { get } from "./api.js";
import { setClock } from "./clock.js";
import { heldColumns, TOKENS } from "./columns.js";
import { fill, h } from "./dom.js";
import { counted } from "./figures.js";
import { Table } from "./table.js";

export class WorkersView {
  every = 3000;
  title = "Workers";

  constructor() {
    this.table = new Table({
      label: "Elements that workers hold",
      key: (row) => `${row.queue.node} ${row.queue.db} ${row.queue.key_b64} ${row.id_b64}`,
      empty: "No worker holds an element.",
      columns: heldColumns(),
    });
    this.status = h("p", { class: "muted", role: "status" });
    this.element = h("section", { "aria-labelledby": "head" }, [
      h("h1", { id: "head", tabindex: "-1" }, "Workers"),
      h("p", { class: "muted" }, `What they hold, in all queues, the longest first. ${TOKENS}`),
      this.status,
      this.table.element,
    ]);
  }

  async refresh(signal) {
    const { now, rows, complete } = await get("held", {}, signal);
    setClock(now);
    const some = `These are ${counted(rows.length, "element")}. There may be more: see Held of a queue.`;
    fill(this.status, complete ? "" : some);
    this.table.update(rows);
  }
}
