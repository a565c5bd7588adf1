// The commands: their words, and the parsing of their replies. Nothing here connects to a server.

import { randomUUID } from "node:crypto";
import type { Codec } from "./codec.js";
import { type Headers, NO_HEADERS, unwrap, wrap } from "./envelope.js";
import type { DeadLetter, Delivery, Id, OwnTerms, Put, PutOptions, Seen, Waiting } from "./job.js";
import type { Word } from "./limits.js";
import { known, milliseconds, named, oneOf, unixMilliseconds, whole } from "./moment.js";
import { bytes, pairs, plain, text } from "./reply.js";

export type { Word } from "./limits.js";

/** The maximum number of elements per command, and of bytes, if there are several. */
export const BATCH = 1000;
export const BATCH_BYTES = 1 << 20;

/** The longest reason, in bytes of UTF-8. */
const REASON_MAX = 4096;

/** The most attempts of a job. */
export const ATTEMPTS_MAX = 65_535;

/** A command and the parser of its reply. Each is safe to repeat. */
export interface Question<T> {
  readonly words: readonly Word[];
  /** How many replicas must have what it writes. */
  readonly replicas?: number;
  read(reply: unknown): T;
}

/** Jobs of a group, or whose ids have a prefix. */
export type Selection = { group: Id } | { prefix: Id };

/** A group of the queue; by default all of it. */
export interface GroupOption {
  /** As `put` named it. */
  group?: Id;
}

/** The names of what holds of a job alone, and of what else `putMany` can say of all. */
export const OWN = "within attempts group timeout";
export const EACH = `replace ${OWN}`;

/** Dead letters to bring back: those that are named, or a number of them from an entry on. */
export interface Revival {
  readonly named?: readonly string[];
  /** Replaces what they have. */
  readonly element?: string | Uint8Array | undefined;
  readonly count: number;
  readonly from?: string | null;
}

/** How many came back, and where to go on. */
export interface Revived {
  readonly revived: number;
  readonly next: string | null;
}

/** What PUSH says of an element. */
export interface Timed {
  readonly element: string | Uint8Array;
  readonly id: Id;
  readonly isDrawn: boolean;
  readonly delay: number;
  /** Its options. */
  readonly words: readonly Word[];
}

/** What the server does with the jobs of a queue that fail. */
export interface Policy {
  /** After how many attempts a job without its own is a dead letter, from 1 to 65,535. */
  readonly attempts: number;
  /** About how many dead letters are kept, by default 10,000; null: all. */
  readonly keepDead?: number | null | undefined;
}

/** The dead letters that are kept, if nobody says how many. */
const KEEP_DEAD = 10_000;

export function ask<T>(words: readonly Word[], read: (reply: unknown) => T): Question<T> {
  return { words, read };
}

/** Asks the same, and that this many replicas have it. */
export function replicated<T>(question: Question<T>, replicas: number): Question<T> {
  return replicas === 0 ? question : { ...question, replicas };
}

export function ownWords({ within, attempts, group }: OwnTerms): Word[] {
  const words: Word[] = within === undefined ? [] : ["WITHIN", milliseconds(within, "within", 1)];
  if (attempts !== undefined) words.push("DELIVERIES", whole(attempts, "attempts", 1, ATTEMPTS_MAX));
  return group === undefined ? words : [...words, "GROUP", named(group, "group")];
}

/** Returns what PUSH says of a job, but for its element. */
export function timedOf(options: PutOptions): Omit<Timed, "element"> {
  const { id, delay = 0, at, replace = false } = options;
  if (options.delay !== undefined && at !== undefined) throw new TypeError("`delay` and `at` exclude each other");
  const words: Word[] = [oneOf(replace, "replace", true, false) ? "REPLACE" : "NX"];
  if (at !== undefined) words.push("AT", unixMilliseconds(at, "at"));
  words.push(...ownWords(options));
  ownHeaders({}, options);
  const isDrawn = id === undefined;
  return { id: isDrawn ? randomUUID() : named(id, "id"), isDrawn, delay: milliseconds(delay, "delay"), words };
}

/** Returns headers with the time limit of a job. */
function ownHeaders(headers: Readonly<Headers>, { timeout }: OwnTerms): Readonly<Headers> {
  return timeout === undefined ? headers : { ...headers, timeout: `${milliseconds(timeout, "timeout", 1)}` };
}

/** Returns the words of a group, whose name may be empty if `least` is 0: the jobs without one. */
export function groupWords(of: GroupOption, least = 1): Word[] {
  known(of, "group");
  return of.group === undefined ? [] : ["GROUP", named(of.group, "group", least)];
}

/** Returns the pattern of SCAN for ids with a prefix. */
function patternOf(prefix: Id): Buffer {
  const escaped = bytes(prefix)
    .toString("latin1")
    .replace(/[\\*?[]/g, "\\$&");
  return Buffer.from(`${escaped}*`, "latin1");
}

/** Returns the words of a reason, whose end is cut off if it is too long. */
export function reasonWords(reason: string): Word[] {
  if (reason === "") return [];
  const all = Buffer.from(reason);
  let end = Math.min(all.length, REASON_MAX);
  while (end < all.length && (all[end]! & 0xc0) === 0x80) end -= 1;
  return ["REASON", all.subarray(0, end)];
}

/** Returns the words for an attempt that failed. */
function ended(reason: string, element: Buffer | undefined): Word[] {
  return [...(element === undefined ? [] : ["ELEMENT", element]), ...reasonWords(reason)];
}

const areOne = (reply: unknown) => (reply as unknown[]).map((one) => one === 1);
const firstIsOne = (reply: unknown) => areOne(reply)[0] === true;
const wordsOf = (deliveries: readonly Delivery[]) => deliveries.flatMap(({ token, idBytes: id }) => [token, id]);

/** Returns the fields of these names that there are. */
function textsOf(told: Map<string, unknown>, ...names: string[]): Record<string, string> {
  const some = names.filter((name) => (told.get(name) ?? null) !== null);
  return Object.fromEntries(some.map((name) => [name, text(told.get(name))]));
}

function deliveriesOf(key: string, reply: unknown): Delivery[] {
  return ((reply ?? []) as unknown[][]).map(([id, element, deliveries, token]) => ({
    key,
    queue: key,
    id: text(id),
    idBytes: bytes(id),
    element: bytes(element),
    attempt: Number(deliveries),
    token: text(token),
  }));
}

/** Leases due elements of the first key that has any. */
export function poll(keys: readonly string[], count: number, lease: number, block?: number): Question<Delivery[]> {
  // A new token for each POLL, and the same one when it is resent, so that the reply is the same.
  const options: Word[] = ["COUNT", count, "LEASE", lease, "TOKEN", randomUUID()];
  if (block !== undefined) options.push("BLOCK", Math.max(1, block));
  const [key] = keys;
  if (key !== undefined && keys.length === 1) {
    return ask(["DEHYDRATOR.POLL", key, ...options], (reply) => deliveriesOf(key, reply));
  }
  return ask(["DEHYDRATOR.MPOLL", keys.length, ...keys, ...options], (reply) => {
    const [of, deliveries] = (reply ?? ["", []]) as [unknown, unknown];
    return deliveriesOf(text(of), deliveries);
  });
}

/** The commands of one key. */
export class Verbs<T> {
  constructor(
    readonly key: string,
    readonly dead: string,
    readonly codec: Codec<T>,
  ) {}

  /** Returns the element of a payload with these headers and terms. */
  wrapped(payload: T, headers: Readonly<Headers> = NO_HEADERS, terms: OwnTerms = {}): string | Uint8Array {
    return wrap(ownHeaders(headers, terms), this.codec.encode(payload));
  }

  /** Returns one of our commands on this key. */
  on<A>(command: string, words: readonly Word[], read: (reply: unknown) => A): Question<A> {
    return ask([`DEHYDRATOR.${command}`, this.key, ...words], read);
  }

  put({ element, id, isDrawn, delay, words }: Timed): Question<string | null> {
    // A drawn id exists only if the same command arrived before.
    return this.on("PUSH", [delay, element, id, ...words], (reply) => (isDrawn || reply !== null ? text(id) : null));
  }

  /** Puts up to a thousand with the same options. */
  putMany(items: readonly Timed[]): Question<Put[]> {
    const timed = items.flatMap(({ delay, element, id }) => [delay, element, id]);
    return this.on("MPUSH", [...timed, ...items[0]!.words], (reply) =>
      (reply as number[]).map((one, n) => ({ id: text(items[n]!.id), outcome: outcomeOf(one, items[n]!.isDrawn) })),
    );
  }

  /** Returns some ids, of those with a prefix if there is one, and where to go on. */
  scan(cursor: string, prefix?: Id): Question<{ next: string | null; ids: Buffer[] }> {
    const matched = prefix === undefined ? [] : ["MATCH", patternOf(prefix)];
    return this.on("SCAN", [cursor, ...matched, "COUNT", BATCH], (reply) => {
      const [next, ids] = reply as [unknown, unknown[]];
      return { next: text(next) === "0" ? null : text(next), ids: ids.map(bytes) };
    });
  }

  /** Reads an element, and what `put` said of it. */
  look(id: Id): Question<Waiting<T> | null> {
    return this.on("LOOK", [id, "FULL"], (reply) => {
      if (reply === null) return null;
      const told = pairs(reply);
      const rest = [told.get("deadline"), 0, told.get("deliveries"), told.get("leased"), told.get("element")];
      const [attempts, until] = ["deliveries-limit", "until"].map((name) => Number(told.get(name) ?? 0));
      return {
        ...this.#waiting([bytes(id), ...rest]),
        ...textsOf(told, "group", "reason"),
        ...(attempts ? { attempts } : {}),
        ...(until ? { expires: new Date(until) } : {}),
      };
    });
  }

  #waiting([id, deadline, , deliveries, leased, element]: unknown[]): Waiting<T> {
    return { ...this.#seen(id, element, deliveries), due: new Date(Number(deadline)), leased: leased === 1 };
  }

  #seen(id: unknown, envelope: unknown, deliveries: unknown): Seen<T> {
    return { id: text(id), idBytes: bytes(id), attempt: Number(text(deliveries)), ...this.opened(envelope) };
  }

  /** Returns what an element has. */
  opened(envelope: unknown): Pick<Seen<T>, "payload" | "error" | "element" | "headers" | "timeout"> {
    const { headers, element } = unwrap(bytes(envelope));
    const timeout = Number(headers.timeout) || undefined;
    return { headers, element, ...(timeout === undefined ? {} : { timeout }), ...this.decoded(element) };
  }

  /** Returns the payload of an element without headers, or the error of the codec. */
  decoded(element: Buffer): { payload: T; error?: unknown } {
    try {
      return { payload: this.codec.decode(element) };
    } catch (error) {
      return { payload: undefined as T, error };
    }
  }

  /** Lists a thousand from `start` on, and returns the start of the next page, or null. */
  page(start: string): Question<{ next: string | null; rows: Waiting<T>[] }> {
    return this.on("RANGE", [start, "+", "COUNT", BATCH, "WITHELEMENTS"], (reply) => {
      const [next, rows] = reply as [unknown, unknown[][]];
      return { next: next === null ? null : text(next), rows: rows.map((row) => this.#waiting(row)) };
    });
  }

  size(): Question<number> {
    return this.on("LEN", [], Number);
  }

  info(of: GroupOption = {}): Question<Record<string, unknown>> {
    return this.on("INFO", groupWords(of, 0), (reply) => {
      const told = pairs(reply);
      // Of a group there is none.
      if (told.has("policy")) told.set("policy", Object.fromEntries(pairs(told.get("policy"))));
      return plain(Object.fromEntries(told)) as never;
    });
  }

  settle(deliveries: readonly Delivery[]): Question<boolean[]> {
    return this.on("SETTLE", wordsOf(deliveries), areOne);
  }

  renew(lease: number, deliveries: readonly Delivery[]): Question<boolean[]> {
    return this.on("RENEW", [lease, ...wordsOf(deliveries)], areOne);
  }

  /** Gives a job back that did not fail, to its old place. It counts as no attempt. */
  giveBack(delivery: Delivery, reason = ""): Question<boolean> {
    return this.release(0, delivery, { reason, isCounted: false });
  }

  /** Gives a job back whose work failed, with another element if there is one. */
  release(
    delay: number,
    { token, idBytes: id }: Delivery,
    { reason, isCounted = true }: { reason: string; isCounted?: boolean },
    element?: Buffer,
  ): Question<boolean> {
    const words = [Math.ceil(delay), token, id, ...(isCounted ? [] : ["UNCOUNTED"]), ...ended(reason, element)];
    return this.on("RELEASE", words, firstIsOne);
  }

  /** Makes a job a dead letter, with another element if there is one. */
  reject({ token, idBytes: id }: Delivery, reason: string, element?: Buffer): Question<boolean> {
    return this.on("REJECT", [token, id, ...ended(reason, element)], firstIsOne);
  }

  /** Sets the policy, unless `isNew`, and there is one: then returns false. */
  onDue({ attempts, keepDead = KEEP_DEAD }: Policy, isNew = false): Question<boolean> {
    const most = whole(attempts, "attempts", 1, ATTEMPTS_MAX);
    const kept = keepDead === null ? [] : ["MAXLEN", "~", whole(keepDead, "keepDead", 1)];
    const policy = ["HOLD", "DELIVERIES", most, "STREAM", this.dead, ...kept];
    return this.on("ONDUE", [...(isNew ? ["NX"] : []), ...policy], (reply) => reply !== null);
  }

  /** Lists the dead letters of a stream. */
  deadLetters(stream: string, count: number): Question<DeadLetter<T>[]> {
    const { words, read } = entries(stream, "-", count);
    return ask(words, (reply) => read(reply).map(([entry, told]) => this.#letter(entry, told)));
  }

  #letter(entry: string, told: Map<string, unknown>): DeadLetter<T> {
    const seen = this.#seen(told.get("id"), told.get("element"), told.get("deliveries") ?? 0);
    return { key: this.key, entry, ...seen, reason: "", ...textsOf(told, "group", "reason") };
  }

  /** Brings dead letters back. */
  revive({ named, element, count, from }: Revival): Question<Revived> {
    const words: Word[] = element === undefined ? [] : ["ELEMENT", element];
    if (from != null) words.push("FROM", from);
    words.push(...(named === undefined ? ["COUNT", count] : ["IDS", named.length, ...named]));
    return this.on("REVIVE", words, (reply) => {
      const [revived, next] = reply as [unknown, unknown];
      return { revived: Number(revived), next: next === null ? null : text(next) };
    });
  }

  /** Puts what a dead letter of another key has, unless its id is there. */
  putBack(told: Map<string, unknown>, element?: string | Uint8Array): Question<Revived> {
    const [id, before] = ["id", "element"].map((name) => told.get(name) as Word);
    const words = [
      0,
      element ?? before!,
      id!,
      "NX",
      ...(told.has("group") ? ["GROUP", told.get("group") as Word] : []),
    ];
    return this.on("PUSH", words, (reply) => ({ revived: reply === null ? 0 : 1, next: null }));
  }
}

/** Lists entries of a stream. */
export function entries(stream: string, start: string, count: number, end = "+") {
  return ask(["XRANGE", stream, start, end, "COUNT", count], (reply) =>
    ((reply ?? []) as [unknown, unknown][]).map(([entry, fields]) => [text(entry), pairs(fields)] as const),
  );
}

export function outcomeOf(reply: number, isDrawn: boolean): Put["outcome"] {
  if (reply === -1) return "full";
  return reply === 1 || isDrawn ? "stored" : "exists";
}
