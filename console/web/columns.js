// The columns of elements, held elements and dead letters.

import { fromBase64, line, lineOf, shortened, visible } from "./bytes.js";
import { countdown, now, timeOfDay } from "./clock.js";
import { h } from "./dom.js";
import { envelopeOf, msgpackOf, pretty, summary } from "./envelope.js";
import { count, duration, fullMoment, isMoment } from "./figures.js";
import { elementHref, queueHref } from "./route.js";

/** Characters of an element, at most, and of a name. */
const PREVIEW = 140;
const NAME = 80;

/** Returns what tells a row from the others. */
export const keyOf = (row) => row.entry ?? row.id_b64;

/** Returns the columns of a view. `letterHref(entry)` is the address of a dead letter. */
export function columnsOf(view, queue, letterHref) {
  const key = lineOf(fromBase64(queue.key));
  const content = { label: "Element", wide: true, cell: (row) => preview(row, key) };
  if (view === "dead") return [...lettersColumns(letterHref), content];
  return [idColumn(() => queue), ...(view === "held" ? HELD : WAITING), content];
}

/** Creates a link to a queue, or to one of its views. */
export const queueLink = (queue, more) =>
  h("a", { href: queueHref(queue, more) }, h("bdi", {}, shortened(line(queue.key_b64), NAME)));

/** Creates the column of ids. `queueOf(row)` is the queue of a row. */
const idColumn = (queueOf) => ({
  name: "id",
  label: "Id",
  cell: (row) =>
    h("a", { href: elementHref(queueOf(row), row.id_b64) }, h("bdi", {}, shortened(line(row.id_b64), NAME))),
});

/** Returns the columns of held elements of all queues. */
export const heldColumns = () => [
  idColumn((row) => row.queue),
  { label: "Queue", cell: ({ queue }) => queueLink(queue, { view: "held" }) },
  ...HELD,
];

function deadline({ deadline: at }) {
  return [countdown(at), isMoment(at) && h("span", { class: "muted" }, " ", timeOfDay(at))];
}

const WAITING = [
  { name: "due", label: "Due", cell: deadline },
  { label: "State", cell: state },
  { label: "Deliveries", numeric: true, cell: (row) => count(row.deliveries) },
];

/** What a reader has to know of tokens. */
export const TOKENS =
  "The server keeps a token as a number, also one that a worker chose as a word: the word cannot be shown. Commands accept both.";

/** Returns for how long an element has been held, whatever its worker has renewed. */
export function heldFor(row) {
  return row.held_since === null || row.held_since === undefined ? "–" : duration(Math.max(now() - row.held_since, 0));
}

const HELD = [
  { name: "due", label: "Held until", cell: deadline },
  { label: "Held for", cell: (row) => h("span", { title: fullMoment(row.held_since) }, heldFor(row)) },
  { label: "Attempt", numeric: true, cell: (row) => count(row.deliveries) },
  { label: "Token", cell: (row) => h("bdi", {}, row.token_b64 === null ? "–" : shortened(line(row.token_b64), NAME)) },
];

const lettersColumns = (letterHref) => [
  {
    name: "id",
    label: "Id",
    cell: (row) =>
      h(
        "a",
        { href: letterHref(row.entry) },
        h("bdi", {}, row.id_b64 === null ? "(no id)" : shortened(line(row.id_b64), NAME)),
      ),
  },
  {
    label: "Reason",
    wide: true,
    cell: (row) =>
      row.reason_b64 === null
        ? h("span", { class: "muted" }, "not given")
        : h("bdi", {}, shortened(line(row.reason_b64), PREVIEW)),
  },
  { label: "Deliveries", numeric: true, cell: (row) => count(row.deliveries) },
  { label: "Since", cell: (row) => (row.moment ? countdown(row.moment) : "–") },
];

function state(row) {
  if (row.leased) return h("span", { class: "badge held" }, "held");
  if (!isMoment(row.deadline)) return h("span", { class: "badge stuck" }, "stuck");
  if (row.deadline <= now()) return h("span", { class: "badge due" }, "due");
  return h("span", { class: "badge" }, row.deliveries > 0 ? "retry" : "waiting");
}

/** Creates the beginning of an element. `key`: the name of its queue, as a line. */
export function preview(row, key) {
  const bytes = fromBase64(row.element_b64);
  const about = summary(envelopeOf(bytes, key));
  if (about) return h("bdi", {}, h("strong", {}, visible(about.task)), visible(shortened(about.args, PREVIEW)));
  if (!bytes.length) return h("span", { class: "muted" }, "(empty)");
  const msgpack = msgpackOf(bytes);
  if (msgpack !== undefined) return h("bdi", {}, visible(shortened(pretty(msgpack, 0), PREVIEW)));
  return h("bdi", {}, shortened(lineOf(bytes.subarray(0, 4 * PREVIEW)), PREVIEW));
}
