// Actions on many elements run as jobs of the program: their progress, and how to stop them.

import { get, post } from "./api.js";
import { line } from "./bytes.js";
import { fill, h } from "./dom.js";
import { count } from "./figures.js";
import { notice } from "./notices.js";
import { href, queueHref } from "./route.js";
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

/** Jobs that this page started and that have not been seen at their end, with what takes away the message of the start. */
const followed = new Map();
let timer;
let onend = () => {};

/** Shows a job at the bottom of the page until it ends, and then its outcome instead of the message of its start. */
export function follow(job, unsay) {
  followed.set(job, unsay);
  clearTimeout(timer);
  look();
}

async function look() {
  try {
    const jobs = await get("jobs");
    strip(jobs);
    for (const job of jobs) {
      const unsay = followed.get(job.job);
      if (job.state === "running" || !unsay) continue;
      followed.delete(job.job);
      unsay();
      onend();
      const text = `${nameOf(job)}: ${STATES[job.state] ?? job.state}, ${count(job.done)} done${job.missed ? `, ${count(job.missed)} missed` : ""}.`;
      notice(job.error ? `${text} ${job.error}` : text, job.state === "failed");
    }
    if (jobs.some((job) => job.state === "running") || followed.size) timer = setTimeout(look, 700);
  } catch {
    // The trouble is told elsewhere; the jobs go on.
    timer = setTimeout(look, 3000);
  }
}

/** Shows jobs that run already when the page is opened. `refresh` is called when a job of this page has ended. */
export function startJobs(refresh) {
  onend = refresh;
  look();
}

const STATES = { running: "running", done: "done", stopped: "stopped", failed: "failed" };

const nameOf = (job) => NAMES[job.action] ?? job.action;

function strip(jobs) {
  const running = jobs.filter((job) => job.state === "running");
  fill(
    document.getElementById("jobs"),
    running.map((job) =>
      h("div", { class: "job", data: { job: job.job } }, [
        h("span", {}, `${nameOf(job)}: ${told(job)}`),
        bar(job),
        stopButton(job),
      ]),
    ),
  );
}

const told = (job) =>
  `${count(job.done)}${job.of ? ` of ${count(job.of)}` : ""}${job.missed ? `, ${count(job.missed)} missed` : ""}`;

function bar(job) {
  const label = `Progress of ${nameOf(job)}`;
  return job.of
    ? h("progress", { max: job.of, value: Math.min(job.of, job.done + (job.missed ?? 0)), "aria-label": label })
    : h("progress", { "aria-label": label });
}

const stopButton = (job) =>
  h("button", { type: "button", class: "danger", onclick: () => stop(job.job), data: { stop: job.job } }, "Stop");

async function stop(job) {
  try {
    await post(`jobs/${encodeURIComponent(job)}/stop`);
    look();
  } catch (error) {
    notice(`Stop: ${error.message}`, true);
  }
}

/** The view of all jobs since the program started. */
export class JobsView {
  every = 1000;
  title = "Jobs";

  constructor() {
    this.table = new Table({
      label: "Jobs",
      key: (job) => job.job,
      empty: "No job yet. An action on many elements is a job, which you can watch and stop here.",
      columns: [
        { label: "Action", cell: nameOf },
        {
          label: "Queue",
          cell: (job) =>
            job.queue?.key_b64 === undefined
              ? ""
              : h("a", { href: queueHref(job.queue) }, h("bdi", {}, line(job.queue.key_b64))),
        },
        { label: "On", wide: true, cell: (job) => h("bdi", {}, subjectText(job.on)) },
        {
          label: "State",
          cell: (job) => [
            h("span", { class: `badge ${job.state}` }, STATES[job.state] ?? job.state),
            job.error && h("span", { class: "bad" }, ` ${job.error}`),
          ],
        },
        { label: "Done", numeric: true, cell: (job) => count(job.done) },
        { label: "Missed", numeric: true, cell: (job) => count(job.missed) },
        { label: "Of", numeric: true, cell: (job) => count(job.of) },
        { label: "Looked at", numeric: true, cell: (job) => count(job.scanned) },
        {
          label: "Progress",
          cell: (job) => (job.state === "running" ? h("div", { class: "row" }, bar(job), stopButton(job)) : ""),
        },
      ],
    });
    this.element = h("section", { "aria-labelledby": "head" }, [
      h("h1", { id: "head", tabindex: "-1" }, "Jobs"),
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
