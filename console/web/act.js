// Actions on elements, dead letters and queues. What touches many is counted and asked for first.

import { post, queueOf } from "./api.js";
import { follow } from "./batches.js";
import { fromBase64, fromHex, hexOf, line, textOf, toBase64, utf8 } from "./bytes.js";
import { now } from "./clock.js";
import { ask } from "./dialog.js";
import { h, labelled } from "./dom.js";
import { counted, fullMoment, isMoment, MOMENTS, moment, parseDuration, parseMoment } from "./figures.js";
import { notice } from "./notices.js";
import { words } from "./ondue.js";
import { matchText } from "./subject.js";

/**
 * The actions on elements and dead letters: the label of the button, the verb of the question, the participle of the
 * outcome, and the shortcut. `form` asks for arguments; `danger` asks even for one element. `action`: the server's name of it.
 */
export const ACTIONS = {
  run_now: { label: "Run now", verb: "Run", done: "due now", key: "r" },
  postpone: { label: "Postpone…", verb: "Postpone", done: "postponed", key: "p", form: momentForm },
  cancel: { label: "Cancel…", verb: "Cancel", done: "cancelled", key: "c", danger: true, form: cancelForm },
  edit: { label: "Edit…", verb: "Save", done: "saved", key: "e", form: editForm, single: true },
  give_back: { label: "Give back", verb: "Give back", done: "given back", key: "b" },
  revive: { label: "Retry", verb: "Retry", done: "sent back to the queue", key: "r", noun: "dead letter" },
  mend: {
    label: "Edit and retry…",
    verb: "Retry",
    done: "sent back to the queue",
    form: (info) => editForm(info, "It comes back under its id, due at once."),
    single: true,
    noun: "dead letter",
    action: "revive",
  },
  drop_dead: { label: "Drop…", verb: "Drop", done: "dropped", key: "c", danger: true, noun: "dead letter" },
  push: { label: "Put a job…", verb: "Put", form: pushForm, queue: true },
  run_schedule: { label: "Run now", verb: "Run now", queue: true },
  unschedule: { label: "Unschedule…", verb: "Unschedule", form: unscheduleForm, queue: true, danger: true },
  pause: { label: "Pause…", verb: "Pause", form: pauseForm, queue: true },
  resume: { label: "Resume", verb: "Resume", queue: true },
  limit: { label: "Limits…", verb: "Set limits", form: limitForm, queue: true },
  ondue: { label: "On due…", verb: "Set the policy", form: ondueForm, queue: true },
};

/** What an action does to one, and to many. */
const EXPLAINED = {
  run_now: [
    "Sets its deadline to now: the next worker gets it.",
    "Sets their deadlines to now: the next workers get them.",
  ],
  cancel: ["Removes it from the queue. This cannot be undone.", "Removes them from the queue. This cannot be undone."],
  give_back: [
    "Ends its lease: another worker can take it at once, and what its holder does with it counts no more.",
    "Ends their leases: other workers can take them at once, and what their holders do with them counts no more.",
  ],
  revive: [
    "Pushes it back under its id, due at once, with a new delivery count, and removes the dead letter.",
    "Pushes them back under their ids, due at once, with new delivery counts, and removes the dead letters.",
  ],
  drop_dead: ["Removes the dead letter. This cannot be undone.", "Removes the dead letters. This cannot be undone."],
};

/**
 * Runs an action: asks for its arguments, and for consent where many are touched or something is lost.
 * `on`: `{ids_b64}`, `{entries}`, `{match}`, or null for the queue. `info`: what the form starts with; its `part` are
 * arguments that name a part of the queue: a group, a schedule, or each group.
 * Returns whether anything was sent.
 */
export async function act({ queue, action, on, info = {} }) {
  const spec = ACTIONS[action];
  const request = { queue: queueOf(queue), action: spec.action ?? action, args: { ...info.part }, on: on ?? null };
  try {
    const many = on?.match ? Number.POSITIVE_INFINITY : (on?.ids_b64 ?? on?.entries ?? []).length;
    const form = spec.form?.(info);
    if (form || spec.danger || many > 1) {
      const args = await consent({ spec, action, request, many, info, form });
      if (!args) return false;
      request.args = { ...info.part, ...args };
    }
    tell(spec, await post("act", request), { queue, action, info });
    return true;
  } catch (error) {
    notice(`${spec.verb}: ${error.message}`, true);
    return false;
  }
}

async function consent({ spec, action, request, many, info, form }) {
  const noun = spec.noun ?? "element";
  const body = [];
  let title = `${spec.verb} ${counted(many, noun)}?`;
  let confirm = many > 1 ? `${spec.verb} ${counted(many, noun)}` : spec.verb;
  if (spec.queue || spec.single) {
    title = form.title;
    confirm = spec.verb;
  } else if (many === 1) {
    title = `${spec.verb} this ${noun}?`;
    body.push(
      h("p", { class: "subject" }, h("bdi", {}, info.name ?? request.on.entries?.[0] ?? line(request.on.ids_b64[0]))),
    );
  }
  const status = h("p", { class: "counting", role: "status" });
  if (many === Number.POSITIVE_INFINITY) {
    const { id, text, group_b64 } = request.on.match;
    title = id || text || group_b64 ? `${spec.verb} all that match?` : `${spec.verb} all ${noun}s?`;
    const group = request.on.match.group_b64;
    body.push(h("p", {}, `${matchText({ ...request.on.match, group: group && line(group) }, noun)}.`), status);
    confirm = spec.verb;
  }
  if (EXPLAINED[action]) body.push(h("p", { class: "muted" }, EXPLAINED[action][many > 1 ? 1 : 0]));
  if (form) body.push(form.body);
  const fields = await ask({
    title,
    body,
    confirm,
    danger: spec.danger,
    check: form?.check,
    start: ({ yes, form: asked }) => {
      if (many !== Number.POSITIVE_INFINITY) return;
      // How many they are may depend on the form, but not on where they go.
      const isFixed = action === "postpone";
      const args = () => (isFixed ? { ms: 0 } : (form?.args(Object.fromEntries(new FormData(asked))) ?? {}));
      const again = () => countFirst({ request, args: args(), status, yes, spec, noun });
      if (!isFixed) asked.addEventListener("change", again);
      again();
    },
  });
  return fields && (form ? form.args(fields) : {});
}

/** Asks the server how many elements match, and lets the user consent when that is known. */
async function countFirst({ request, args, status, yes, spec, noun }) {
  yes.setAttribute("aria-disabled", "true");
  status.textContent = "Counting…";
  try {
    const { would, complete } = await post("act?count=1", { ...request, args });
    const number = complete ? counted(would, noun) : `at least ${counted(would, noun)}`;
    const nothing = would === 0 && complete;
    status.textContent = nothing ? "Nothing matches." : `This touches ${number}, as of now.`;
    yes.textContent = complete ? `${spec.verb} ${number}` : `${spec.verb} all, ${number}`;
    if (!nothing) yes.removeAttribute("aria-disabled");
  } catch (error) {
    status.textContent = `They could not be counted: ${error.message}`;
  }
}

function tell(spec, reply, { queue, action, info }) {
  if (reply?.job) return follow(reply.job, notice(`${spec.verb}: started.`));
  if (spec.queue) return notice(`${info.part ? info.name : line(queue.key ?? queue.key_b64)}: ${QUEUE_DONE[action]}.`);
  const { done = 0, missed = 0, problem } = reply ?? {};
  const noun = spec.noun ?? "element";
  const told = done || !missed ? `${counted(done, noun)} ${spec.done}` : "Nothing changed";
  const left = missed
    ? `; ${counted(missed, noun)} left alone, because ${missed === 1 ? "it is" : "they are"} gone or held by a worker`
    : "";
  notice(`${told}${left}.${problem ? ` ${problem}` : ""}`, Boolean(problem) || (missed > 0 && !done));
}

const QUEUE_DONE = {
  pause: "paused",
  resume: "resumed",
  limit: "limits set",
  ondue: "policy set",
  push: "a job is put",
  run_schedule: "a job is put, the next one stays",
  unschedule: "unscheduled",
};

// The forms: each has `body`, `check(fields)`, which returns what is wrong, and `args(fields)` for the request.

function momentForm({ label = "New deadline", when = "+10m" } = {}) {
  const field = h("input", { name: "when", value: when, autocomplete: "off", spellcheck: "false" });
  const shown = h("output", {}, "");
  const show = () => {
    const at = parseMoment(field.value, now());
    shown.textContent = at === null ? "" : `Due ${fullMoment(at)}`;
  };
  field.addEventListener("input", show);
  show();
  const quick = ["+1m", "+10m", "+1h", "+1d", "tomorrow 9:00"].map((text) =>
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          field.value = text;
          show();
        },
      },
      text,
    ),
  );
  return {
    body: [labelled(label, field, `For example ${MOMENTS}`), h("div", { class: "quick" }, quick), shown],
    check: ({ when }) => checkMoment(when),
    args: ({ when }) => momentArgs(when),
  };
}

function pushForm({ name }) {
  const due = momentForm({ label: "Due", when: "now" });
  const field = h("textarea", { name: "element", rows: 6, spellcheck: "false" });
  const input = (of) => h("input", { name: of, autocomplete: "off", spellcheck: "false" });
  return {
    title: `Put a job into ${name}`,
    body: [
      labelled("Element (text)", field),
      labelled("Id", input("id"), "Empty: the server makes one"),
      labelled("Group", input("group"), "Empty: none"),
      due.body,
    ],
    check: due.check,
    args: ({ id, group, when }) => ({
      ...due.args({ when }),
      element_b64: toBase64(utf8(field.value)),
      ...(id && { id_b64: toBase64(utf8(id)) }),
      ...(group && { group_b64: toBase64(utf8(group)) }),
    }),
  };
}

function unscheduleForm({ name }) {
  return {
    title: `Unschedule ${name}?`,
    body: h("p", { class: "muted" }, "It occurs no more. What it has stored stays."),
    args: () => ({}),
  };
}

/** Returns what is wrong with a moment, or null. */
const checkMoment = (text) =>
  parseMoment(text, now()) === null
    ? `“${text}” is neither a duration from now nor a moment. Write for example ${MOMENTS}.`
    : null;

/** Returns the arguments for a moment: a duration is counted from when the server gets it. */
function momentArgs(text) {
  const ms = parseDuration(text);
  return ms === null ? { at: parseMoment(text, now()) } : { ms };
}

function cancelForm({ held }) {
  const check = h("input", { type: "checkbox", name: "held", checked: held });
  return {
    body: h(
      "label",
      { class: "switch" },
      check,
      " Also if a worker holds it: what the worker does with it then counts no more",
    ),
    args: (fields) => (fields.held ? { held: true } : {}),
  };
}

function editForm({ element_b64, name }, hint = "The id, the deadline and the delivery count stay.") {
  const bytes = fromBase64(element_b64);
  const text = textOf(bytes);
  const field = h("textarea", { name: "element", rows: 14, spellcheck: "false" });
  // A text area turns \r\n into \n: elements with \r, as all that are not text, are edited in hex.
  const asText = text !== null && !text.includes("\r") && !text.includes("\0");
  field.value = asText ? text : hexOf(bytes);
  return {
    title: `Edit ${name ?? "a dead letter"}`,
    body: labelled(asText ? "Element (text)" : "Element (bytes in hex)", field, hint),
    check: ({ element }) => (asText || fromHex(element) ? null : "These are not pairs of hexadecimal digits."),
    // A form sends \r\n at the ends of lines.
    args: () => ({ element_b64: toBase64(asText ? utf8(field.value) : fromHex(field.value)) }),
  };
}

/** A schedule is paused until it is resumed: there is nothing to ask. */
function pauseForm(info) {
  if (info.part?.schedule_b64) return undefined;
  const field = h("input", { name: "until", autocomplete: "off", spellcheck: "false", placeholder: "30m" });
  return {
    title: `Pause ${info.name}?`,
    body: [
      h(
        "p",
        {},
        "Workers get nothing of it, and the server delivers nothing, until it is resumed. Producers can go on.",
      ),
      labelled("Until (leave empty to pause until it is resumed)", field, `For example ${MOMENTS}`),
    ],
    check: ({ until }) => (until.trim() ? checkMoment(until) : null),
    args: ({ until }) => (until.trim() ? momentArgs(until) : {}),
  };
}

function limitForm(info) {
  const limits = info.limits ?? {};
  const fields = [
    ["length", "Length: elements at most"],
    ["held", "Held: leases at a time"],
    ["rate", "Rate: elements"],
    ["per", "Rate: in how many ms", true],
    ...(info.part?.group_b64 ? [["share", "Share: elements in its turn"]] : []),
    ...(info.part ? [] : [["remember", "Remember ids for ms", true]]),
  ];
  const number = ([name, label, isDuration]) => {
    const value = String(limits[name] ?? 0);
    const field = h("input", { name, inputmode: isDuration ? null : "numeric", autocomplete: "off", value });
    return labelled(label, field, isDuration && "Or a duration, such as 1s or 10m");
  };
  return {
    title: `Limits of ${info.name}`,
    body: [h("p", { class: "muted" }, "0 removes a limit."), h("div", { class: "grid" }, fields.map(number))],
    check: (given) => {
      for (const [name, label, isDuration] of fields) {
        if (isDuration && parseDuration(given[name], "ms") === null)
          return `${label}: “${given[name]}” is no duration. Write for example 10m, 1h 30m, or 5000.`;
        if (!isDuration && !/^\d{1,15}$/.test(given[name].trim()))
          return `${label}: “${given[name]}” is not a whole number. Write for example 100.`;
      }
      if (Number(given.rate) > 0 !== parseDuration(given.per, "ms") > 0)
        return "A rate needs both numbers, for example 100 elements in 1s.";
      return null;
    },
    args: (given) =>
      Object.fromEntries(
        fields.map(([name, , isDuration]) => [
          name,
          isDuration ? parseDuration(given[name], "ms") : Number(given[name]),
        ]),
      ),
  };
}

function ondueForm(info) {
  const form = words(info.policy);
  return {
    title: `What happens to elements of ${info.name} when they are due`,
    body: form.body,
    check: form.check,
    args: (fields) => ({ words: form.words(fields) }),
  };
}

/** Returns "until 14:05" for a pause. */
export const pausedUntil = (queue) =>
  isMoment(queue.paused_until) ? `until ${moment(queue.paused_until, now())}` : "until resumed";
