// One dead letter, in a dialog.

import { ACTIONS } from "./act.js";
import { get } from "./api.js";
import { fromBase64, line, lineOf, shortened, textOf, visible } from "./bytes.js";
import { timeOfDay } from "./clock.js";
import { contentOf, fieldList } from "./content.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { count, fullMoment, size } from "./figures.js";
import { actionButton } from "./rights.js";

/** Finds the dead letter of an entry, wherever it is; undefined if it is gone. */
export async function findLetter(queue, entry) {
  // Pages start behind an entry of a stream, whose latest come first, and at an index of a list.
  const [, ms, sequence] = /^(\d+)-(\d+)$/.exec(entry) ?? [];
  const start = ms === undefined ? entry.split(":")[0] : `${ms}-${BigInt(sequence) + 1n}`;
  const { rows } = await get("dead", { ...queue, start, count: 1 });
  return rows.find((row) => row.entry === entry);
}

/** Shows a dead letter. `reasonOf(action)` returns why an action is refused; `run(action, info)` runs it. */
export function showLetter(row, { key, reasonOf, run }) {
  const cut = row.element_bytes > fromBase64(row.element_b64).length;
  const buttons = ["revive", "mend", "drop_dead"].map((action) =>
    actionButton({
      label: ACTIONS[action].label,
      action,
      danger: ACTIONS[action].danger,
      reason:
        reasonOf(ACTIONS[action].action ?? action) ??
        (cut && action === "mend" ? "It is too long to edit here." : null),
      onclick: () => {
        document.querySelector("dialog[open]").close();
        run(action, { element_b64: row.element_b64 });
      },
    }),
  );
  const title = row.id_b64 === null ? "Dead letter" : `Dead letter ${shortened(line(row.id_b64), 80)}`;
  return ask({ title, body: [h("div", { class: "toolbar" }, buttons), details(row, key)] });
}

/** Fields that have a place of their own. */
const KNOWN = new Set(["deliveries", "reason"]);

function details(row, key) {
  const bytes = fromBase64(row.element_b64);
  const reason =
    row.reason_b64 === null ? null : (textOf(fromBase64(row.reason_b64)) ?? lineOf(fromBase64(row.reason_b64)));
  const facts = [
    ["Reason", reason === null ? "not given" : h("bdi", {}, visible(reason, "\n"))],
    row.deliveries !== null && ["Deliveries", count(row.deliveries)],
    row.moment && ["Since", [timeOfDay(row.moment), h("span", { class: "muted" }, ` ${fullMoment(row.moment)}`)]],
    ["Entry", row.entry],
    ...row.fields
      .filter(({ name_b64 }) => !KNOWN.has(line(name_b64)))
      .map(({ name_b64, value_b64 }) => [line(name_b64), h("bdi", {}, line(value_b64))]),
  ].filter(Boolean);
  const rest = row.element_bytes - bytes.length;
  return h("div", {}, [
    fieldList(facts),
    contentOf(bytes, key),
    rest > 0 &&
      h("p", { class: "muted" }, `These are its first ${size(bytes.length)}; ${size(rest)} more are on the server.`),
  ]);
}
