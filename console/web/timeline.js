// How much of a queue comes due when.

import { get } from "./api.js";
import { Chart } from "./chart.js";
import { setClock, timeOfDay } from "./clock.js";
import { fill, h } from "./dom.js";
import { count, counted, moment } from "./figures.js";
import { queueHref } from "./route.js";
import { Table } from "./table.js";

export class Timeline {
  #buckets = [];

  constructor(queue) {
    this.queue = queue;
    this.chart = new Chart({
      title: "Comes due",
      series: [{ name: "elements", colour: "blue" }],
      format: (number) => count(Math.round(number)),
      bars: true,
      onclick: (at) => {
        location.hash = this.#href(this.#buckets[at]);
      },
    });
    this.table = new Table({
      label: "Elements that come due",
      key: (bucket) => String(bucket.from),
      empty: "Nothing waits in this queue.",
      columns: [
        { label: "From", cell: (bucket) => h("a", { href: this.#href(bucket) }, timeOfDay(bucket.from)) },
        { label: "To", cell: (bucket) => timeOfDay(bucket.to) },
        { label: "Elements", numeric: true, cell: (bucket) => count(bucket.count) },
      ],
    });
    this.status = h("p", { class: "muted", role: "status" });
    this.element = h("div", {}, [
      this.status,
      h("div", { class: "charts one" }, this.chart.element),
      this.table.element,
    ]);
  }

  #href = (bucket) => queueHref(this.queue, { view: "next", start: `~${bucket.from}` });

  async refresh(signal) {
    const reply = await get("timeline", this.queue, signal);
    setClock(reply.now);
    this.#buckets = reply.buckets;
    const sum = reply.buckets.reduce((all, bucket) => all + bucket.count, 0);
    fill(
      this.status,
      reply.complete
        ? `${counted(sum, "element")} in all. Choose a time to see what comes due then.`
        : `Counting: ${counted(sum, "element")} so far, up to ${moment(reply.until, reply.now)}.`,
    );
    this.chart.element.hidden = !reply.buckets.length;
    this.chart.update(
      reply.buckets.map(({ from, to }) => (from + to) / 2000),
      [reply.buckets.map((bucket) => bucket.count)],
    );
    this.table.update(reply.buckets.filter((bucket) => bucket.count));
  }

  close() {
    this.chart.close();
  }
}
