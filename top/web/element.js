// One element: its fields, its content in each form that fits, and what can be done to it.

import { ACTIONS, act } from "./act.js";
import { get, nameOf } from "./api.js";
import { dump, fromBase64, line, lineOf, shortened, textOf, visible } from "./bytes.js";
import { countdown, now, setClock, timeOfDay } from "./clock.js";
import { fill, h } from "./dom.js";
import { envelopeOf, jsonOf, msgpackOf, pretty } from "./envelope.js";
import { count, duration, fullMoment, isMoment, size } from "./figures.js";
import { actionButton, refusal } from "./rights.js";
import { queueHref } from "./route.js";

const HELD = "A worker holds it. Give it back first.";

/** A dump of more bytes than that would make the page slow. */
const DUMPED = 65_536;

/** Returns the forms in which an element can be shown, each with a name and a function that creates it. */
export function formsOf(bytes, key) {
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
    list(rows),
    more.map(
      ([name, pairs]) =>
        pairs?.length && [h("h2", { class: "small" }, name), list(pairs.map(([each, one]) => [each, value(one)]))],
    ),
  ]);
}

function value(each) {
  if (each instanceof Node) return each;
  if (typeof each === "string") return h("bdi", {}, visible(each, "\n\t"));
  const text = pretty(each, 0);
  return text.length <= 60 ? h("code", {}, visible(text)) : h("pre", {}, visible(pretty(each), "\n"));
}

const list = (pairs) =>
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

/** The view of one element. */
export class ElementView {
  every = 2000;

  constructor(route) {
    this.queue = nameOf(route);
    this.id = route.id ?? "";
    this.name = line(this.id);
    this.title = this.name;
    this.facts = h("div", { class: "facts" });
    this.actions = h("div", { class: "toolbar", role: "group", "aria-label": "Actions" });
    this.content = h("div");
    this.element = h("section", { "aria-labelledby": "head" }, [
      h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, [
        h("a", { href: "#/" }, "Overview"),
        " › ",
        h("a", { href: queueHref(this.queue), data: { up: "" } }, h("bdi", {}, line(this.queue.key))),
      ]),
      h("h1", { id: "head", tabindex: "-1" }, h("bdi", {}, shortened(this.name, 200))),
      this.facts,
      this.actions,
      this.content,
    ]);
  }

  async refresh(signal) {
    const [found, about] = await Promise.all([
      get("element", { ...this.queue, id: this.id }, signal).catch((error) => {
        if (error.status === 404) return null;
        throw error;
      }),
      get("queue", this.queue, signal),
    ]);
    this.info = found;
    this.about = about;
    setClock(about.now);
    if (!found) {
      this.seen = undefined;
      fill(
        this.facts,
        h(
          "p",
          { class: "empty" },
          "There is no element with this id any more: it was taken, cancelled or delivered, or has become a dead letter.",
        ),
      );
      fill(this.actions);
      fill(this.content);
      return;
    }
    this.#showFacts(found);
    this.#showActions(found, about);
    if (this.seen !== found.element_b64) {
      this.seen = found.element_b64;
      const bytes = fromBase64(found.element_b64);
      this.content.replaceChildren(
        contentOf(bytes, lineOf(fromBase64(this.queue.key)), this.form, (form) => {
          this.form = form;
        }),
      );
    }
  }

  #showFacts(found) {
    const held = found.token_b64 !== null && found.token_b64 !== undefined;
    const ran = found.leased
      ? "held"
      : isMoment(found.deadline) && found.deadline <= now()
        ? "due"
        : isMoment(found.deadline)
          ? "waiting"
          : "stuck";
    const facts = [
      ["State", h("span", { class: `badge ${ran}` }, ran)],
      [
        held && found.leased ? "Held until" : "Deadline",
        [
          countdown(found.deadline),
          isMoment(found.deadline) && h("span", { class: "muted" }, ` ${fullMoment(found.deadline)}`),
        ],
      ],
      ["TTL", isMoment(found.ttl) ? duration(found.ttl) : "–"],
      ["Deliveries", count(found.deliveries)],
      held && ["Token", h("bdi", {}, line(found.token_b64))],
    ].filter(Boolean);
    fill(
      this.facts,
      h(
        "dl",
        { class: "stats" },
        facts.map(([name, each]) => h("div", {}, h("dt", {}, name), h("dd", {}, each))),
      ),
    );
  }

  #showActions(found, { rights }) {
    const held = found.token_b64 !== null && found.token_b64 !== undefined;
    const names = ["run_now", "postpone", "edit", "cancel", held && "give_back"].filter(Boolean);
    fill(
      this.actions,
      names.map((action) =>
        actionButton({
          label: ACTIONS[action].label,
          action,
          danger: ACTIONS[action].danger,
          shortcut: ACTIONS[action].key,
          reason: refusal(rights, action) ?? (found.leased && ["run_now", "postpone"].includes(action) ? HELD : null),
          onclick: () => this.run(action),
        }),
      ),
    );
  }

  async run(action) {
    const info = { name: this.name, element_b64: this.info.element_b64, held: this.info.leased };
    if (await act({ queue: this.queue, action, on: { ids_b64: [this.id] }, info })) this.onchange?.();
  }

  /** Runs the action of a key. */
  press(key) {
    const button = this.actions.querySelector(`[aria-keyshortcuts="${key}"]`);
    button?.click();
    return Boolean(button);
  }
}

/** Creates the details of a dead letter, for a dialog. */
export function deadLetter(row, key) {
  const known = new Set(["deliveries", "reason"]);
  const more = (row.fields ?? []).filter(({ name_b64 }) => !known.has(line(name_b64)));
  const facts = [
    [
      "Reason",
      row.reason_b64
        ? h("bdi", {}, visible(textOf(fromBase64(row.reason_b64)) ?? line(row.reason_b64), "\n"))
        : "not given: its deliveries were used up",
    ],
    row.deliveries !== null && row.deliveries !== undefined && ["Deliveries", count(row.deliveries)],
    row.moment && ["Since", [timeOfDay(row.moment), h("span", { class: "muted" }, ` ${fullMoment(row.moment)}`)]],
    row.entry && ["Entry", row.entry],
    ...more.map(({ name_b64, value_b64 }) => [line(name_b64), h("bdi", {}, line(value_b64))]),
  ].filter(Boolean);
  return h("div", {}, [list(facts), contentOf(fromBase64(row.element_b64), key)]);
}
