// Random operations on the server in memory, each also sent to a real server whose clock the test sets too.

import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { MemoryServer } from "dehydrator-queue/testing";
import { LOOK, STORE } from "../src/schedule.js";
import { Commands } from "../src/testing/commands.js";
import { BURY, RETRY, REVIVE, type Word } from "../src/verbs.js";
import { type RealServer, until } from "./servers.js";

const KEYS = ["high", "low", "bulk"] as const;

/** The last one is that of the elements without a group. */
const GROUPS = ["anna", "bert", "carl", ""] as const;

/** How often each command is drawn, of a hundred or so. */
export const SHARES = {
  push: 20,
  mpush: 6,
  poll: 20,
  mpoll: 6,
  settle: 8,
  release: 5,
  renew: 4,
  reject: 2,
  bury: 2,
  revive: 1,
  retry: 2,
  store: 4,
  schedule: 1,
  touch: 5,
  update: 2,
  pull: 2,
  rem: 2,
  look: 6,
  range: 3,
  pttl: 3,
  len: 4,
  ttn: 4,
  info: 4,
  dead: 2,
  onDue: 0.5,
  limit: 1.5,
  pause: 0.3,
  resume: 0.5,
  del: 0.3,
  nonsense: 0.5,
  turns: 0.5,
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
const READS: readonly Kind[] = ["look", "range", "pttl", "len", "ttn", "info", "dead"];

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
  /** The key whose elements are in groups. */
  #fair = "";
  /** What was sent to that key, and when. */
  #before: { readonly words: Word[]; readonly now: number }[] = [];
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
      else if (kind === "turns") await this.#turns();
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
      const known = new Map(pairsOf(told));
      real = pairsOf(real).filter(([name]) => known.has(name));
      told = [...known];
    }
    if (words[1] === STORE && Array.isArray(told) && Array.isArray(real)) {
      this.#count(`store ${told[0]}`);
      // Of errors, the codes are compared.
      [told, real] = [told, real].map((reply) => [...reply.slice(0, 2), String(reply[2]).split(" ")[0]]);
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

  /**
   * Fills a key with groups and gives it out, under limits and pauses of groups.
   *
   * It takes less time than the server lets pass until it forgets a pause that is over, also one of an earlier key with
   * that name: where a group that waited for it joins the round depends on that.
   */
  async #turns(): Promise<void> {
    this.#fair = `fair:${this.counts.get("turns")}`;
    this.#before = [];
    // The server knows turns where anything is set for a group.
    await this.#compareTurns(["DEHYDRATOR.LIMIT", this.#fair, "GROUP", "dora", "SHARE", 2]);
    for (let n = this.#upTo(30); n > 0; n -= 1) await this.#compareTurns(this.#inGroups());
    const end = this.#now + 450;
    for (let n = this.#upTo(60); n > 0; n -= 1) {
      await this.#compareTurns(this.#inTurn());
      if (this.#random() < 0.2) await this.#advance(Math.min(this.#pick([1, 2, 9, 50]), end - this.#now));
    }
    await this.#compare(["DEHYDRATOR.RANGE", this.#fair, "-", "+", "WITHTOKENS"]);
    for (const group of GROUPS.slice(0, -1)) await this.#compare(["DEHYDRATOR.RESUME", this.#fair, "GROUP", group]);
    await this.#compare(["DEL", this.#fair]);
  }

  async #compareTurns(words: Word[]): Promise<void> {
    if (words.includes("EACH") && this.#letsManyJoin(words)) return;
    this.#before.push({ words, now: this.#now });
    await this.#compare(words);
  }

  /** Returns whether several groups come into the round at once, in an order that only the server knows. */
  #letsManyJoin(words: Word[]): boolean {
    const ahead = new Commands();
    const run = (some: Word[], now: number) => {
      ahead.passTime(now);
      try {
        ahead.call(some, now);
      } catch {
        // A refused command changes nothing.
      }
      return ahead.roundOf(this.#fair);
    };
    let before: readonly string[] = [];
    for (const { words, now } of this.#before) before = run(words, now);
    return run(words, this.#now).filter((group) => !before.includes(group)).length > 1;
  }

  /** Returns a command that fills the key or sets something for its groups. */
  #inGroups(): Word[] {
    const [id, element, ttl] = [`id${this.#upTo(12)}`, `element ${this.#upTo(1000)}`, this.#pick([0, 0, 0, 5, 50])];
    const group = ["GROUP", this.#pick(GROUPS)];
    const ifThere = this.#pick<Word[]>([[], ["NX"], ["REPLACE"]]);
    const push: Word[] = ["PUSH", this.#fair, ttl, element, id];
    const more: Word[] = [0, "more", `id${this.#upTo(12)}`];
    const limits = [
      ...this.#maybe(0.4, "LENGTH", this.#upTo(5)),
      ...this.#maybe(0.5, "HELD", this.#upTo(3)),
      ...this.#maybe(0.6, ...this.#rate()),
    ];
    const pause = this.#pick<Word[]>([
      [],
      ["FOR", 1],
      ["FOR", 20],
      ["FOR", 100],
      ["AT", this.#now + 30],
      ["AT", this.#now],
    ]);
    const share = this.#maybe(0.8, "SHARE", 1 + this.#upTo(3));
    const some = this.#maybe(0.4, "COUNT", 2);
    const fill = this.#pick<Word[]>([
      [...push, "REPLACE", ...group],
      [...push, ...ifThere, ...this.#maybe(0.5, ...group)],
      ["MPUSH", this.#fair, ttl, element, id, ...more, ...ifThere, ...group],
      ["MPUSH", this.#fair, ttl, element, id, ...more, "REPLACE", ...group],
    ]);
    const [name, ...words] = this.#pick<Word[]>([
      ...[fill, fill, fill, fill, fill],
      ["LIMIT", this.#fair, ...group, ...share, ...(this.#random() < 0.5 ? limits : [])],
      this.#pick<Word[]>([
        ["LIMIT", this.#fair, "EACH", ...limits],
        ["PAUSE", this.#fair, ...pause, ...group],
        ["RESUME", this.#fair, ...group],
      ]),
      this.#pick<Word[]>([
        ["TOUCH", this.#fair, ttl, id],
        ["TOUCH", this.#fair, ttl, ...this.#maybe(0.3, "AT", this.#now + 60), ...group, ...some],
        ["UPDATE", this.#fair, id, "more"],
        ["REM", this.#fair, id],
        ["PURGE", this.#fair, ...group, ...some],
      ]),
    ]);
    return [`DEHYDRATOR.${name}`, ...words];
  }

  #rate(): Word[] {
    const rate = ["RATE", this.#upTo(4), "PER", this.#pick([2, 5, 20, 100, 1000])];
    return this.#random() < 0.75 ? rate : ["RATE", 0];
  }

  /** Returns a command that takes from the key with groups, gives back, reads, or sometimes changes it. */
  #inTurn(): Word[] {
    const here = this.#held.filter(({ key }) => key === this.#fair).slice(-8);
    const { token, id } = here.length > 0 ? this.#pick(here) : { token: "17", id: "id1" };
    this.#tokens += 1;
    const lease = this.#pick([2, 10, 100, 60_000]);
    const how = this.#random() < 0.25 ? ["WITHIDS"] : ["LEASE", lease, "TOKEN", String(this.#tokens)];
    const poll = this.#pick<Word[]>([
      ["POLL", this.#fair],
      ["MPOLL", 1, this.#fair],
    ]);
    const group = this.#maybe(0.7, "GROUP", this.#pick(GROUPS));
    const take = [...poll, ...this.#maybe(0.8, "COUNT", 1 + this.#upTo(3)), ...how];
    const change = this.#inGroups();
    const uncounted = this.#maybe(0.4, "UNCOUNTED");
    const [name, ...words] = this.#pick<Word[]>([
      ...[take, take, take, take],
      ["SETTLE", this.#fair, token, id],
      ["RELEASE", this.#fair, this.#pick([0, 5, 50]), token, id, ...uncounted],
      ["RENEW", this.#fair, lease, token, id],
      this.#pick<Word[]>([
        ["TTN", this.#fair],
        ["TOUCH", this.#fair, this.#pick([0, 5, 500]), "GROUP", this.#pick(GROUPS)],
        ["LIMIT", this.#fair, ...this.#pick([["GROUP", this.#pick(GROUPS)], ["EACH"]]), ...this.#rate()],
      ]),
      this.#pick<Word[]>([
        ["PULL", this.#fair, `id${this.#upTo(12)}`],
        ["RANGE", this.#fair, "-", "+", "WITHELEMENTS", "WITHTOKENS", ...group],
        ["LEN", this.#fair, ...group],
        ["INFO", this.#fair, ...group],
        ["INFO", this.#fair, ...group],
        ["LOOK", this.#fair, `id${this.#upTo(12)}`, "FULL"],
      ]),
      ...[[], []],
    ]);
    return name === undefined ? change : [`DEHYDRATOR.${name}`, ...words];
  }

  /** Waits until the server has moved dead letters, and dropped what is too late: it does a moment later. */
  async #awaitMoves(lengths?: unknown): Promise<void> {
    const asked = KEYS.flatMap((key) => [
      ["DEHYDRATOR.LEN", key],
      ["XLEN", `${key}:dead`],
    ]);
    const told = await Promise.all(asked.map((words) => replyOf(this.#memory.call(...words))));
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

  #words(kind: Exclude<Kind, "advance" | "turns">): Word[] {
    const [key, id, element] = [this.#pick(KEYS), `id${this.#upTo(12)}`, `element ${this.#upTo(1000)}`];
    const ttl = this.#pick([0, 0, 0, 1, 5, 10, 100, 1000, 60_000]);
    const moment = this.#now + this.#pick([-1000, -1, 0, 1, 7, 50, 1000]);
    const ifThere = this.#pick<Word[]>([[], ["NX"], ["REPLACE"]]);
    const [of, ...pairs] = this.#pairs();
    switch (kind) {
      case "push": {
        const when = this.#pick<Word[]>([[], [], ["AT", moment], ["SLACK", this.#pick([0, 7, 100])]]);
        return ["DEHYDRATOR.PUSH", key, ttl, element, id, ...ifThere, ...when, ...this.#bounds()];
      }
      case "mpush": {
        const words: Word[] = [ttl, element, id];
        for (let n = this.#upTo(4); n > 0; n -= 1) words.push(this.#pick([0, 5, 1000]), "more", `id${this.#upTo(12)}`);
        return ["DEHYDRATOR.MPUSH", key, ...words, ...ifThere, ...this.#maybe(0.2, "AT", moment), ...this.#bounds()];
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
        return ["DEHYDRATOR.RELEASE", of!, ttl, ...pairs, ...this.#maybe(0.4, "UNCOUNTED")];
      case "renew":
        return ["DEHYDRATOR.RENEW", of!, ttl, ...pairs];
      case "reject":
        return ["DEHYDRATOR.REJECT", of!, ...pairs, ...this.#maybe(0.4, "REASON", "it cannot succeed")];
      case "bury": {
        const held = this.#pick(this.#held.slice(-8));
        if (held === undefined) return ["DEHYDRATOR.LEN", key];
        return ["EVAL", BURY, 2, held.key, `${held.key}:dead`, held.token, held.id, held.element, 3, "it failed"];
      }
      case "retry": {
        const held = this.#pick(this.#held.slice(-8));
        if (held === undefined) return ["DEHYDRATOR.LEN", key];
        return ["EVAL", RETRY, 1, held.key, ttl, held.token, held.id, element];
      }
      case "store":
        return this.#store(key);
      case "schedule":
        return ["EVAL", LOOK, 1, key, id];
      case "revive":
        return ["EVAL", REVIVE, 2, key, `${key}:dead`, 1 + this.#upTo(3)];
      case "touch": {
        const which = this.#random() < 0.5 ? [id] : ["IDS", 2, id, `id${this.#upTo(12)}`];
        const only = this.#pick<Word[]>([[], [], ["GT"], ["LT"]]);
        return ["DEHYDRATOR.TOUCH", key, ttl, ...only, ...this.#maybe(0.3, "AT", moment), ...which];
      }
      case "update":
        return ["DEHYDRATOR.UPDATE", key, id, element];
      case "pull":
        return ["DEHYDRATOR.PULL", key, id];
      case "rem":
        return ["DEHYDRATOR.REM", key, id, ...this.#maybe(0.5, `id${this.#upTo(12)}`)];
      case "look":
        return ["DEHYDRATOR.LOOK", key, id, ...this.#maybe(0.7, "FULL")];
      case "range": {
        const bounds = this.#pick<Word[]>([
          ["-", "+"],
          [`(${this.#now}`, "+"],
          ["-", this.#now],
          ["-", `(${this.#now}`],
        ]);
        const more = [...this.#maybe(0.5, "COUNT", 1 + this.#upTo(4)), ...this.#maybe(0.5, "WITHELEMENTS")];
        return ["DEHYDRATOR.RANGE", key, ...bounds, ...more, ...this.#maybe(0.5, "WITHTOKENS")];
      }
      case "pttl":
        return ["DEHYDRATOR.PTTL", key, id];
      case "len":
      case "ttn":
      case "info":
      case "resume":
        return [`DEHYDRATOR.${kind.toUpperCase()}`, key];
      case "dead":
        return ["XRANGE", `${key}:dead`, "-", "+", "COUNT", 5];
      case "onDue": {
        const stream = ["HOLD", "DELIVERIES", 1 + this.#upTo(3), "STREAM", `${key}:dead`];
        const policies = [["HOLD"], ["HOLD", "DELIVERIES", 2, "DROP"], stream, [...stream, "MAXLEN", 3]];
        return ["DEHYDRATOR.ONDUE", key, ...this.#pick(policies)];
      }
      case "limit": {
        const limits = [
          ["LENGTH", 8],
          ["LENGTH", 4],
          ["LENGTH", 0],
          ["HELD", 2],
          ["HELD", 0],
          ["REMEMBER", 500],
          ["REMEMBER", 0],
          [],
        ];
        const rates = [
          ["RATE", 3, "PER", this.#pick([20, 100, 1000])],
          ["RATE", 0, "PER", 1],
        ];
        return ["DEHYDRATOR.LIMIT", key, ...this.#pick([...limits, ...rates])];
      }
      case "pause":
        return [
          "DEHYDRATOR.PAUSE",
          key,
          ...this.#pick<Word[]>([[], ["FOR", 100], ["AT", this.#now + 1000], ["AT", this.#now]]),
        ];
      case "del":
        return ["DEL", this.#pick([key, `${key}:dead`])];
      case "nonsense":
        return this.#pick<Word[]>([
          ["DEHYDRATOR.PUSH", key, "soon", "e", id],
          ["DEHYDRATOR.PUSH", key, 0, "e", id, "NX", "REPLACE"],
          ["DEHYDRATOR.PUSH", key, "9223372036854775807", "e", id],
          ["DEHYDRATOR.PUSH", key, 0, "e", id, "AT"],
          ["DEHYDRATOR.PUSH", key, 0, "e", id, "WITHIN", 0],
          ["DEHYDRATOR.PUSH", key, 0, "e", id, "DELIVERIES", 65_536],
          ["DEHYDRATOR.PUSH", key, 0, "e", id, "GROUP", "g".repeat(1025)],
          ["DEHYDRATOR.LIMIT", key, "GROUP", "anna", "SHARE", 65_536],
          ["DEHYDRATOR.LIMIT", key, "GROUP", "", "HELD", 1],
          ["DEHYDRATOR.LIMIT", key, "GROUP", "", "RATE", 1, "PER", 9],
          ["DEHYDRATOR.LIMIT", key, "EACH", "SHARE", 2],
          ["DEHYDRATOR.LIMIT", key, "EACH", "RATE", 2],
          ["DEHYDRATOR.LIMIT", key, "HELD", 1, "EACH"],
          ["DEHYDRATOR.PAUSE", key, "GROUP", ""],
          ["DEHYDRATOR.PAUSE", key, 9],
          ["DEHYDRATOR.PAUSE", key, "FOR", 9, "AT", 9],
          ["DEHYDRATOR.RESUME", key, "anna"],
          ["DEHYDRATOR.PURGE", key, "GROUP", ""],
          ["DEHYDRATOR.PURGE", key, "ALL", "anna"],
          ["DEHYDRATOR.TOUCH", key, "soon", "GROUP", "anna"],
          ["DEHYDRATOR.INFO", key, "anna"],
          ["DEHYDRATOR.LEN", key, "GROUP"],
          ["DEHYDRATOR.RELEASE", key, 0, "17", id, "COUNTED"],
          ["DEHYDRATOR.POLL", key, "COUNT", 0],
          ["DEHYDRATOR.POLL", key, "TOKEN", "17"],
          ["DEHYDRATOR.POLL", key, "LEASE", 0],
          ["DEHYDRATOR.MPUSH", key, 0, "e", id, "soon", "e", id],
          ["DEHYDRATOR.SETTLE", key, "17"],
          ["DEHYDRATOR.TOUCH", key, 10, "GT", "LT", id],
          ["DEHYDRATOR.TOUCH", key, id, 10],
          ["DEHYDRATOR.TOUCH", key, 10, "IDS", 1, id, "GT"],
          ["DEHYDRATOR.TOUCH", key, 10, "GT", "GROUP", "anna"],
          ["DEHYDRATOR.POLL", key, "LEASE", 5, "WITHIDS"],
          ["DEHYDRATOR.ONDUE", key, "HOLD", "DELIVERIES", 3],
          ["DEHYDRATOR.ONDUE", key, "HOLD", "DELIVERIES", 3, "STREAM", key],
          ["DEHYDRATOR.LIMIT", key, "RATE", 3],
          ["DEHYDRATOR.PAUSE", key, "FOR", 0],
          ["DEHYDRATOR.RANGE", key, "tonight", "+"],
          ["DEHYDRATOR.LEN"],
        ]);
    }
  }

  #store(queue: string): Word[] {
    const held = this.#pick(this.#held.slice(-8));
    const free = { key: this.#pick(KEYS), id: `id${this.#upTo(12)}`, token: "", element: "" };
    const { key, id, token, element } = held === undefined || this.#random() < 0.2 ? free : held;
    const words: Word[] = ["EVAL", STORE, 2, key, queue, id, this.#random() < 0.9 ? token : "", element];
    words.push(`element ${this.#upTo(1000)}`, this.#now + this.#pick([0, 1, 50, 1000]));
    for (let n = this.#upTo(4); n > 0; n -= 1) {
      const options = ["NX", "AT", this.#now + this.#pick([-1, 0, 50])];
      const job = [0, "job", `id${this.#upTo(12)}`, ...(this.#random() < 0.9 ? options : ["AT"])];
      words.push(job.length, ...job);
    }
    return words;
  }

  #bounds(): Word[] {
    const within = this.#maybe(0.3, "WITHIN", this.#pick([1, 5, 50, 1000, 60_000, 2 ** 48]));
    return [...within, ...this.#maybe(0.3, "DELIVERIES", 1 + this.#upTo(5))];
  }

  #poll(): Word[] {
    const options = this.#maybe(0.7, "COUNT", 1 + this.#upTo(3));
    if (this.#random() < 0.2) return [...options, ...this.#maybe(0.5, "WITHIDS")];
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

function pairsOf(reply: unknown[]): [string, unknown][] {
  const pairs: [string, unknown][] = [];
  for (let at = 0; at < reply.length; at += 2) pairs.push([String(reply[at]), reply[at + 1]]);
  return pairs;
}
