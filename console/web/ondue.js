// The form for ONDUE: what the server does with elements that come due.

import { h, labelled } from "./dom.js";

const KINDS = [
  ["HOLD", "Wait for workers"],
  ["HOLD DELIVERIES", "Wait for workers; dead letters after some deliveries"],
  ["STREAM", "Append to a stream"],
  ["LIST", "Push to a list"],
  ["PUBLISH", "Publish to a channel"],
  ["DROP", "Drop"],
];

const DESTINATIONS = [
  ["STREAM", "to a stream"],
  ["LIST", "to a list"],
  ["PUBLISH", "published to a channel"],
  ["DROP", "dropped"],
];

/** Returns the fields of the form for a policy, as the server of the page sends it. */
function fieldsOf({ action, deliveries, dead_letters, dest, end, maxlen, approximate }) {
  return {
    kind: dead_letters === null ? action : "HOLD DELIVERIES",
    deliveries: String(deliveries || 5),
    destination: dead_letters ?? "STREAM",
    dest: dest ?? "",
    maxlen: maxlen ? String(maxlen) : "",
    approximately: maxlen === 0 || approximate,
    side: end ?? "RIGHT",
  };
}

/** Creates the form. `words(fields)` returns the words of ONDUE after the key. */
export function words(policy) {
  const now = fieldsOf(policy);
  const choice = (name, options, value) =>
    h(
      "select",
      { name },
      options.map(([word, text]) => h("option", { value: word, selected: word === value }, text)),
    );
  const kind = choice("kind", KINDS, now.kind);
  const field = (name, value, more = {}) =>
    h("input", { name, value, autocomplete: "off", spellcheck: "false", ...more });
  const deliveries = h("div", { class: "grid" }, [
    labelled("After how many deliveries", field("deliveries", now.deliveries, { inputmode: "numeric" })),
    labelled("Dead letters are", choice("destination", DESTINATIONS, now.destination)),
  ]);
  const dest = labelled("Name", field("dest", now.dest), "The key of the stream or list, or the channel");
  const maxlen = labelled(
    "Keep at most (empty: all)",
    field("maxlen", now.maxlen, { inputmode: "numeric" }),
    "Entries of the stream, approximately",
  );
  const side = labelled(
    "Side",
    choice(
      "side",
      [
        ["RIGHT", "the tail (RPUSH)"],
        ["LEFT", "the head (LPUSH)"],
      ],
      now.side,
    ),
  );
  const command = h("code", { class: "command" });
  const body = h("div", {}, [
    labelled("When an element is due", kind),
    deliveries,
    dest,
    maxlen,
    side,
    h("p", {}, command),
  ]);

  const build = (fields) => {
    const target = fields.kind === "HOLD DELIVERIES" ? fields.destination : fields.kind;
    const out = fields.kind === "HOLD DELIVERIES" ? ["HOLD", "DELIVERIES", fields.deliveries.trim(), target] : [target];
    if (["STREAM", "LIST", "PUBLISH"].includes(target)) out.push(fields.dest);
    if (target === "STREAM" && fields.maxlen.trim())
      out.push("MAXLEN", now.approximately ? "~" : "=", fields.maxlen.trim());
    if (target === "LIST" && fields.side === "LEFT") out.push("LEFT");
    return out;
  };
  const read = () => Object.fromEntries([...body.querySelectorAll("[name]")].map((each) => [each.name, each.value]));
  const show = () => {
    const fields = read();
    const target = fields.kind === "HOLD DELIVERIES" ? fields.destination : fields.kind;
    deliveries.hidden = fields.kind !== "HOLD DELIVERIES";
    dest.hidden = !["STREAM", "LIST", "PUBLISH"].includes(target);
    maxlen.hidden = target !== "STREAM";
    side.hidden = target !== "LIST";
    command.textContent = `ONDUE … ${build(fields).join(" ")}`;
  };
  body.addEventListener("input", show);
  show();

  return {
    body,
    words: build,
    check: (fields) => {
      const target = fields.kind === "HOLD DELIVERIES" ? fields.destination : fields.kind;
      if (fields.kind === "HOLD DELIVERIES" && !/^[1-9]\d{0,4}$/.test(fields.deliveries.trim()))
        return "Deliveries: a whole number from 1.";
      if (["STREAM", "LIST", "PUBLISH"].includes(target) && !fields.dest) return "The name is missing.";
      if (target === "STREAM" && fields.maxlen.trim() && !/^[1-9]\d*$/.test(fields.maxlen.trim()))
        return "Keep at most: a whole number from 1.";
      return null;
    },
  };
}
