// Actions on many elements run as batches in the program: their progress, and how to stop them.

import { get, post } from "./api.js";
import { queueLink } from "./columns.js";
import { fill, h } from "./dom.js";
import { count } from "./figures.js";
import { notice } from "./notices.js";
import { href } from "./route.js";
import { subjectText } from "./subject.js";
import { Table } from "./table.js";

const NAMES = {
  run_now: "Run now",
  postpone: "Postpone",
  cancel: "Cancel",
  give_back: "Give back",
  revive: "Retry dead letters",
  drop_dead: "Drop dead letters",
};

/** Batches that this page started and that have not been seen at their end, with what takes away the message of the start. */
const followed = new Map();
let timer;
let onend = () => {};

/** Shows a batch at the bottom of the page until it ends, and then its outcome instead of the message of its start. */
export function follow(batch, unsay) {
  followed.set(batch, unsay);
  clearTimeout(timer);
  look();
}

async function look() {
  try {
    const batches = await get("jobs");
    strip(batches);
    for (const batch of batches) {
      const unsay = followed.get(batch.job);
      if (batch.state === "running" || !unsay) continue;
      followed.delete(batch.job);
      unsay();
      onend();
      const text = `${nameOf(batch)}: ${STATES[batch.state] ?? batch.state}, ${count(batch.done)} done${batch.missed ? `, ${count(batch.missed)} missed` : ""}.`;
      notice(batch.error ? `${text} ${batch.error}` : text, batch.state === "failed");
    }
    if (batches.some((batch) => batch.state === "running") || followed.size) timer = setTimeout(look, 700);
  } catch {
    // The trouble is told elsewhere; the batches go on.
    timer = setTimeout(look, 3000);
  }
}

/** Shows batches that run already when the page is opened. `refresh` is called when a batch of this page has ended. */
export function startBatches(refresh) {
  onend = refresh;
  look();
}

const STATES = { running: "running", done: "done", stopped: "stopped", failed: "failed" };

const nameOf = (batch) => NAMES[batch.action] ?? batch.action;

function strip(batches) {
  const running = batches.filter((batch) => batch.state === "running");
  fill(
    document.getElementById("jobs"),
    running.map((batch) =>
      h("div", { class: "job", data: { job: batch.job } }, [
        h("span", {}, `${nameOf(batch)}: ${told(batch)}`),
        bar(batch),
        stopButton(batch),
      ]),
    ),
  );
}

const told = (batch) =>
  `${count(batch.done)}${batch.of ? ` of ${count(batch.of)}` : ""}${batch.missed ? `, ${count(batch.missed)} missed` : ""}`;

function bar(batch) {
  const label = `Progress of ${nameOf(batch)}`;
  return batch.of
    ? h("progress", { max: batch.of, value: Math.min(batch.of, batch.done + (batch.missed ?? 0)), "aria-label": label })
    : h("progress", { "aria-label": label });
}

const stopButton = (batch) =>
  h("button", { type: "button", class: "danger", onclick: () => stop(batch.job), data: { stop: batch.job } }, "Stop");

async function stop(batch) {
  try {
    await post(`jobs/${encodeURIComponent(batch)}/stop`);
    look();
  } catch (error) {
    notice(`Stop: ${error.message}`, true);
  }
}

/** The view of all batches since the program started. */
export class BatchesView {
  every = 1000;
  title = "Batches";

  constructor() {
    this.table = new Table({
      label: "Batches",
      key: (batch) => batch.job,
      empty: "No batch yet. An action on many elements is a batch, which you can watch and stop here.",
      columns: [
        { label: "Action", cell: nameOf },
        {
          label: "Queue",
          cell: (batch) => (batch.queue?.key_b64 === undefined ? "" : queueLink(batch.queue)),
        },
        { label: "On", wide: true, cell: (batch) => h("bdi", {}, subjectText(batch.on)) },
        {
          label: "State",
          cell: (batch) => [
            h("span", { class: `badge ${batch.state}` }, STATES[batch.state] ?? batch.state),
            batch.error && h("span", { class: "bad" }, ` ${batch.error}`),
          ],
        },
        { label: "Done", numeric: true, cell: (batch) => count(batch.done) },
        { label: "Missed", numeric: true, cell: (batch) => count(batch.missed) },
        { label: "Of", numeric: true, cell: (batch) => count(batch.of) },
        { label: "Looked at", numeric: true, cell: (batch) => count(batch.scanned) },
        {
          label: "Progress",
          cell: (batch) => (batch.state === "running" ? h("div", { class: "row" }, bar(batch), stopButton(batch)) : ""),
        },
      ],
    });
    this.element = h("section", { "aria-labelledby": "head" }, [
      h("h1", { id: "head", tabindex: "-1" }, "Batches"),
      h(
        "p",
        { class: "muted" },
        "Actions on many elements, since dehydrator-top was started. ",
        h("a", { href: href({ page: "log" }) }, "The log"),
        " has all actions.",
      ),
      this.table.element,
    ]);
  }

  async refresh(signal) {
    this.table.update(await get("jobs", {}, signal));
  }
}
