// Charts over time, drawn by uPlot in the colours of the style sheet.

import { fill, h } from "./dom.js";
import { moment } from "./figures.js";
import { colour, onTheme } from "./theme.js";

// A script of index.html.
const { uPlot } = globalThis;

const HEIGHT = 150;

export class Chart {
  #plot;
  #data = [[]];
  #end;
  #observer;
  #place = h("div", { class: "plot" });
  #now = h("span", { class: "muted" });

  /**
   * `series`: each with `name`, `colour` (of the style sheet) and optionally `fill`. `format(number)` is for
   * figures, `axis(number)` for the axis. `bars`: draw bars. `onclick(index)` is called for a click on the chart.
   */
  constructor({ title, series, format, axis = format, bars = false, onclick }) {
    this.series = series;
    this.format = format;
    this.axis = axis;
    this.bars = bars;
    this.onclick = onclick;
    const caption = h("figcaption", {}, h("strong", {}, title), " ", this.#now);
    this.element = h("figure", { class: "chart" }, caption, this.#place);
    this.#end = onTheme(() => this.#draw());
    this.#observer = new ResizeObserver(() => this.#resize());
    this.#observer.observe(this.#place);
  }

  /** Shows values: `times` in seconds, and an array for each series, in which null is a gap. */
  update(times, values) {
    this.#data = [times, ...values];
    const last = this.series
      .map((each, i) => [each, values[i]?.findLast((value) => value !== null && value !== undefined)])
      .filter(([, value]) => value !== undefined);
    const legend = last.map(([each, value]) => this.#named(each, this.bars ? undefined : value));
    fill(this.#now, times.length ? legend : "no samples yet");
    if (this.#plot) this.#plot.setData(this.#data);
    else this.#draw();
  }

  close() {
    this.#end();
    this.#observer.disconnect();
    this.#plot?.destroy();
  }

  #resize() {
    const width = this.#place.clientWidth;
    if (!width) return;
    if (this.#plot) this.#plot.setSize({ width, height: HEIGHT });
    else this.#draw();
  }

  #draw() {
    this.#plot?.destroy();
    this.#plot = undefined;
    const width = this.#place.clientWidth;
    if (!width || !this.#data[0].length) return;
    const line = {
      stroke: colour("muted"),
      grid: { stroke: colour("line"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    const times = (_, splits) => splits.map((at) => moment(at * 1000).replace(/:00$/, ""));
    this.#plot = new uPlot(
      {
        width,
        height: HEIGHT,
        cursor: { points: { size: 6 }, drag: { x: false, y: false } },
        legend: { show: false },
        scales: {
          x: { range: (_, min, max) => this.#span(min, max) },
          y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1)] },
        },
        axes: [
          { ...line, values: times, space: 70, size: 24 },
          { ...line, values: (_, splits) => splits.map((value) => this.axis(value)), size: 58, space: 30 },
        ],
        series: [
          {},
          ...this.series.map((each) => ({
            label: each.name,
            stroke: colour(each.colour),
            width: 1.5,
            fill: this.bars ? colour(each.colour) : undefined,
            points: { show: false },
            spanGaps: false,
            paths: this.bars ? uPlot.paths.bars({ size: [0.8, 60], align: 0 }) : undefined,
          })),
        ],
        hooks: { setCursor: [(plot) => this.#point(plot)] },
      },
      this.#data,
      this.#place,
    );
    this.#tip = h("div", { class: "tip", hidden: true });
    this.#plot.over.append(this.#tip);
    this.#plot.over.addEventListener("click", () => {
      const at = this.#plot.cursor.idx;
      if (this.onclick && at !== null && at !== undefined) this.onclick(at);
    });
  }

  /** Leaves room for the first and the last bar. */
  #span(min, max) {
    const times = this.#data[0];
    if (!this.bars) return [min, max];
    const least = times.reduce(
      (gap, time, i) => (i ? Math.min(gap, time - times[i - 1]) : gap),
      Number.POSITIVE_INFINITY,
    );
    const room = Number.isFinite(least) ? least : 30;
    return [min - room, max + room];
  }

  #tip;

  /** Creates the name of a series beside its colour, with a value if it has one here. */
  #named({ name, colour }, value) {
    const shown = value === undefined ? "" : ` ${value === null ? "–" : this.format(value)}`;
    return h("span", { class: "series" }, h("i", { class: `dot ${colour}` }), `${name}${shown} `);
  }

  /** Shows the values under the pointer. */
  #point(plot) {
    const tip = this.#tip;
    const at = plot.cursor.idx;
    if (!tip) return;
    tip.hidden = at === null || at === undefined || plot.cursor.left < 0;
    if (tip.hidden) return;
    const lines = this.series.map((each, i) => h("div", {}, this.#named(each, this.#data[i + 1]?.[at] ?? null)));
    tip.replaceChildren(h("div", { class: "muted" }, moment(this.#data[0][at] * 1000)), ...lines);
    tip.style.left = plot.cursor.left > plot.over.clientWidth / 2 ? "auto" : `${plot.cursor.left + 12}px`;
    tip.style.right =
      plot.cursor.left > plot.over.clientWidth / 2 ? `${plot.over.clientWidth - plot.cursor.left + 12}px` : "auto";
  }
}
