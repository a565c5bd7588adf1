// One element: its fields, its content in each form that fits, and what can be done to it.

import { ACTIONS, act } from "./act.js";
import { get, nameOf } from "./api.js";
import { fromBase64, line, lineOf, shortened } from "./bytes.js";
import { countdown, now, setClock } from "./clock.js";
import { heldFor, TOKENS } from "./columns.js";
import { contentOf } from "./content.js";
import { fill, h } from "./dom.js";
import { count, duration, fullMoment, isMoment } from "./figures.js";
import { actionButton, refusal } from "./rights.js";
import { queueHref } from "./route.js";
import { stats } from "./stats.js";
import { pausedBy, why } from "./why.js";

const HELD = "A worker holds it. Give it back first.";

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
      get("queue", { ...this.queue, group: this.group }, signal),
    ]);
    this.info = found;
    this.about = about;
    if (found?.group_b64 && found.group_b64 !== this.group) {
      this.group = found.group_b64;
      this.about = await get("queue", { ...this.queue, group: this.group }, signal);
    }
    this.by = about.queue.paused ? (this.by ?? (await pausedBy(this.queue, signal))) : undefined;
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
      held && ["Held for", heldFor(found)],
      held && ["Token", h("bdi", {}, line(found.token_b64))],
      found.reason_b64 && ["Given back because", h("bdi", {}, shortened(line(found.reason_b64), 400))],
      found.group_b64 && [
        "Group",
        h(
          "a",
          { href: queueHref(this.queue, { group: found.group_b64 }) },
          h("bdi", {}, shortened(line(found.group_b64), 80)),
        ),
      ],
    ];
    fill(
      this.facts,
      stats(facts),
      h("p", { class: "why" }, h("strong", {}, "Why it waits: "), why(found, this.about, now(), this.by).join(" ")),
      held && h("p", { class: "muted" }, TOKENS),
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
