// The charts of the last hour, of all nodes, of one, or of a queue.

import { get } from "./api.js";
import { Chart } from "./chart.js";
import { h } from "./dom.js";
import { compact, count, duration } from "./figures.js";

const perSecond = (number) => `${count(Math.round(number * 10) / 10)}/s`;
const compactRate = (number) => `${compact(number)}/s`;
const whole = (number) => count(Math.round(number * 10) / 10);

/** The charts. Those of series that a reply lacks are left out: a queue has no rates of its own. */
const CHARTS = [
  {
    title: "Per second",
    format: perSecond,
    axis: compactRate,
    series: [
      ["pushes", "in", "blue"],
      ["out", "out", "green"],
      ["deliveries", "delivered", "amber"],
    ],
  },
  {
    title: "Elements",
    format: whole,
    axis: compact,
    series: [
      ["waiting", "waiting", "blue"],
      ["due", "due", "red"],
      ["held", "held", "amber"],
    ],
  },
  { title: "Oldest due", format: duration, ofQueue: true, series: [["oldest_due_ms", "oldest due", "red"]] },
  {
    title: "Lateness",
    format: duration,
    series: [
      ["late_p50", "median", "green"],
      ["late_p99", "99 %", "amber"],
      ["late_max", "max", "red"],
    ],
  },
];

export class History {
  #charts = new Map();

  constructor(label) {
    this.element = h("section", { class: "charts", "aria-label": label });
  }

  /** `query` names a node, a queue, or nothing for all nodes. Series that a reply lacks have no chart. */
  async refresh(query, signal) {
    const { times, series } = await get("history", query, signal);
    CHARTS.forEach((spec) => {
      const present = spec.ofQueue && !query.key ? [] : spec.series.filter(([name]) => series[name]);
      const name = `${spec.title} ${present.map(([each]) => each)}`;
      if (!present.length) return;
      let chart = this.#charts.get(spec.title);
      if (chart?.name !== name) {
        chart?.close();
        const next = new Chart({ ...spec, series: present.map(([, label, colour]) => ({ name: label, colour })) });
        next.name = name;
        if (chart) chart.element.replaceWith(next.element);
        else this.element.append(next.element);
        this.#charts.set(spec.title, next);
        chart = next;
      }
      chart.update(
        times,
        present.map(([each]) => series[each]),
      );
    });
  }

  close() {
    for (const chart of this.#charts.values()) chart.close();
  }
}
