// The commands of the server in memory: what they change, and what they reply, at a given time in milliseconds.

import type { Word } from "../verbs.js";
import {
  boundOf,
  changedGroup,
  deliveriesOf,
  LIMIT_OPTIONS,
  needed,
  numberOf,
  Options,
  PUSH_OPTIONS,
  pushOptions,
  refused,
  wordOf,
} from "./arguments.js";
import { type Bounds, boundsOf, Dehydrator, type Entry, endOf, isLate, runs } from "./dehydrator.js";
import { Directories } from "./directories.js";
import { infoOfGroup, limitGroups } from "./group_settings.js";
import { OK, type Reply } from "./reply.js";
import { runScript } from "./scripts.js";
import { Stream } from "./stream.js";

/** The longest reason of RELEASE and REJECT, in bytes. */
const REASON_MAX = 4096;

/** The elements that PURGE and TOUCH of a group change at once, if COUNT does not say. */
const MANY = 1024;

/** The latest deadline is before this. */
const MAX = 2 ** 63;

/** The reply of a POLL that blocks: nothing is due in `keys`. */
export class Blocks {
  /** `nothing`: the reply if nothing comes due in time. */
  constructor(
    readonly keys: readonly string[],
    readonly ms: number,
    readonly nothing: Reply,
  ) {}
}

/** All keys, and the commands on them. A refused command throws the server's error, and changes nothing. */
export class Commands {
  readonly #keys = new Map<string, Dehydrator | Stream>();
  readonly #call = (name: string, ...words: string[]) => this.#verbs[name]!(words) as Reply;
  readonly directories = new Directories(this.#call);
  #now = 0;
  readonly #verbs: Record<string, (words: string[]) => Reply | Blocks> = {
    DEL: (keys) => keys.filter((key) => this.#keys.delete(key)).length,
    EVAL: ([script, ...words]) => runScript(needed(script), words, this.#call, this.directories),
    EVALSHA: ([sha, ...words]) => runScript(needed(sha), words, this.#call, this.directories),
    GET: ([key]) => this.directories.get(needed(key)),
    TIME: () => [String(Math.floor(this.#now / 1000)), String((this.#now % 1000) * 1000)],
    XADD: ([key, , ...fields]) => this.#xadd(key!, fields),
    XDEL: ([key, id]) => this.#xdel(key!, id),
    XLEN: ([key]) => this.#stream(key!).entries.length,
    XRANGE: ([key, start, end, ...rest]) => this.#xrange(key!, `${start} ${end}`, rest),
    "DEHYDRATOR.INFO": ([key, ...rest]) => this.#info(this.#at(key), new Options(rest, { GROUP: true }).group()),
    "DEHYDRATOR.LEN": ([key, ...rest]) => this.#len(this.#at(key), rest),
    "DEHYDRATOR.LIMIT": ([key, ...rest]) => this.#limit(key, rest),
    "DEHYDRATOR.LOOK": ([key, id, ...rest]) => this.#look(key, id, rest),
    "DEHYDRATOR.MPOLL": ([many, ...rest]) => this.#mpoll(numberOf(many, "numkeys", 1), rest),
    "DEHYDRATOR.MPUSH": ([key, ...rest]) => this.#mpush(key, rest),
    "DEHYDRATOR.ONDUE": ([key, ...rest]) => this.#onDue(key, rest),
    "DEHYDRATOR.PAUSE": ([key, ...rest]) => this.#pause(key, rest),
    "DEHYDRATOR.POLL": ([key, ...rest]) => this.#pollOne(key, rest),
    "DEHYDRATOR.PTTL": ([key, id]) => this.#pttl(this.#at(key).get(needed(id))),
    "DEHYDRATOR.PULL": ([key, id]) => this.#at(key).finish(needed(id), this.#now)?.element ?? null,
    "DEHYDRATOR.PURGE": ([key, ...rest]) => this.#purge(key, rest),
    "DEHYDRATOR.PUSH": ([key, ttl, element, id, ...rest]) => this.#push(key, ttl, element, id, rest),
    "DEHYDRATOR.RANGE": ([key, start, end, ...rest]) => this.#range(key, needed(start), needed(end), rest),
    "DEHYDRATOR.REJECT": ([key, ...pairs]) => this.#reject(key, pairs),
    "DEHYDRATOR.RELEASE": ([key, ttl, ...pairs]) => this.#release(key, ttl, pairs),
    "DEHYDRATOR.REM": ([key, ...ids]) => ids.filter((id) => this.#at(key).remove(id) !== undefined).length,
    "DEHYDRATOR.RENEW": ([key, ttl, ...pairs]) => this.#renew(key, ttl, pairs),
    "DEHYDRATOR.RESUME": ([key, ...rest]) => this.#resume(this.#at(key), rest),
    // All ids at once.
    "DEHYDRATOR.SCAN": ([key, , ...rest]) => this.#scan(this.#at(key), rest),
    "DEHYDRATOR.SETTLE": ([key, ...pairs]) => this.#settle(key, pairs),
    "DEHYDRATOR.TOUCH": ([key, ...rest]) => this.#touch(key, rest),
    "DEHYDRATOR.TTN": ([key]) => this.#ttn(this.#at(key)),
    "DEHYDRATOR.UPDATE": ([key, id, element]) => this.#update(key, needed(id), needed(element)),
  };

  /** Runs a command, and returns its reply, or Blocks. */
  call(words: readonly Word[], now: number): Reply | Blocks {
    this.#now = now;
    const [name = "", ...rest] = words.map(wordOf);
    const verb = this.#verbs[name.toUpperCase()];
    if (verb === undefined) throw refused("ERR", `unknown command '${name}' of the server in memory`);
    try {
      return verb(rest);
    } finally {
      this.passTime(now);
    }
  }

  /** Removes elements that are too late, moves dead letters that are due, and ends pauses. */
  passTime(now: number): void {
    this.#now = now;
    for (const [key, it] of this.#keys) {
      if (it instanceof Stream) continue;
      if (it.pause <= now) it.pause = 0;
      if (it.pause === 0) {
        for (const late of it.late(now)) this.#bury(it, late);
        for (let next = it.nextDue(now); next !== undefined && it.isDead(next, now); next = it.nextDue(now)) {
          this.#bury(it, next);
        }
      }
      if (it.length === 0 && it.isUsual(now)) this.#keys.delete(key);
    }
  }

  /** Returns whether an element is held under one of these tokens. */
  holds(keys: readonly string[], tokens: ReadonlySet<string>): boolean {
    return keys.some((key) => this.#at(key).entries.some(({ token }) => token !== null && tokens.has(token)));
  }

  /** Returns whether one of the keys has something to give out. */
  hasDue(keys: readonly string[]): boolean {
    return keys.some((key) => this.#at(key).nextDue(this.#now) !== undefined);
  }

  /** Returns the groups of a key that are in its round, in order. */
  roundOf(key: string): readonly string[] {
    return this.#at(key).groups.round;
  }

  /** Returns the dehydrator of a key; a new one, which is not stored, if there is none. */
  #at(key: string | undefined): Dehydrator {
    const it = this.#keys.get(needed(key)) ?? new Dehydrator();
    if (it instanceof Stream) throw refused("WRONGTYPE", "Operation against a key holding the wrong kind of value");
    return it;
  }

  #made(key: string | undefined): Dehydrator {
    const it = this.#at(key);
    this.#keys.set(key!, it);
    return it;
  }

  #stream(key: string): Stream {
    const it = this.#keys.get(key) ?? new Stream();
    if (it instanceof Stream) return it;
    throw refused("WRONGTYPE", "Operation against a key holding the wrong kind of value");
  }

  #deadline(ttl: number, at?: number): number {
    const deadline = at ?? this.#now + ttl;
    if (deadline >= MAX) throw refused("ERR", "the deadline is too late");
    return deadline;
  }

  /** Moves a dead letter to its destination. */
  #bury(it: Dehydrator, entry: Entry, isRejected = false): void {
    const { id, element, deliveries, group } = entry;
    it.remove(id);
    if (it.dead === null) return;
    const stream = this.#stream(it.dead);
    this.#keys.set(it.dead, stream);
    const why = isLate(entry, this.#now) && !isRejected ? "expired" : entry.reason;
    const reason = why === "" ? [] : ["reason", why];
    const grouped = group === "" ? [] : ["group", group];
    stream.add(this.#now, "id", id, "element", element, "deliveries", String(deliveries), ...reason, ...grouped);
    if (it.deadLength > 0) stream.entries = stream.entries.slice(-it.deadLength);
  }

  // Commands that store and take.

  #push(key?: string, ttl?: string, element?: string, id?: string, rest: string[] = []): Reply {
    const options = pushOptions(rest);
    const timer = this.#timer(ttl, options);
    const [it, name] = [this.#at(key), needed(id)];
    const isThere = it.get(name) !== undefined;
    if ((isThere || it.remembers(name, this.#now)) && !options.has("REPLACE")) {
      if (options.has("NX")) return null;
      throw refused("EXISTS", `id '${name}' is there already`);
    }
    const group = options.group() ?? "";
    if (it.isFull(name, group)) throw refused("FULL", "the LENGTH that LIMIT set is reached");
    this.#made(key).push(name, needed(element), ...timer, group);
    return OK;
  }

  #mpush(key: string | undefined, rest: string[]): Reply {
    // Options come last, but an element may be spelled like one.
    let size = 3;
    while (size < rest.length && !(rest[size]!.toUpperCase() in PUSH_OPTIONS)) size += 3;
    const options = pushOptions(rest.slice(size));
    const pushed: [id: string, element: string, timer: [number, number, Bounds]][] = [];
    for (let at = 0; at < size; at += 3) {
      pushed.push([needed(rest[at + 2]), needed(rest[at + 1]), this.#timer(rest[at], options)]);
    }
    const [it, group] = [this.#at(key), options.group() ?? ""];
    /** Ids that come anew, and those of them and of others that come into the group. */
    const [added, moved] = [new Set<string>(), new Set<string>()];
    const replies = pushed.map(([id]) => {
      const isThere = it.get(id) !== undefined || added.has(id);
      if (!options.has("REPLACE") && (isThere || it.remembers(id, this.#now))) {
        if (options.has("NX")) return 0;
        throw refused("EXISTS", `id '${id}' is there already`);
      }
      if (added.has(id) || moved.has(id)) return 1;
      if (it.isFull(id, group, added.size, moved.size)) return -1;
      if (!isThere) added.add(id);
      if (it.get(id)?.group !== group) moved.add(id);
      return 1;
    });
    const made = this.#made(key);
    for (const [n, [id, element, timer]] of pushed.entries()) {
      if (replies[n] === 1) made.push(id, element, ...timer, group);
    }
    return replies;
  }

  #timer(ttl: string | undefined, options: Options): [ttl: number, deadline: number, Bounds] {
    const slack = options.number("SLACK") ?? 0;
    let step = 1;
    while (step * 2 - 1 <= slack) step *= 2;
    const ms = Math.ceil(numberOf(ttl, "ttl") / step) * step;
    const deadline = this.#deadline(ms, options.number("AT"));
    return [ms, deadline, boundsOf(deadline, options.number("WITHIN", 1), deliveriesOf(options.word("DELIVERIES")))];
  }

  #pollOne(key: string | undefined, rest: string[]): Reply | Blocks {
    const options = this.#pollOptions(rest);
    const given = this.#poll(needed(key), options);
    const block = options.number("BLOCK");
    return given.length > 0 || block === undefined ? given : new Blocks([key!], block, []);
  }

  #mpoll(many: number, rest: string[]): Reply | Blocks {
    const [keys, options] = [rest.slice(0, many), this.#pollOptions(rest.slice(many))];
    if (keys.length < many) throw refused("ERR", "numkeys is greater than the number of keys");
    const token = options.word("TOKEN");
    const isHeld = (entry: Entry) => token !== undefined && entry.token === token && runs(entry, this.#now);
    const held = keys.map((key) => this.#at(key)).findIndex((it) => it.entries.some(isHeld));
    // Nobody looks whose turn it is in a key with nothing to give out.
    const due = keys.filter((key) => this.#at(key).nextDue(this.#now) !== undefined);
    for (const key of held < 0 ? due : [keys[held]!]) {
      const given = this.#poll(key, options);
      if (given.length > 0) return [key, given];
    }
    const block = options.number("BLOCK");
    return block === undefined ? null : new Blocks(keys, block, null);
  }

  #pollOptions(words: string[]): Options {
    const options = new Options(words, { COUNT: true, BLOCK: true, LEASE: true, TOKEN: true, WITHIDS: false });
    if (options.has("TOKEN") && !options.has("LEASE")) throw refused("ERR", "TOKEN needs LEASE");
    options.onlyOne("LEASE", "WITHIDS");
    options.number("COUNT", 1);
    options.number("BLOCK");
    this.#deadline(options.number("LEASE", 1) ?? 0);
    return options;
  }

  #poll(key: string, options: Options): Reply[] {
    const [it, now] = [this.#at(key), this.#now];
    const [lease, token] = [options.number("LEASE"), options.word("TOKEN")];
    const rowOf = ({ id, element, deliveries, token }: Entry) => [id, element, deliveries, token];
    let most = options.number("COUNT") ?? Number.POSITIVE_INFINITY;
    const held = it.entries.filter((entry) => token !== undefined && entry.token === token && runs(entry, now));
    if (held.length > 0) return held.slice(0, most).map(rowOf);
    // The server draws such numbers.
    const drawn = token ?? String(2n ** 62n + BigInt(Math.floor(Math.random() * 2 ** 53)));
    most = Math.min(most, it.room(now));
    const given: Reply[] = [];
    while (given.length < most && it.pause <= now) {
      const next = it.nextDue(now);
      if (next !== undefined && it.isDead(next, now)) {
        this.#bury(it, next);
        continue;
      }
      const entry = it.takeTurn(now);
      if (entry === undefined) break;
      if (lease !== undefined) {
        it.lease(entry, lease, now + lease, drawn);
        given.push(rowOf(entry));
      } else {
        it.finish(entry.id, now);
        given.push(options.has("WITHIDS") ? [entry.id, entry.element] : entry.element);
      }
    }
    it.give(now, given.length);
    return given;
  }

  // Commands on leases.

  /** Returns for each pair of token and id what `act` does to the element that is held, or 0. */
  #withHeld(key: string | undefined, pairs: string[], act: (it: Dehydrator, entry: Entry) => boolean): Reply {
    if (pairs.length === 0 || pairs.length % 2 === 1) throw refused("ERR", "each token needs an id");
    const it = this.#at(key);
    const replies: number[] = [];
    for (let at = 0; at < pairs.length; at += 2) {
      const entry = it.held(pairs[at]!, pairs[at + 1]!);
      replies.push(entry !== undefined && act(it, entry) ? 1 : 0);
    }
    return replies;
  }

  #settle(key: string | undefined, pairs: string[]): Reply {
    return this.#withHeld(key, pairs, (it, { id }) => it.finish(id, this.#now) !== undefined);
  }

  #renew(key: string | undefined, ttl: string | undefined, pairs: string[]): Reply {
    const ms = numberOf(ttl, "ttl");
    const deadline = this.#deadline(ms);
    return this.#withHeld(key, pairs, (it, entry) => {
      if (ms > 0 && entry.deadline <= this.#now && !it.mayHold(entry, this.#now)) return false;
      it.restart(entry, ms, deadline);
      return true;
    });
  }

  /** Returns the tokens and ids, and the options behind them, the first of which is in the place of a token. */
  #split(words: string[], known: Record<string, boolean>): { pairs: string[]; options: Options } {
    let end = Math.min(2, words.length);
    while (end < words.length && !(words[end]!.toUpperCase() in known)) end += 2;
    const options = new Options(words.slice(end), known);
    if (Buffer.byteLength(options.word("REASON") ?? "") > REASON_MAX) {
      throw refused("ERR", `a REASON has at most ${REASON_MAX} bytes`);
    }
    return { pairs: words.slice(0, end), options };
  }

  #release(key: string | undefined, ttl: string | undefined, words: string[]): Reply {
    const ms = numberOf(ttl, "ttl");
    const { pairs, options } = this.#split(words, { UNCOUNTED: false, ELEMENT: true, REASON: true });
    const [element, reason] = [options.word("ELEMENT"), options.word("REASON")];
    if (element !== undefined && pairs.length > 2) throw refused("ERR", "syntax error, ELEMENT is for one id");
    const deadline = this.#deadline(ms);
    if (pairs.length === 0 || pairs.length % 2 === 1) throw refused("ERR", "each token needs an id");
    const it = this.#at(key);
    const order = pairs.flatMap((_, at) => (at % 2 === 0 ? [at / 2] : []));
    const replies = order.map(() => 0);
    const isNew = (at: number) =>
      !order.slice(0, at).some((one) => pairs[2 * one] === pairs[2 * at] && pairs[2 * one + 1] === pairs[2 * at + 1]);
    const firsts = order.filter(isNew);
    for (const at of options.has("UNCOUNTED") ? firsts.reverse() : firsts) {
      const entry = it.held(pairs[2 * at]!, pairs[2 * at + 1]!);
      if (entry === undefined) continue;
      replies[at] = 1;
      if (element !== undefined) entry.element = element;
      if (reason !== undefined) entry.reason = reason;
      if (options.has("UNCOUNTED")) {
        entry.deliveries -= 1;
        it.putFirst(entry, ms > 0 ? deadline : Math.min(entry.wasDue, this.#now));
      } else {
        it.restart(entry, 0, deadline);
      }
    }
    return replies;
  }

  #reject(key: string | undefined, words: string[]): Reply {
    const { pairs, options } = this.#split(words, { REASON: true });
    if (pairs.length > 0 && pairs.length % 2 === 0 && this.#keys.has(needed(key)) && !this.#at(key).mostDeliveries) {
      throw refused("NORULE", "no destination for dead letters");
    }
    return this.#withHeld(key, pairs, (it, entry) => {
      entry.reason = options.word("REASON") ?? entry.reason;
      this.#bury(it, entry, true);
      return true;
    });
  }

  // Commands by id.

  #look(key: string | undefined, id: string | undefined, rest: string[]): Reply {
    const options = new Options(rest, { FULL: false });
    const entry = this.#at(key).get(needed(id));
    if (entry === undefined) return null;
    const { element, deadline, ttl, deliveries, token, bounds, group, since, reason } = entry;
    if (!options.has("FULL")) return element;
    const leased = runs(entry, this.#now) ? 1 : 0;
    const own = { "deliveries-limit": bounds.deliveries, until: endOf(entry), group: group || null };
    const told = { ...own, "held-since": since, reason: reason || null };
    return Object.entries({ element, deadline, ttl, deliveries, leased, token, ...told }).flat();
  }

  #update(key: string | undefined, id: string, element: string): Reply {
    const entry = this.#at(key).get(id);
    if (entry === undefined) throw refused("NOSUCHID", `no such id '${id}'`);
    const before = entry.element;
    entry.element = element;
    return before;
  }

  #touch(key: string | undefined, words: string[]): Reply {
    const [ttl, ...rest] = words;
    // One last word is an id, even if it is the name of an option.
    let from = 0;
    while (rest.length - from > 1 && !/^(IDS|GROUP)$/i.test(rest[from]!)) from += /^AT$/i.test(rest[from]!) ? 2 : 1;
    const [first, many, ...others] = rest.slice(from);
    let ids = [needed(first)];
    const options = new Options(rest.slice(0, from), { GT: false, LT: false, AT: true });
    options.onlyOne("GT", "LT");
    const [it, ms, at] = [this.#at(key), numberOf(ttl, "ttl"), options.number("AT")];
    const deadline = this.#deadline(ms, at);
    if (many !== undefined && first!.toUpperCase() === "IDS") {
      ids = others;
      if (ids.length !== numberOf(many, "IDS", 1)) throw refused("ERR", "IDS has another number of ids");
    } else if (many !== undefined) {
      if (options.has("GT") || options.has("LT")) throw refused("ERR", "GT and LT are not for a GROUP");
      return this.#touchGroup(it, rest.slice(from), [ms, at, deadline]);
    }
    let touched = 0;
    for (const id of new Set(ids)) {
      const entry = it.get(id);
      if (entry === undefined) continue;
      if (options.has("GT") && deadline <= entry.deadline) continue;
      if (options.has("LT") && deadline >= entry.deadline) continue;
      it.touch(entry, entry.token !== null && at !== undefined ? Math.max(ms, 1) : ms, deadline, this.#now);
      touched += 1;
    }
    return touched;
  }

  #touchGroup(it: Dehydrator, words: string[], timer: [ms: number, at: number | undefined, deadline: number]): Reply {
    const options = new Options(words, { GROUP: true, COUNT: true });
    const [[ms, at, deadline], group, now] = [timer, changedGroup(options), this.#now];
    // About the new deadline is near enough, so that a loop ends.
    const about = deadline - Math.min(Math.max(Math.floor(ms / 8), 1000), 60_000, Math.floor(ms / 2));
    const near = at !== undefined ? deadline : ms === 0 ? 0 : about;
    const moved = it.groups.atRest(group, [near, deadline], now).slice(0, options.number("COUNT", 1) ?? MANY);
    for (const entry of moved) {
      it.touch(entry, entry.token !== null && at !== undefined ? Math.max(ms, 1) : ms, deadline, now);
    }
    return moved.length;
  }

  #purge(key: string | undefined, words: string[]): Reply {
    const options = new Options(words, { GROUP: true, COUNT: true });
    const it = this.#at(key);
    const removed = it.groups.of(changedGroup(options)).slice(0, options.number("COUNT", 1) ?? MANY);
    for (const { id } of removed) it.remove(id);
    return removed.length;
  }

  /** Returns all ids at once. A pattern of MATCH is a prefix. */
  #scan(it: Dehydrator, words: string[]): Reply {
    const options = new Options(words, { COUNT: true, MATCH: true });
    options.number("COUNT", 1);
    const prefix = (options.word("MATCH") ?? "*").replace(/\*$/, "").replace(/\\(.)/g, "$1");
    return ["0", it.entries.map(({ id }) => id).filter((id) => id.startsWith(prefix))];
  }

  #pttl(entry: Entry | undefined): Reply {
    return entry === undefined ? -2 : Math.max(0, entry.deadline - this.#now);
  }

  // Commands on a key.

  #range(key: string | undefined, start: string, end: string, rest: string[]): Reply {
    const options = new Options(rest, { COUNT: true, GROUP: true, WITHELEMENTS: false, WITHTOKENS: false });
    const group = options.group();
    const most = options.number("COUNT", 1) ?? Number.POSITIVE_INFINITY;
    const low = start === "-" ? 0 : boundOf(start, "start", 1);
    const high = end === "+" ? MAX : boundOf(end, "end", -1);
    const rows: Reply[] = [];
    let last = -1;
    for (const entry of this.#at(key).entries) {
      const { id, deadline, ttl, deliveries, element, token, since } = entry;
      if (deadline < low || deadline > high || (group !== undefined && entry.group !== group)) continue;
      // Elements with the same deadline are not separated.
      if (rows.length >= most && deadline !== last) return [`(${last}`, rows];
      const row: Reply[] = [id, deadline, ttl, deliveries, runs(entry, this.#now) ? 1 : 0];
      if (options.has("WITHELEMENTS")) row.push(element);
      if (options.has("WITHTOKENS")) row.push(token, since);
      rows.push(row);
      last = deadline;
    }
    return [null, rows];
  }

  #len(it: Dehydrator, rest: string[]): Reply {
    const group = new Options(rest, { GROUP: true }).group();
    return group === undefined ? it.length : it.entries.filter((entry) => entry.group === group).length;
  }

  #ttn(it: Dehydrator): Reply {
    const from = Math.max(it.opens, it.pause, it.roomFrom(this.#now));
    return Number.isFinite(from) ? Math.max(0, from - this.#now) : null;
  }

  #pause(key: string | undefined, rest: string[]): Reply {
    this.#at(key);
    const options = new Options(rest, { FOR: true, AT: true, GROUP: true });
    options.onlyOne("FOR", "AT");
    const ms = options.number("FOR", 1);
    const after = ms === undefined ? Number.POSITIVE_INFINITY : this.#deadline(ms);
    const [until, group] = [options.number("AT") ?? after, options.namedGroup()];
    if (until <= this.#now) throw refused("ERR", "the pause ends before it begins");
    this.#made(key).setPause(group, until);
    return OK;
  }

  #resume(it: Dehydrator, rest: string[]): Reply {
    const group = new Options(rest, { GROUP: true }).namedGroup();
    return it.setPause(group, 0) > this.#now ? 1 : 0;
  }

  #onDue(key: string | undefined, words: string[]): Reply {
    this.#at(key);
    const [hold, deliveries, most, where, dest, ...trim] = words;
    const names = [hold, deliveries, where].map((word) => word?.toUpperCase()).join(" ");
    let [count, dead, length, isApproximate] = [0, null as string | null, 0, false];
    if (names === "HOLD DELIVERIES DROP" && dest === undefined) {
      count = deliveriesOf(most);
    } else if (names === "HOLD DELIVERIES STREAM" && dest !== undefined && dest !== key) {
      [count, dead] = [deliveriesOf(most), dest];
      isApproximate = trim[1] === "~";
      if (trim[0]?.toUpperCase() === "MAXLEN") length = numberOf(trim.at(-1), "MAXLEN", 1);
      else if (trim.length > 0) throw refused("ERR", "unexpected option of STREAM");
    } else if (words.length !== 1 || hold?.toUpperCase() !== "HOLD") {
      throw refused("ERR", "the server in memory knows HOLD, and HOLD DELIVERIES n with DROP or STREAM");
    }
    Object.assign(this.#made(key), { mostDeliveries: count, dead, deadLength: length, isApproximate });
    return OK;
  }

  #limit(key: string | undefined, rest: string[]): Reply {
    const scope = needed(rest[0]).toUpperCase();
    if (scope === "EACH") return limitGroups(this.#made(key).groups, rest.slice(1), {});
    if (scope === "GROUP") return limitGroups(this.#made(key).groups, rest, { GROUP: true, SHARE: true });
    const options = new Options(rest, { ...LIMIT_OPTIONS, REMEMBER: true });
    const [length, held, remember] = ["LENGTH", "HELD", "REMEMBER"].map((name) => options.number(name));
    const rate = options.rate();
    const it = this.#made(key);
    if (length !== undefined) it.limits.length = length;
    if (held !== undefined) it.limits.held = held;
    if (rate !== undefined) it.setRate(rate.rate, rate.per);
    if (remember !== undefined) it.limits.remember = remember;
    if (remember === 0) it.remembered.clear();
    return OK;
  }

  /** The fields that do not depend on the server's memory or history. */
  #info(it: Dehydrator, group?: string): Reply {
    if (group !== undefined) return infoOfGroup(it.groups, group, this.#now);
    const [now, { entries, limits }] = [this.#now, it];
    const isPaused = it.pause > now;
    const givenOut = entries.filter((entry) => entry.deliveries > 0).length;
    const leased = entries.filter((entry) => entry.token !== null).length;
    return Object.entries({
      length: it.length,
      due: entries.filter((entry) => entry.deadline <= now).length,
      "given-out": givenOut,
      "next-deadline": Number.isFinite(it.opens) ? it.opens : null,
      policy: Object.entries({
        action: "HOLD",
        deliveries: it.mostDeliveries,
        "dead-letters": it.mostDeliveries === 0 ? null : it.dead === null ? "DROP" : "STREAM",
        dest: it.dead,
        end: null,
        maxlen: it.deadLength,
        approximate: it.isApproximate ? 1 : 0,
        confirmed: 1,
      }).flat(),
      paused: isPaused ? 1 : 0,
      "paused-until": isPaused && Number.isFinite(it.pause) ? it.pause : null,
      "length-limit": limits.length,
      "held-limit": limits.held,
      running: limits.held > 0 ? it.running(now).length : null,
      "rate-limit": limits.rate,
      "rate-per": limits.per,
      "rate-room": limits.rate > 0 ? it.rateRoom(now) : null,
      remember: limits.remember,
      remembered: [...it.remembered.values()].filter((until) => until > now).length,
      "each-length-limit": it.groups.each.length,
      "each-held-limit": it.groups.each.held,
      "each-rate-limit": it.groups.each.rate,
      "each-rate-per": it.groups.each.per,
      leased,
      "given-back": givenOut - leased,
      groups: new Set(entries.map((entry) => entry.group).filter((group) => group !== "")).size,
    }).flat();
  }

  // Commands of the server's own.

  #xadd(key: string, fields: string[]): Reply {
    const stream = this.#stream(key);
    this.#keys.set(key, stream);
    return stream.add(this.#now, ...fields);
  }

  #xdel(key: string, id: string | undefined): Reply {
    const stream = this.#stream(key);
    const before = stream.entries.length;
    stream.entries = stream.entries.filter((entry) => entry.id !== id);
    return before - stream.entries.length;
  }

  #xrange(key: string, bounds: string, rest: string[]): Reply {
    if (bounds !== "- +") throw refused("ERR", "the server in memory lists a stream from - to +");
    const most = new Options(rest, { COUNT: true }).number("COUNT");
    return this.#stream(key)
      .entries.slice(0, most)
      .map(({ id, fields }) => [id, fields]);
  }
}
