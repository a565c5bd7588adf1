// The envelopes in which job libraries put a task: its name, arguments and headers.

import { fromBase64, textOf, toBase64 } from "./bytes.js";
import { decode } from "./msgpack.js";

/** Returns the value of JSON text, or undefined. */
export function jsonOf(bytes) {
  const text = textOf(bytes);
  if (text === null) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the value of a MessagePack map or array that takes all bytes, or undefined. */
export function msgpackOf(bytes) {
  if (!bytes.length) return undefined;
  const first = bytes[0];
  const compound = (first >= 0x80 && first <= 0x9f) || (first >= 0xdc && first <= 0xdf);
  if (!compound) return undefined;
  try {
    return decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Recognizes an envelope. Returns null, or `{kind, task, args, kwargs, fields, note}`: `fields` are pairs of a name and a
 * value. `key` is the name of the queue, by which RQ's jobs are known: their element is an id.
 */
export function envelopeOf(bytes, key = "") {
  if (isPickle(bytes)) return { kind: "Python pickle", note: "Pickled objects are not decoded: see Bytes." };
  const json = jsonOf(bytes);
  const value = json === undefined ? msgpackOf(bytes) : json;
  if (isMap(value)) {
    for (const read of [celery, sidekiq, dramatiq, taskiq]) {
      const found = read(value);
      if (found) return found;
    }
    return null;
  }
  if (value === undefined) return rq(bytes, key);
  return null;
}

const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const present = (pairs) => pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");

/** A message of kombu: Celery's protocol 2 (the task in the headers), protocol 1 (in the body), or another message. */
function celery(message) {
  if (!("body" in message) || !isMap(message.properties) || !isMap(message.headers ?? {})) return null;
  const headers = message.headers ?? {};
  const type = message["content-type"];
  const body = bodyOf(message);
  const fields = present([
    ["content type", type],
    ["compression", headers.compression],
    ["exchange", message.properties.delivery_info?.exchange],
    ["routing key", message.properties.delivery_info?.routing_key],
    ["priority", message.properties.priority],
    ["delivery tag", message.properties.delivery_tag],
    ["reply to", message.properties.reply_to],
    ["correlation id", message.properties.correlation_id],
  ]);
  const shown = Object.entries(headers).filter(([, value]) => value !== null);
  if (Array.isArray(body.value) && headers.task) {
    const [args, kwargs, embed] = body.value;
    return { kind: "Celery", task: headers.task, args, kwargs, headers: shown, fields: [...fields, ...used(embed)] };
  }
  if (isMap(body.value) && typeof body.value.task === "string") {
    const { task, args, kwargs, ...rest } = body.value;
    return {
      kind: "Celery",
      task,
      args,
      kwargs,
      headers: shown,
      fields: [...fields, ...present(Object.entries(rest))],
    };
  }
  const kind = headers.task ? "Celery" : "kombu";
  if (body.note) {
    // The sender puts the arguments into the headers as text.
    const texts = present([
      ["arguments (repr)", headers.argsrepr],
      ["keyword arguments (repr)", headers.kwargsrepr],
    ]);
    return { kind, task: headers.task, headers: shown, fields: [...texts, ...fields], note: body.note };
  }
  return { kind, task: headers.task, body: body.value, headers: shown, fields };
}

/** Callbacks and the like, where there are some. */
const used = (embed) => (isMap(embed) ? Object.entries(embed).filter(([, value]) => value !== null) : []);

function bodyOf(message) {
  let bytes;
  try {
    bytes =
      message.properties.body_encoding === "base64"
        ? fromBase64(message.body)
        : new TextEncoder().encode(typeof message.body === "string" ? message.body : JSON.stringify(message.body));
  } catch {
    return { note: "The body is not base64." };
  }
  if (message.headers?.compression) return { note: "The body is compressed, and not decoded." };
  const type = message["content-type"] ?? "";
  if (type.includes("python")) return { note: "The body is pickled, and not decoded." };
  const value = type.includes("msgpack") ? msgpackOf(bytes) : (jsonOf(bytes) ?? textOf(bytes) ?? undefined);
  return value === undefined ? { note: `The body (${type || "no type"}) is not decoded.` } : { value };
}

function sidekiq(job) {
  if (typeof job.class !== "string" || !Array.isArray(job.args) || typeof job.jid !== "string") return null;
  const { class: name, wrapped, args, ...rest } = job;
  const inner = wrapped && isMap(args[0]) ? args[0].arguments : undefined;
  const fields = present(Object.entries(wrapped ? { class: name, ...rest } : rest));
  return { kind: wrapped ? "Sidekiq, Active Job" : "Sidekiq", task: wrapped ?? name, args: inner ?? args, fields };
}

function dramatiq(message) {
  if (typeof message.actor_name !== "string" || !Array.isArray(message.args)) return null;
  const { actor_name, args, kwargs, options, ...rest } = message;
  return {
    kind: "Dramatiq",
    task: actor_name,
    args,
    kwargs,
    headers: Object.entries(options ?? {}),
    fields: present(Object.entries(rest)),
  };
}

function taskiq(message) {
  if (typeof message.task_name !== "string" || !Array.isArray(message.args)) return null;
  const { task_name, args, kwargs, labels, ...rest } = message;
  return {
    kind: "taskiq",
    task: task_name,
    args,
    kwargs,
    headers: Object.entries(labels ?? {}),
    fields: present(Object.entries(rest)),
  };
}

function rq(bytes, key) {
  const id = textOf(bytes);
  if (id === null || !/^rq:queue:.*:later/.test(key)) return null;
  return { kind: "RQ", task: id, note: `The element is the id of a job: RQ has it in the hash rq:job:${id}.` };
}

/** Pickle, protocol 2 to 5: Huey's messages. */
const isPickle = (bytes) =>
  bytes.length > 2 && bytes[0] === 0x80 && bytes[1] >= 2 && bytes[1] <= 5 && bytes.at(-1) === 0x2e;

/** Returns JSON of a decoded value, with MessagePack's own types as text. */
export function pretty(value, indent = 2) {
  const text = JSON.stringify(
    value,
    (_, each) => {
      if (typeof each === "bigint") return Number.isSafeInteger(Number(each)) ? Number(each) : `${each}`;
      if (each instanceof Uint8Array) return textOf(each) ?? `base64url:${toBase64(each)}`;
      return each;
    },
    indent,
  );
  return text ?? String(value);
}

/** Returns a line about an element: the task with its arguments, or null. */
export function summary(envelope) {
  if (!envelope?.task || envelope.kind === "RQ") return null;
  const args = [
    ...(Array.isArray(envelope.args) ? envelope.args.map((each) => pretty(each, 0)) : []),
    ...(isMap(envelope.kwargs)
      ? Object.entries(envelope.kwargs).map(([name, each]) => `${name}=${pretty(each, 0)}`)
      : []),
  ];
  return { task: envelope.task, args: envelope.args || envelope.kwargs ? `(${args.join(", ")})` : "" };
}
