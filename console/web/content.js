// The content of an element, in each form that fits: envelope, JSON, MessagePack, text, bytes.

import { dump, textOf, visible } from "./bytes.js";
import { h } from "./dom.js";
import { envelopeOf, jsonOf, msgpackOf, pretty } from "./envelope.js";
import { size } from "./figures.js";

/** A dump of more bytes than that would make the page slow. */
const DUMPED = 65_536;

/** Returns the forms in which an element can be shown, each with a name and a function that creates it. */
function formsOf(bytes, key) {
  const forms = [];
  const envelope = envelopeOf(bytes, key);
  const json = jsonOf(bytes);
  const msgpack = json === undefined ? msgpackOf(bytes) : undefined;
  const text = textOf(bytes);
  if (envelope) forms.push(["Envelope", () => envelopeTable(envelope)]);
  if (json !== undefined) forms.push(["JSON", () => block(pretty(json), "JSON")]);
  if (msgpack !== undefined) forms.push(["MessagePack", () => block(pretty(msgpack), "MessagePack")]);
  if (text !== null) forms.push(["Text", () => block(visible(text, "\n\t"), "Text")]);
  forms.push(["Bytes", () => bytesBlock(bytes)]);
  return forms;
}

const block = (text, label) => h("pre", { tabindex: "0", role: "region", "aria-label": label, class: "content" }, text);

function bytesBlock(bytes) {
  const parts = [block(dump(bytes.subarray(0, DUMPED)), "Bytes")];
  if (bytes.length > DUMPED)
    parts.push(h("p", { class: "muted" }, `The first ${size(DUMPED)} of ${size(bytes.length)}.`));
  return h("div", {}, parts);
}

function envelopeTable(envelope) {
  const rows = [["Kind", envelope.kind]];
  if (envelope.task !== undefined)
    rows.push([envelope.kind === "RQ" ? "Job" : "Task", h("strong", {}, h("bdi", {}, visible(String(envelope.task))))]);
  if (envelope.args !== undefined) rows.push(["Arguments", value(envelope.args)]);
  if (envelope.kwargs !== undefined) rows.push(["Keyword arguments", value(envelope.kwargs)]);
  if (envelope.body !== undefined) rows.push(["Body", value(envelope.body)]);
  if (envelope.note) rows.push(["Note", envelope.note]);
  const more = [
    ["Headers", envelope.headers],
    ["Fields", envelope.fields],
  ];
  return h("div", {}, [
    fieldList(rows),
    more.map(
      ([name, pairs]) =>
        pairs?.length && [h("h2", { class: "small" }, name), fieldList(pairs.map(([each, one]) => [each, value(one)]))],
    ),
  ]);
}

function value(each) {
  if (each instanceof Node) return each;
  if (typeof each === "string") return h("bdi", {}, visible(each, "\n\t"));
  const text = pretty(each, 0);
  return text.length <= 60 ? h("code", {}, visible(text)) : h("pre", {}, visible(pretty(each), "\n"));
}

/** Creates a list of names and values. */
export const fieldList = (pairs) =>
  h(
    "dl",
    { class: "fields" },
    pairs.map(([name, each]) => h("div", {}, h("dt", {}, visible(name)), h("dd", {}, each))),
  );

/** Creates the content of an element with a choice of its forms. `chosen` is the name of the form shown first. */
export function contentOf(bytes, key, chosen, onchoose = () => {}) {
  const forms = formsOf(bytes, key);
  const place = h("div", { class: "shown" });
  const buttons = forms.map(([name]) =>
    h("button", { type: "button", data: { form: name }, onclick: () => choose(name, true) }, name),
  );
  const choose = (name, told) => {
    const [found, create] = forms.find(([each]) => each === name) ?? forms[0];
    place.replaceChildren(create());
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.form === found));
    if (told) onchoose(found);
  };
  choose(chosen);
  return h("div", {}, [
    h(
      "div",
      { class: "row", role: "group", "aria-label": "Show the element as" },
      buttons,
      h("span", { class: "muted" }, size(bytes.length)),
    ),
    place,
  ]);
}
