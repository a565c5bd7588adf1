// Random operations on the server in memory, each also sent to a real server whose clock the test sets too.

import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { MemoryServer } from "dehydrator-queue/testing";
import type { Word } from "../src/verbs.js";
import { type RealServer, until } from "./servers.js";

const KEYS = ["high", "low", "bulk"] as const;

const GROUPS = ["anna", "bert", "carl"] as const;

/** How often each command is drawn, of a hundred or so. */
export const SHARES = {
  push: 20,
  mpush: 6,
  poll: 20,
  mpoll: 6,
  settle: 8,
  release: 5,
  renew: 4,
  reject: 4,
  revive: 2,
  groups: 2,
  touch: 5,
  update: 2,
  rem: 2,
  look: 6,
  range: 3,
  len: 4,
  info: 4,
  dead: 2,
  onDue: 0.5,
  limit: 1.5,
  pause: 0.3,
  resume: 0.5,
  advance: 8,
} as const;

type Kind = keyof typeof SHARES;

/** Returns the lengths of keys, and those of their streams of dead letters. */
const LENGTHS = `
local lengths = {}
for _, key in ipairs(KEYS) do
    lengths[#lengths + 1] = redis.pcall('DEHYDRATOR.LEN', key)
    lengths[#lengths + 1] = redis.pcall('XLEN', key .. ':dead')
end
return lengths
`;

/** Those after which nothing leaves by itself. */
const READS: readonly Kind[] = ["look", "range", "len", "info", "dead", "groups"];

interface Lease {
  readonly key: string;
  readonly id: Buffer;
  readonly element: Buffer;
  readonly token: string;
}

/** Draws commands, and compares the replies. */
export class Operations {
  static readonly BEGIN = 2_000_000_000_000;
  readonly counts = new Map<string, number>();
  readonly #memory = new MemoryServer(Operations.BEGIN);
  #now = Operations.BEGIN;
  /** The leases that were given out, also those that have ended. */
  #held: Lease[] = [];
  #tokens = 0;
  #seed: number;

  constructor(
    private readonly server: RealServer,
    seed: number,
  ) {
    this.#seed = seed;
  }

  async run(count: number): Promise<void> {
    const kinds = Object.keys(SHARES) as Kind[];
    const all = Object.values(SHARES).reduce((sum, share) => sum + share, 0);
    for (let n = 0; n < count; n += 1) {
      let left = this.#random() * all;
      const kind = kinds.find((kind) => {
        left -= SHARES[kind];
        return left < 0;
      })!;
      this.#count(kind);
      if (kind === "advance") await this.#advance();
      else await this.#compare(this.#words(kind), !READS.includes(kind));
    }
  }

  #count(name: string): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }

  /** Compares the replies. `moves`: something may leave by itself then, and is waited for. */
  async #compare(words: Word[], moves = false): Promise<void> {
    let told = await replyOf(this.#memory.call(...words));
    // In one round trip: a busy machine takes milliseconds for each.
    let [real, lengths] = await Promise.all([replyOf(this.#real(words)), moves ? this.#lengths() : undefined]);
    if (typeof told === "string") this.#count(told);
    if (words[0] === "XRANGE" && String(told).includes("expired")) this.#count("expired");
    if (words[0] === "DEHYDRATOR.INFO" && Array.isArray(told) && Array.isArray(real)) {
      // Those of the others that depend on the server's memory or history are not told.
      const known = fieldsOf(told);
      const all = fieldsOf(real);
      [told, real] = [known, Object.fromEntries(Object.keys(known).map((name) => [name, all[name]]))];
    }
    assert.deepEqual(told, real, String(words));
    if (/POLL$/.test(String(words[0])) && words.includes("LEASE") && Array.isArray(told)) {
      const [key, rows] = words[0] === "DEHYDRATOR.POLL" ? [words[1], told] : (told as [Buffer, unknown[]]);
      for (const [id, element, , token] of rows as [Buffer, Buffer, number, Buffer][]) {
        this.#held.push({ key: String(key), id, element, token: String(token) });
      }
      this.#held = this.#held.slice(-40);
    }
    if (moves) await this.#awaitMoves(lengths);
  }

  #lengths(): Promise<unknown> {
    return this.#real(["EVAL", LENGTHS, KEYS.length, ...KEYS]);
  }

  #real([name, ...words]: Word[]): Promise<unknown> {
    return this.server.client.callBuffer(String(name), ...(words as Buffer[]));
  }

  async #advance(ms = this.#pick([1, 2, 9, 50, 1000, 60_000])): Promise<void> {
    this.#now += ms;
    this.#memory.advance(ms);
    await this.server.setClock(this.#now);
    await this.#awaitMoves();
  }

  /** Waits until the server has moved dead letters, and dropped what is too late: it does a moment later. */
  async #awaitMoves(lengths?: unknown): Promise<void> {
    const told: unknown[] = [];
    for (const key of KEYS) {
      told.push(await this.#memory.call("DEHYDRATOR.LEN", key));
      told.push(((await this.#memory.call("XRANGE", `${key}:dead`, "-", "+")) as unknown[]).length);
    }
    if (isDeepStrictEqual(lengths, told)) return;
    await until(async () => isDeepStrictEqual(await this.#lengths(), told));
  }

  /** Mulberry32. */
  #random(): number {
    this.#seed = (this.#seed + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#seed ^ (this.#seed >>> 15), 1 | this.#seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  #upTo(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #pick<T>(some: readonly T[]): T {
    return some[this.#upTo(some.length)]!;
  }

  #maybe(chance: number, ...words: Word[]): Word[] {
    return this.#random() < chance ? words : [];
  }

  #words(kind: Exclude<Kind, "advance">): Word[] {
    const [key, id, element] = [this.#pick(KEYS), `id${this.#upTo(12)}`, `element ${this.#upTo(1000)}`];
    const ttl = this.#pick([0, 0, 0, 1, 5, 10, 100, 1000, 60_000]);
    const moment = this.#now + this.#pick([-1000, -1, 0, 1, 7, 50, 1000]);
    const ifThere = this.#pick<Word[]>([[], ["NX"], ["REPLACE"]]);
    const [of, ...pairs] = this.#pairs();
    switch (kind) {
      case "push": {
        const when = this.#pick<Word[]>([[], [], ["AT", moment]]);
        return ["DEHYDRATOR.PUSH", key, ttl, element, id, ...ifThere, ...when, ...this.#bounds()];
      }
      case "mpush": {
        const words: Word[] = [ttl, element, id];
        for (let n = this.#upTo(4); n > 0; n -= 1) words.push(this.#pick([0, 5, 1000]), "more", `id${this.#upTo(12)}`);
        const shared = [...this.#pick([["NX"], ["REPLACE"]]), ...this.#maybe(0.2, "AT", moment), ...this.#bounds()];
        return ["DEHYDRATOR.MPUSH", key, ...words, ...shared];
      }
      case "poll":
        return ["DEHYDRATOR.POLL", key, ...this.#poll()];
      case "mpoll": {
        const keys = [key, ...KEYS.filter((other) => other !== key && this.#random() < 0.6)];
        return ["DEHYDRATOR.MPOLL", keys.length, ...keys, ...this.#poll()];
      }
      case "settle":
        return ["DEHYDRATOR.SETTLE", of!, ...pairs];
      case "release":
        // Without a REASON: with one, a small dehydrator pages as a large one does.
        return [
          ...["DEHYDRATOR.RELEASE", of!, ttl, ...pairs, ...this.#maybe(0.4, "UNCOUNTED")],
          ...(pairs.length === 2 ? this.#maybe(0.3, "ELEMENT", element) : []),
        ];
      case "renew":
        return ["DEHYDRATOR.RENEW", of!, ttl, ...pairs];
      case "reject": {
        const changed = pairs.length === 2 ? this.#maybe(0.3, "ELEMENT", element) : [];
        return ["DEHYDRATOR.REJECT", of!, ...pairs, ...changed, ...this.#maybe(0.4, "REASON", "it cannot succeed")];
      }
      case "revive":
        return ["DEHYDRATOR.REVIVE", key, ...this.#pick<Word[]>([[], ["COUNT", 1 + this.#upTo(3)]])];
      case "touch":
        return ["DEHYDRATOR.TOUCH", key, ttl, ...this.#maybe(0.3, "AT", moment), id];
      case "groups": {
        // Nobody polls this key: here groups take no turns.
        const group = ["GROUP", this.#pick(GROUPS)];
        const [name, ...words] = this.#pick<Word[]>([
          ["PUSH", "grouped", ttl, element, id, "REPLACE", ...group],
          ["MPUSH", "grouped", ttl, element, id, 5, "more", `id${this.#upTo(12)}`, "NX", ...group],
          ["TOUCH", "grouped", this.#pick([0, 5, 500, 60_000]), ...group],
          ["PURGE", "grouped", ...group],
          ["INFO", "grouped", ...group],
          ["LIMIT", "grouped", ...group, "SHARE", 1 + this.#upTo(3), "HELD", 3],
          ["LIMIT", "grouped", "EACH", "RATE", 3, "PER", 1000],
          ["PAUSE", "grouped", "FOR", 50, ...group],
          ["RESUME", "grouped", ...group],
        ]);
        return [`DEHYDRATOR.${name}`, ...words];
      }
      case "update":
        return ["DEHYDRATOR.UPDATE", key, id, element];
      case "rem":
        return ["DEHYDRATOR.REM", key, id, ...this.#maybe(0.5, `id${this.#upTo(12)}`)];
      case "look":
        return ["DEHYDRATOR.LOOK", key, id, ...this.#maybe(0.7, "FULL")];
      case "range": {
        const start = this.#pick<Word>(["-", `(${this.#now}`]);
        const some = this.#maybe(0.5, "COUNT", 1 + this.#upTo(4));
        return ["DEHYDRATOR.RANGE", key, start, "+", ...some, "WITHELEMENTS"];
      }
      case "len":
      case "info":
      case "resume":
        return [`DEHYDRATOR.${kind.toUpperCase()}`, key];
      case "dead":
        return ["XRANGE", `${key}:dead`, "-", "+", "COUNT", 5];
      case "onDue": {
        const stream = [...this.#maybe(0.4, "NX"), "HOLD", "DELIVERIES", 1 + this.#upTo(3), "STREAM", `${key}:dead`];
        const policies = [stream, [...stream, "MAXLEN", 3]];
        return ["DEHYDRATOR.ONDUE", key, ...this.#pick(policies)];
      }
      case "limit": {
        const limits = [
          ["LENGTH", 8],
          ["LENGTH", 4],
          ["LENGTH", 0],
          ["REMEMBER", 500],
          ["REMEMBER", 0],
        ];
        return ["DEHYDRATOR.LIMIT", key, ...this.#pick(limits)];
      }
      case "pause":
        return ["DEHYDRATOR.PAUSE", key, ...this.#maybe(0.7, "FOR", this.#pick([100, 1000]))];
    }
  }

  #bounds(): Word[] {
    const within = this.#maybe(0.3, "WITHIN", this.#pick([1, 5, 50, 1000, 60_000]));
    return [...within, ...this.#maybe(0.3, "DELIVERIES", 1 + this.#upTo(5))];
  }

  #poll(): Word[] {
    const options = this.#maybe(0.7, "COUNT", 1 + this.#upTo(3));
    this.#tokens += 1;
    const isResent = this.#held.length > 0 && this.#random() < 0.1;
    const token = isResent ? this.#pick(this.#held).token : String(this.#tokens);
    return [...options, "LEASE", this.#pick([1, 10, 100, 1000, 60_000]), "TOKEN", token];
  }

  /** Returns a key, and some tokens and ids, most of which were held there. */
  #pairs(): Word[] {
    if (this.#held.length === 0) return [this.#pick(KEYS), "17", "id1"];
    const { key } = this.#pick(this.#held);
    const here = this.#held.filter((lease) => lease.key === key).slice(-8);
    const words: Word[] = [key];
    for (let n = 1 + this.#upTo(3); n > 0; n -= 1) {
      const { token, id } = this.#pick(here);
      words.push(token, id);
    }
    return words;
  }
}

/** Returns a reply, or the code of an error: texts may change. */
async function replyOf(asked: Promise<unknown>): Promise<unknown> {
  try {
    return await asked;
  } catch (error) {
    return /^[A-Z]+/.exec((error as Error).message)?.[0];
  }
}

/** Returns the fields of INFO, whatever their order. */
function fieldsOf(reply: unknown[]): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (let at = 0; at < reply.length; at += 2) {
    const name = String(reply[at]);
    fields[name] = name === "policy" ? fieldsOf(reply[at + 1] as unknown[]) : reply[at + 1];
  }
  return fields;
}
