// The commands: their words, and the parsing of their replies. Nothing here connects to a server.

import { randomUUID } from "node:crypto";
import type { Codec } from "./codec.js";
import { type Headers, NO_HEADERS, unwrap, wrap } from "./envelope.js";
import type { DeadLetter, Delivery, Id, Put, Seen, Waiting } from "./job.js";
import type { Limits, Word } from "./limits.js";
import { milliseconds, unixMilliseconds, whole } from "./moment.js";
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

/** The name of a lease. */
export interface Pair {
  readonly token: string;
  readonly id: Id;
}

/** What holds of a job alone, or of each of many. */
export interface OwnTerms {
  /**
   * In milliseconds. A job that no worker has begun within that time after it was due is too late: it becomes a dead
   * letter with the reason "expired", or is dropped if no worker of the queue has `attempts`.
   */
  within?: number;
  /** How often the job is delivered before it becomes a dead letter, instead of its worker's `attempts`. */
  attempts?: number;
  /** A tenant, or another part of the queue: groups with due jobs take turns. */
  group?: string | Uint8Array;
  /** How long an attempt may take, in milliseconds, instead of its worker's `timeout`. */
  timeout?: number;
}

/** The names of what holds of a job alone. */
export const OWN = "within attempts group timeout";

/** Jobs of a group, or whose ids have a prefix. */
export type Selection = { group: string | Uint8Array } | { prefix: Id };

/** A group of the queue; by default all of it. */
export interface GroupOption {
  group?: string | Uint8Array;
}

export interface PutOptions extends OwnTerms {
  id?: Id;
  /** In milliseconds. */
  delay?: number;
  /** A Date, or milliseconds since 1970, instead of `delay`. */
  at?: Date | number;
  /** Replaces an element with that id, and restarts its delay: a debounce. */
  replace?: boolean;
}

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

/** An element with its id, and when it is due. */
export interface Timed {
  readonly element: string | Uint8Array;
  readonly id: Id;
  readonly isDrawn: boolean;
  readonly delay: number;
}

/** The policy of a queue: after so many deliveries an element is a dead letter. */
export interface Policy {
  readonly attempts: number;
  /** About how many dead letters are kept; by default all. */
  readonly keepDead?: number | undefined;
}

export function ask<T>(words: readonly Word[], read: (reply: unknown) => T): Question<T> {
  return { words, read };
}

/** Asks the same, and that this many replicas have it. */
export function replicated<T>(question: Question<T>, replicas: number): Question<T> {
  return replicas === 0 ? question : { ...question, replicas };
}

export function ownWords({ within, attempts, group }: OwnTerms): Word[] {
  const words: Word[] = within === undefined ? [] : ["WITHIN", milliseconds(within, "`within`", 1)];
  if (attempts !== undefined) words.push("DELIVERIES", whole(attempts, "attempts", 1, ATTEMPTS_MAX));
  return group === undefined ? words : [...words, "GROUP", group];
}

/** Returns headers with the time limit of a job. */
function ownHeaders(headers: Readonly<Headers>, { timeout }: OwnTerms): Readonly<Headers> {
  return timeout === undefined ? headers : { ...headers, timeout: `${milliseconds(timeout, "`timeout`", 1)}` };
}

function ofGroup({ group }: GroupOption): Word[] {
  return group === undefined ? [] : ["GROUP", group];
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

const nothing = () => {};
const isOne = (reply: unknown) => reply === 1;
const areOne = (reply: unknown) => (reply as unknown[]).map(isOne);
const firstIsOne = (reply: unknown) => areOne(reply)[0] === true;

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

  put({ element, id, isDrawn, delay }: Timed, { at, replace, ...terms }: PutOptions): Question<string | null> {
    const words: Word[] = ["DEHYDRATOR.PUSH", this.key, delay, element, id, replace ? "REPLACE" : "NX"];
    if (at !== undefined) words.push("AT", unixMilliseconds(at));
    // A drawn id exists only if the same command arrived before.
    return ask([...words, ...ownWords(terms)], (reply) => (isDrawn || reply !== null ? text(id) : null));
  }

  /** Puts up to a thousand, all with the deadline `at`, if given. */
  putMany(items: readonly Timed[], { at, replace, ...terms }: PutOptions): Question<Put[]> {
    const timed = items.flatMap(({ delay, element, id }) => [delay, element, id]);
    const words: Word[] = ["DEHYDRATOR.MPUSH", this.key, ...timed, replace ? "REPLACE" : "NX"];
    if (at !== undefined) words.push("AT", unixMilliseconds(at));
    return ask([...words, ...ownWords(terms)], (reply) =>
      (reply as number[]).map((one, n) => ({ id: text(items[n]!.id), outcome: outcomeOf(one, items[n]!.isDrawn) })),
    );
  }

  cancel(ids: readonly Id[]): Question<number> {
    return ask(["DEHYDRATOR.REM", this.key, ...ids], Number);
  }

  /** Cancels some jobs of a group; returns how many. */
  cancelGroup(group: string | Uint8Array): Question<number> {
    return ask(["DEHYDRATOR.PURGE", this.key, "GROUP", group], Number);
  }

  /** Postpones some jobs of a group; returns how many. */
  postponeGroup(group: string | Uint8Array, delay: number): Question<number> {
    return ask(["DEHYDRATOR.TOUCH", this.key, milliseconds(delay), "GROUP", group], Number);
  }

  /** Returns some ids, of those with a prefix if there is one, and where to go on. */
  scan(cursor: string, prefix?: Id): Question<{ next: string | null; ids: Buffer[] }> {
    const matched = prefix === undefined ? [] : ["MATCH", patternOf(prefix)];
    return ask(["DEHYDRATOR.SCAN", this.key, cursor, ...matched, "COUNT", BATCH], (reply) => {
      const [next, ids] = reply as [unknown, unknown[]];
      return { next: text(next) === "0" ? null : text(next), ids: ids.map(bytes) };
    });
  }

  postpone(id: Id, until: Date | number): Question<boolean> {
    // A ttl of 0 would take the element from its worker; a millisecond does not.
    const timer = until instanceof Date ? [1, "AT", unixMilliseconds(until)] : [Math.max(1, milliseconds(until))];
    return ask(["DEHYDRATOR.TOUCH", this.key, ...timer, id], isOne);
  }

  /** Reads an element, and the attempts that `put` gave it, or 0. */
  look(id: Id): Question<(Waiting<T> & { attempts: number }) | null> {
    return ask(["DEHYDRATOR.LOOK", this.key, id, "FULL"], (reply) => {
      if (reply === null) return null;
      const told = pairs(reply);
      const rest = [told.get("deadline"), 0, told.get("deliveries"), told.get("leased"), told.get("element")];
      const reason = told.get("reason") ?? null;
      const more = reason === null ? {} : { reason: text(reason) };
      return { ...this.#waiting([bytes(id), ...rest]), ...more, attempts: Number(told.get("deliveries-limit") ?? 0) };
    });
  }

  #waiting([id, deadline, , deliveries, leased, element]: unknown[]): Waiting<T> {
    return { ...this.#seen(id, element, deliveries), due: new Date(Number(deadline)), leased: leased === 1 };
  }

  #seen(id: unknown, envelope: unknown, deliveries: unknown): Seen<T> {
    const { element } = unwrap(bytes(envelope));
    return { id: text(id), idBytes: bytes(id), element, attempt: Number(text(deliveries)), ...this.decoded(element) };
  }

  /** Returns the payload of an element without headers, or the error of the codec. */
  decoded(element: Buffer): { payload: T; error?: unknown } {
    try {
      return { payload: this.codec.decode(element) };
    } catch (error) {
      return { payload: undefined as T, error };
    }
  }

  update(id: Id, payload: T): Question<void> {
    return ask(["DEHYDRATOR.UPDATE", this.key, id, this.wrapped(payload)], nothing);
  }

  /** Lists a thousand from `start` on, and returns the start of the next page, or null. */
  page(start: string): Question<{ next: string | null; rows: Waiting<T>[] }> {
    return ask(["DEHYDRATOR.RANGE", this.key, start, "+", "COUNT", BATCH, "WITHELEMENTS"], (reply) => {
      const [next, rows] = reply as [unknown, unknown[][]];
      return { next: next === null ? null : text(next), rows: rows.map((row) => this.#waiting(row)) };
    });
  }

  size(): Question<number> {
    return ask(["DEHYDRATOR.LEN", this.key], Number);
  }

  info(of: GroupOption = {}): Question<Record<string, unknown>> {
    return ask(["DEHYDRATOR.INFO", this.key, ...ofGroup(of)], (reply) => {
      const told = pairs(reply);
      // Of a group there is none.
      if (told.has("policy")) told.set("policy", Object.fromEntries(pairs(told.get("policy"))));
      return plain(Object.fromEntries(told)) as never;
    });
  }

  pause(duration?: number, of: GroupOption = {}): Question<void> {
    const end = duration === undefined ? [] : ["FOR", milliseconds(duration)];
    return ask(["DEHYDRATOR.PAUSE", this.key, ...end, ...ofGroup(of)], nothing);
  }

  resume(of: GroupOption = {}): Question<boolean> {
    return ask(["DEHYDRATOR.RESUME", this.key, ...ofGroup(of)], isOne);
  }

  limit(words: readonly Word[]): Question<void> {
    return ask(["DEHYDRATOR.LIMIT", this.key, ...words], nothing);
  }

  limits(of: GroupOption, read: (info: Record<string, unknown>) => Limits): Question<Limits> {
    const info = this.info(of);
    return ask(info.words, (reply) => read(info.read(reply)));
  }

  settle(pairs: readonly Pair[]): Question<boolean[]> {
    return ask(["DEHYDRATOR.SETTLE", this.key, ...pairs.flatMap(({ token, id }) => [token, id])], areOne);
  }

  renew(lease: number, pairs: readonly Pair[]): Question<boolean[]> {
    return ask(["DEHYDRATOR.RENEW", this.key, lease, ...pairs.flatMap(({ token, id }) => [token, id])], areOne);
  }

  /** Gives a job back that did not fail, to its old place. It counts as no attempt. */
  giveBack({ token, id }: Pair, reason = ""): Question<boolean> {
    return ask(["DEHYDRATOR.RELEASE", this.key, 0, token, id, "UNCOUNTED", ...reasonWords(reason)], firstIsOne);
  }

  /** Gives a job back whose work failed, with another element if there is one. */
  release(delay: number, { token, id }: Pair, reason: string, element?: Buffer): Question<boolean> {
    const changed = element === undefined ? [] : ["ELEMENT", element];
    const words = ["DEHYDRATOR.RELEASE", this.key, Math.ceil(delay), token, id, ...changed, ...reasonWords(reason)];
    return ask(words, firstIsOne);
  }

  reject({ token, id }: Pair, reason: string): Question<boolean> {
    return ask(["DEHYDRATOR.REJECT", this.key, token, id, ...reasonWords(reason)], firstIsOne);
  }

  /** Sets the policy, unless `isNew`, and there is one: then returns false. */
  onDue({ attempts, keepDead }: Policy, isNew = false): Question<boolean> {
    const most = whole(attempts, "attempts", 1, ATTEMPTS_MAX);
    const kept = keepDead === undefined ? [] : ["MAXLEN", "~", whole(keepDead, "keepDead", 1)];
    const policy = ["HOLD", "DELIVERIES", most, "STREAM", this.dead, ...kept];
    return ask(["DEHYDRATOR.ONDUE", this.key, ...(isNew ? ["NX"] : []), ...policy], (reply) => reply !== null);
  }

  /** Lists the dead letters of a stream. */
  deadLetters(stream: string, count: number): Question<DeadLetter<T>[]> {
    const { words, read } = entries(stream, "-", count);
    return ask(words, (reply) => read(reply).map(([entry, told]) => this.#letter(entry, told)));
  }

  #letter(entry: string, told: Map<string, unknown>): DeadLetter<T> {
    const seen = this.#seen(told.get("id"), told.get("element"), told.get("deliveries") ?? 0);
    const group = told.has("group") ? { group: text(told.get("group")) } : {};
    return { key: this.key, entry, ...seen, ...group, reason: text(told.get("reason") ?? "") };
  }

  dropLetters(stream: string, some: readonly string[]): Question<number> {
    return ask(["XDEL", stream, ...some], Number);
  }

  /** Brings dead letters back. */
  revive({ named, element, count, from }: Revival): Question<Revived> {
    const words: Word[] = element === undefined ? [] : ["ELEMENT", element];
    if (from != null) words.push("FROM", from);
    words.push(...(named === undefined ? ["COUNT", count] : ["IDS", named.length, ...named]));
    return ask(["DEHYDRATOR.REVIVE", this.key, ...words], (reply) => {
      const [revived, next] = reply as [unknown, unknown];
      return { revived: Number(revived), next: next === null ? null : text(next) };
    });
  }

  /** Puts what a dead letter of another key has, unless its id is there. */
  putBack(told: Map<string, unknown>, element?: string | Uint8Array): Question<Revived> {
    const [id, before, group] = ["id", "element", "group"].map((name) => told.get(name) as Word);
    const words = ["DEHYDRATOR.PUSH", this.key, 0, element ?? before!, id!, "NX", ...ownWords({ group } as OwnTerms)];
    return ask(words, (reply) => ({ revived: reply === null ? 0 : 1, next: null }));
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
