// The commands: their words, and the parsing of their replies. Nothing here connects to a server.

import { randomUUID } from "node:crypto";
import type { Codec } from "./codec.js";
import { type Headers, NO_HEADERS, unwrap, wrap } from "./envelope.js";
import type { DeadLetter, Delivery, Id, Item, Waiting } from "./job.js";
import { milliseconds, unixMilliseconds } from "./moment.js";
import { bytes, pairs, plain, text } from "./reply.js";

/** Turns a job that is still held into a dead letter, with the reason and its group, atomically. */
export const BURY = `
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'none' and kind ~= 'stream' then
    return redis.error_reply('WRONGTYPE the dead letters at ' .. KEYS[2] .. ' are no stream')
end
local told = redis.call('DEHYDRATOR.LOOK', KEYS[1], ARGV[2], 'FULL') or {}
if redis.call('DEHYDRATOR.SETTLE', KEYS[1], ARGV[1], ARGV[2])[1] == 0 then return 0 end
local letter = {'id', ARGV[2], 'element', ARGV[3], 'deliveries', ARGV[4], 'reason', ARGV[5]}
for i = 1, #told, 2 do
    if told[i] == 'group' and told[i + 1] then letter[9], letter[10] = 'group', told[i + 1] end
end
redis.call('XADD', KEYS[2], '*', unpack(letter))
return 1
`;

/** Gives a job that is still held back, with another element, atomically. */
export const RETRY = `
local released = redis.call('DEHYDRATOR.RELEASE', KEYS[1], ARGV[1], ARGV[2], ARGV[3])
if released[1] == 1 then redis.pcall('DEHYDRATOR.UPDATE', KEYS[1], ARGV[3], ARGV[4]) end
return released
`;

/**
 * Puts dead letters back, due at once, with a new delivery count. One whose id is in the queue stays.
 *
 * NX would refuse an id that the server remembers (LIMIT REMEMBER), such as those that BURY settled.
 */
export const REVIVE = `
local revived = 0
local dead = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', ARGV[1])
for _, entry in ipairs(dead) do
    local letter = {}
    for i = 1, #entry[2], 2 do letter[entry[2][i]] = entry[2][i + 1] end
    if not redis.call('DEHYDRATOR.LOOK', KEYS[1], letter.id) then
        redis.call('DEHYDRATOR.PUSH', KEYS[1], 0, letter.element, letter.id, 'REPLACE', 'GROUP', letter.group or '')
        redis.call('XDEL', KEYS[2], entry[1])
        revived = revived + 1
    end
end
return revived
`;

/** The maximum number of elements per command. */
export const BATCH = 1000;

export type Word = string | number | Uint8Array;

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
}

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

export function ask<T>(words: readonly Word[], read: (reply: unknown) => T): Question<T> {
  return { words, read };
}

/** Asks the same, and that this many replicas have it. */
export function replicated<T>(question: Question<T>, replicas: number): Question<T> {
  return replicas === 0 ? question : { ...question, replicas };
}

export function ownWords({ within, attempts, group }: OwnTerms): Word[] {
  const words: Word[] = within === undefined ? [] : ["WITHIN", milliseconds(within)];
  if (attempts !== undefined) words.push("DELIVERIES", attempts);
  return group === undefined ? words : [...words, "GROUP", group];
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

const nothing = () => {};
const isOne = (reply: unknown) => reply === 1;
const areOne = (reply: unknown) => (reply as unknown[]).map(isOne);

function deliveriesOf(key: string, reply: unknown): Delivery[] {
  return ((reply ?? []) as unknown[][]).map(([id, element, deliveries, token]) => ({
    key,
    queue: key,
    id: bytes(id),
    element: bytes(element),
    deliveries: Number(deliveries),
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

/** Checks whether a command exists: without its arguments, it is refused because of that. */
export function bare(command: string): Question<void> {
  return ask([command], nothing);
}

/** The commands of one queue. */
export class Verbs<T> {
  constructor(
    readonly key: string,
    readonly dead: string,
    readonly codec: Codec<T>,
  ) {}

  encode(payload: T, headers = NO_HEADERS): string | Uint8Array {
    return wrap(headers, this.codec.encode(payload));
  }

  decode(element: unknown): T {
    return this.codec.decode(unwrap(bytes(element)).element);
  }

  put(
    payload: T,
    { id, delay = 0, at, replace = false, ...terms }: PutOptions,
    headers: Readonly<Headers> = NO_HEADERS,
    drawn: string = randomUUID(),
  ): Question<string | null> {
    const name = id ?? drawn;
    const words: Word[] = ["DEHYDRATOR.PUSH", this.key, milliseconds(delay), this.encode(payload, headers), name];
    words.push(replace ? "REPLACE" : "NX");
    if (at !== undefined) words.push("AT", unixMilliseconds(at));
    words.push(...ownWords(terms));
    // A generated id exists only if the same command arrived before.
    return ask(words, (reply) => (id === undefined || reply !== null ? text(name) : null));
  }

  /** Puts up to a thousand payloads, all with the deadline `at`, if given. */
  putMany(
    items: readonly Item<T>[],
    replace: boolean,
    at?: Date | number,
    headers: Readonly<Headers> = NO_HEADERS,
    terms: OwnTerms = {},
    names: readonly Id[] = items.map(({ id }) => id ?? randomUUID()),
  ): Question<(string | null | false)[]> {
    const words: Word[] = ["DEHYDRATOR.MPUSH", this.key];
    for (const [n, { payload, delay = 0 }] of items.entries()) {
      words.push(milliseconds(delay), this.encode(payload, headers), names[n]!);
    }
    words.push(replace ? "REPLACE" : "NX");
    if (at !== undefined) words.push("AT", unixMilliseconds(at));
    words.push(...ownWords(terms));
    return ask(words, (reply) =>
      (reply as number[]).map((one, i) => {
        if (one === -1) return false;
        const here = one === 1 || items[i]?.id === undefined;
        return here ? text(names[i]) : null;
      }),
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

  look(id: Id): Question<Waiting<T> | null> {
    return ask(["DEHYDRATOR.LOOK", this.key, id, "FULL"], (reply) => {
      if (reply === null) return null;
      const told = pairs(reply);
      const rest = [told.get("deadline"), 0, told.get("deliveries"), told.get("leased"), told.get("element")];
      return this.#waiting([bytes(id), ...rest]);
    });
  }

  /** Returns the attempts that `put` gave a job, or 0. */
  ownAttempts(id: Id): Question<number> {
    return ask(["DEHYDRATOR.LOOK", this.key, id, "FULL"], (reply) => {
      return reply === null ? 0 : Number(pairs(reply).get("deliveries-limit") ?? 0);
    });
  }

  #waiting([id, deadline, , deliveries, leased, element]: unknown[]): Waiting<T> {
    return {
      id: text(id),
      idBytes: bytes(id),
      payload: this.decode(element),
      due: new Date(Number(deadline)),
      attempts: Number(deliveries),
      leased: leased === 1,
    };
  }

  update(id: Id, payload: T): Question<void> {
    return ask(["DEHYDRATOR.UPDATE", this.key, id, this.encode(payload)], nothing);
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

  settle(pairs: readonly Pair[]): Question<boolean[]> {
    return ask(["DEHYDRATOR.SETTLE", this.key, ...pairs.flatMap(({ token, id }) => [token, id])], areOne);
  }

  renew(lease: number, pairs: readonly Pair[]): Question<boolean[]> {
    return ask(["DEHYDRATOR.RENEW", this.key, lease, ...pairs.flatMap(({ token, id }) => [token, id])], areOne);
  }

  /** `counted`: whether this delivery counts as an attempt. */
  release(delay: number, { token, id }: Pair, { counted = true } = {}): Question<boolean> {
    const words = ["DEHYDRATOR.RELEASE", this.key, milliseconds(delay), token, id];
    return ask(counted ? words : [...words, "UNCOUNTED"], (reply) => areOne(reply)[0] === true);
  }

  /** Releases a job, whose element has changed. */
  retry(delay: number, { token, id, element }: Delivery): Question<boolean> {
    const read = (reply: unknown) => areOne(reply)[0] === true;
    return ask(["EVAL", RETRY, 1, this.key, milliseconds(delay), token, id, element], read);
  }

  reject({ token, id }: Pair): Question<boolean> {
    return ask(["DEHYDRATOR.REJECT", this.key, token, id], (reply) => areOne(reply)[0] === true);
  }

  bury({ token, id, element, deliveries }: Delivery, reason: string): Question<boolean> {
    return ask(["EVAL", BURY, 2, this.key, this.dead, token, id, element, deliveries, reason], isOne);
  }

  limitAttempts(attempts: number): Question<void> {
    return ask(["DEHYDRATOR.ONDUE", this.key, "HOLD", "DELIVERIES", attempts, "STREAM", this.dead], nothing);
  }

  deadLetters(count: number): Question<DeadLetter[]> {
    return ask(["XRANGE", this.dead, "-", "+", "COUNT", count], (reply) =>
      ((reply ?? []) as [unknown, unknown][]).map(([entry, fields]) => {
        const told = pairs(fields);
        return {
          entry: text(entry),
          id: text(told.get("id")),
          idBytes: bytes(told.get("id")),
          element: unwrap(bytes(told.get("element"))).element,
          attempts: Number(text(told.get("deliveries") ?? 0)),
          reason: text(told.get("reason") ?? ""),
        };
      }),
    );
  }

  revive(count: number): Question<number> {
    return ask(["EVAL", REVIVE, 2, this.key, this.dead, count], Number);
  }
}
