// The commands of the server in memory: what they change, and what they reply, at a given time in milliseconds.

import { MODULE } from "../errors.js";
import type { Word } from "../verbs.js";
import { Options, type Reply, refused, wordOf } from "./arguments.js";
import { type Caps, Dehydrator, type Entry, isLate, runs } from "./dehydrator.js";
import { moveOn, rowOf, type Schedule, scheduleOf } from "./schedules.js";
import { Stream } from "./stream.js";

/** The elements that PURGE and TOUCH of a group change at once. */
const MANY = 1024;

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
  #now = 0;
  readonly #verbs: Record<string, (key: string, words: string[]) => Reply | Blocks> = {
    // There are no queues of several keys.
    GET: () => null,
    XDEL: (key, ids) => this.#stream(key).drop(ids),
    XRANGE: (key, [, , ...rest]) => {
      const letters = this.#stream(key).entries.map(({ id, fields }) => [id, fields]);
      return letters.slice(0, new Options(rest).number("COUNT"));
    },
    EVERY: (key, words) => this.#every(key, words),
    INFO: (key, words) => this.#info(this.#at(key), new Options(words)),
    LEN: (key) => this.#at(key).length,
    LIMIT: (key, words) => this.#limit(key, words),
    LOOK: (key, [id = "", full]) => this.#look(key, id, full !== undefined),
    MPOLL: (many, words) => {
      const [keys, options] = [words.slice(0, Number(many)), new Options(words.slice(Number(many)))];
      const held = keys.find((key) => this.#heldBy(this.#at(key), options).length > 0);
      for (const key of held === undefined ? keys : [held]) {
        const given = this.#poll(key, options);
        if (given.length > 0) return [key, given];
      }
      return blocks(keys, options, null);
    },
    MPUSH: (key, words) => this.#mpush(key, words),
    ONDUE: (key, words) => this.#onDue(key, words),
    PAUSE: (key, words) => this.#pause(key, new Options(words)),
    POLL: (key, words) => {
      const given = this.#poll(key, new Options(words));
      return given.length > 0 ? given : blocks([key], new Options(words), []);
    },
    PURGE: (key, [, group = ""]) => {
      const removed = this.#at(key).of(group).slice(0, MANY);
      return removed.filter(({ id }) => this.#at(key).remove(id)).length;
    },
    PUSH: (key, words) => this.#push(key, words.slice(0, 3), new Options(words.slice(3), "NX REPLACE")),
    RANGE: (key, [start = "", , ...rest]) => this.#range(key, start, new Options(rest, "WITHELEMENTS")),
    REJECT: (key, words) => this.#reject(key, words),
    RELEASE: (key, [ttl, ...words]) => this.#release(key, Number(ttl), words),
    REM: (key, ids) => ids.filter((id) => this.#at(key).remove(id)).length,
    RENEW: (key, [ttl, ...pairs]) =>
      this.#withHeld(key, pairs, (it, entry) => it.restart(entry, Number(ttl), this.#now + Number(ttl))),
    RESUME: (key, words) => this.#resume(key, new Options(words)),
    REVIVE: (key, words) => this.#revive(key, words),
    // All ids at once. A pattern of MATCH is a prefix.
    SCAN: (key, [, ...rest]) => {
      const pattern = new Options(rest).word("MATCH") ?? "*";
      const prefix = pattern.replace(/\*$/, "").replace(/\\(.)/g, "$1");
      return ["0", this.#at(key).entries.flatMap(({ id }) => (id.startsWith(prefix) ? [id] : []))];
    },
    SCHEDULES: (key, names) => this.#schedules(this.#at(key), names),
    SETTLE: (key, pairs) => this.#withHeld(key, pairs, (it, { id }) => it.finish(id, this.#now)),
    TOUCH: (key, [ttl, ...words]) => this.#touch(this.#at(key), Number(ttl), words),
    UNSCHEDULE: (key, names) => names.filter((name) => this.#at(key).schedules.delete(name)).length,
    UPDATE: (key, [id = "", element = ""]) => {
      const entry = this.#at(key).get(id);
      if (entry === undefined) throw refused("NOSUCHID", `no such id '${id}'`);
      const before = entry.element;
      entry.element = element;
      return before;
    },
  };

  /** Runs a command, and returns its reply, or Blocks. */
  call(words: readonly Word[], now: number): Reply | Blocks {
    this.#now = now;
    const [name = "", key = "", ...rest] = words.map(wordOf);
    if (name === "INFO") return `dehydrator_version:${MODULE}`;
    const verb = this.#verbs[name.toUpperCase().replace(/^DEHYDRATOR\./, "")];
    if (verb === undefined) throw refused("ERR", `unknown command '${name}' of the server in memory`);
    try {
      return verb(key, rest);
    } finally {
      this.passTime(now);
    }
  }

  /** Stores what schedules say, removes what is too late, moves dead letters that are due, and ends pauses. */
  passTime(now: number): void {
    this.#now = now;
    for (const [key, it] of this.#keys) {
      if (it instanceof Stream) continue;
      for (const [name, one] of it.schedules) this.#occur(it, name, one);
      for (const [group, until] of it.pauses) if (until <= now) it.pauses.delete(group);
      for (const late of it.isPaused("", now) ? [] : it.late(now)) this.#bury(it, late);
      for (let next = it.nextDue(now); next !== undefined && it.isDead(next, now); next = it.nextDue(now)) {
        this.#bury(it, next);
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

  /** Stores the occurrences of a schedule until now; waits where the key is full. */
  #occur(it: Dehydrator, name: string, one: Schedule): void {
    for (let at = one.next; at !== null && at <= this.#now; at = one.next) {
      const id = `${name}@${at}`;
      const isOpen =
        one.options.word("OVERLAP")?.toUpperCase() === "SKIP" && it.get(`${name}@${one.last}`) !== undefined;
      const isStored = !one.isPaused && !isOpen && it.get(id) === undefined && !it.remembers(id, this.#now);
      if (isStored && it.isFull(id)) return;
      if (isStored) it.push(id, one.element, [0, at], one.options.terms);
      moveOn(one, isStored);
    }
  }

  /** Returns the dehydrator of a key; a new one, which is not stored, if there is none. */
  #at(key: string): Dehydrator {
    const it = this.#keys.get(key) ?? new Dehydrator();
    if (it instanceof Stream) throw refused("WRONGTYPE", "Operation against a key holding the wrong kind of value");
    return it;
  }

  #made(key: string): Dehydrator {
    const it = this.#at(key);
    this.#keys.set(key, it);
    return it;
  }

  #stream(key: string): Stream {
    const it = this.#keys.get(key) ?? new Stream();
    if (it instanceof Stream) return it;
    throw refused("WRONGTYPE", "Operation against a key holding the wrong kind of value");
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
    stream.add(this.#now, ["id", id, "element", element, "deliveries", `${deliveries}`, ...reason, ...grouped]);
    if (it.deadLength > 0) stream.entries = stream.entries.slice(-it.deadLength);
  }

  // Commands that store and take.

  #push(key: string, [ttl, element = "", id = ""]: readonly string[], options: Options): Reply {
    const it = this.#at(key);
    if (!options.has("REPLACE") && (it.get(id) !== undefined || it.remembers(id, this.#now))) {
      if (options.has("NX")) return null;
      throw refused("EXISTS", `id '${id}' is there already`);
    }
    if (it.isFull(id)) throw refused("FULL", "the LENGTH that LIMIT set is reached");
    const timer = [Number(ttl), options.number("AT") ?? this.#now + Number(ttl)] as const;
    this.#made(key).push(id, element, timer, options.terms);
    return "OK";
  }

  #mpush(key: string, words: string[]): Reply {
    // Options come last, but an element may be spelled like one.
    let size = 3;
    while (size < words.length && !/^(NX|REPLACE|AT|DELIVERIES|WITHIN|GROUP)$/i.test(words[size]!)) size += 3;
    const options = new Options(words.slice(size), "NX REPLACE");
    return Array.from({ length: size / 3 }, (_, n) => {
      try {
        return this.#push(key, words.slice(3 * n, 3 * n + 3), options) === null ? 0 : 1;
      } catch (error) {
        if (String(error).includes("FULL")) return -1;
        throw error;
      }
    });
  }

  /** Returns what is held under the token of a POLL that is sent again. */
  #heldBy(it: Dehydrator, options: Options): Entry[] {
    return it.entries.filter((entry) => entry.token === options.word("TOKEN") && runs(entry, this.#now));
  }

  #poll(key: string, options: Options): Reply[] {
    const [it, now, token] = [this.#at(key), this.#now, options.word("TOKEN") ?? ""];
    const rowOf = ({ id, element, deliveries, token }: Entry) => [id, element, deliveries, token];
    const most = options.number("COUNT") ?? Number.POSITIVE_INFINITY;
    const held = this.#heldBy(it, options);
    if (held.length > 0) return held.slice(0, most).map(rowOf);
    const given: Reply[] = [];
    for (let next = it.nextDue(now); next !== undefined && given.length < most; next = it.nextDue(now)) {
      if (it.isDead(next, now)) {
        this.#bury(it, next);
      } else {
        it.lease(next, options.number("LEASE")!, now, token);
        given.push(rowOf(next));
      }
    }
    return given;
  }

  // Commands on leases.

  /** Does something with each element that is held under the token before its id; returns for each whether it is. */
  #withHeld(key: string, pairs: string[], act: (it: Dehydrator, entry: Entry) => unknown): Reply {
    const it = this.#at(key);
    return Array.from({ length: pairs.length / 2 }, (_, n) => {
      const entry = it.held(pairs[2 * n]!, pairs[2 * n + 1]!);
      if (entry !== undefined) act(it, entry);
      return entry === undefined ? 0 : 1;
    });
  }

  /** Returns the tokens and ids, and the options behind them, the first of which is in the place of a token. */
  #split(words: string[]): { pairs: string[]; options: Options } {
    let end = 2;
    while (end < words.length && !/^(UNCOUNTED|ELEMENT|REASON)$/i.test(words[end]!)) end += 2;
    return { pairs: words.slice(0, end), options: new Options(words.slice(end), "UNCOUNTED") };
  }

  /** Notes what the end of an attempt says. */
  #note(entry: Entry, options: Options): void {
    entry.element = options.word("ELEMENT") ?? entry.element;
    entry.reason = options.word("REASON") ?? entry.reason;
  }

  #release(key: string, ms: number, words: string[]): Reply {
    const [deadline, { pairs, options }] = [this.#now + ms, this.#split(words)];
    const freed: Entry[] = [];
    const replies = this.#withHeld(key, pairs, (it, entry) => {
      this.#note(entry, options);
      if (options.has("UNCOUNTED")) freed.unshift(entry);
      else it.restart(entry, 0, deadline);
      entry.token = null;
    });
    // The first one comes foremost.
    for (const entry of freed) {
      entry.deliveries -= 1;
      this.#at(key).putFirst(entry, ms > 0 ? deadline : Math.min(entry.wasDue, this.#now));
    }
    return replies;
  }

  #reject(key: string, words: string[]): Reply {
    const { pairs, options } = this.#split(words);
    if (this.#keys.has(key) && !this.#at(key).mostDeliveries)
      throw refused("NORULE", "no destination for dead letters");
    return this.#withHeld(key, pairs, (it, entry) => {
      this.#note(entry, options);
      this.#bury(it, entry, true);
    });
  }

  #revive(key: string, words: string[]): Reply {
    const at = words.findIndex((word) => word.toUpperCase() === "IDS");
    const options = new Options(at < 0 ? words : words.slice(0, at));
    const ids = at < 0 ? undefined : words.slice(at + 2);
    if (!this.#keys.has(key)) return [0, null];
    const it = this.#at(key);
    if (it.dead === null) throw refused("NORULE", "dead letters go to no stream");
    const stream = this.#stream(it.dead);
    const from = stream.entries.findIndex(({ id }) => id === options.word("FROM")) + 1;
    const all = ids === undefined ? stream.entries.slice(from) : stream.entries.filter(({ id }) => ids.includes(id));
    const most = options.number("COUNT") ?? 100;
    const seen = ids === undefined ? all.slice(0, most) : all;
    let [revived, last] = [0, options.word("FROM") ?? null];
    for (const { id: letter, fields } of seen) {
      const field = (name: string) => fields[fields.findIndex((one, n) => n % 2 === 0 && one === name) + 1]!;
      const [id, group] = [field("id"), fields.at(-2) === "group" ? fields.at(-1)! : ""];
      if (it.get(id) === undefined && it.isFull(id)) {
        if (revived === 0) throw refused("FULL", "the LENGTH that LIMIT set is reached");
        return [revived, ids === undefined ? last : null];
      }
      last = letter;
      if (it.get(id) !== undefined) continue;
      it.push(id, options.word("ELEMENT") ?? field("element"), [0, this.#now], { within: 0, most: 0, group });
      stream.drop([letter]);
      revived += 1;
    }
    return [revived, ids === undefined && seen.length === most ? last : null];
  }

  // Commands by id.

  #look(key: string, id: string, isFull: boolean): Reply {
    const entry = this.#at(key).get(id);
    if (entry === undefined || !isFull) return entry?.element ?? null;
    const { element, deadline, ttl, deliveries, token, most, until, group, since, reason } = entry;
    const told = { element, deadline, ttl, deliveries, leased: runs(entry, this.#now) ? 1 : 0, token };
    const own = { "deliveries-limit": most, until: until || null, group: group || null };
    return Object.entries({ ...told, ...own, "held-since": since, reason: reason || null }).flat();
  }

  #touch(it: Dehydrator, ms: number, [word = "", ...words]: string[]): Reply {
    if (words.length === 0 || word.toUpperCase() === "AT") {
      const entry = it.get(words.at(-1) ?? word);
      const deadline = words.length > 0 ? Number(words[0]) : this.#now + ms;
      if (entry !== undefined)
        it.touch(entry, entry.token !== null && words.length > 0 ? Math.max(ms, 1) : ms, deadline);
      return entry === undefined ? 0 : 1;
    }
    // About the new deadline is near enough, so that a loop ends.
    const deadline = this.#now + ms;
    const about = deadline - Math.min(Math.max(Math.floor(ms / 8), 1000), 60_000, Math.floor(ms / 2));
    const near = ms === 0 ? 0 : about;
    const others = it.of(words[0]!).filter((entry) => entry.deadline < near || entry.deadline > deadline);
    const moved = others.filter((entry) => !runs(entry, this.#now)).slice(0, MANY);
    for (const entry of moved) it.touch(entry, ms, deadline);
    return moved.length;
  }

  // Commands on a key.

  #range(key: string, start: string, options: Options): Reply {
    const most = options.number("COUNT") ?? Number.POSITIVE_INFINITY;
    // A page ends behind a moment.
    const low = start === "-" ? 0 : Number(start.slice(1)) + 1;
    const rows: Reply[] = [];
    let last = -1;
    for (const entry of this.#at(key).entries) {
      const { id, deadline, ttl, deliveries, element } = entry;
      if (deadline < low) continue;
      // Elements with the same deadline are not separated.
      if (rows.length >= most && deadline !== last) return [`(${last}`, rows];
      rows.push([id, deadline, ttl, deliveries, runs(entry, this.#now) ? 1 : 0, element]);
      last = deadline;
    }
    return [null, rows];
  }

  #pause(key: string, options: Options): Reply {
    const schedule = options.word("SCHEDULE");
    if (schedule !== undefined) {
      const found = this.#at(key).schedules.get(schedule);
      if (found === undefined) throw refused("ERR", `no such schedule '${schedule}'`);
      found.isPaused = true;
      return "OK";
    }
    this.#made(key).pauses.set(options.group, this.#now + (options.number("FOR") ?? Number.POSITIVE_INFINITY));
    return "OK";
  }

  #resume(key: string, options: Options): Reply {
    const [it, schedule] = [this.#at(key), options.word("SCHEDULE")];
    if (schedule !== undefined) {
      const found = it.schedules.get(schedule);
      if (!found?.isPaused) return 0;
      found.isPaused = false;
      return 1;
    }
    const { group } = options;
    const isPaused = it.isPaused(group, this.#now);
    it.pauses.delete(group);
    return isPaused ? 1 : 0;
  }

  #every(key: string, words: string[]): Reply {
    const name = words[2]!;
    const before = this.#at(key).schedules.get(name);
    if (before?.words === words.join("\0")) return 0;
    const schedule = scheduleOf(words, this.#now, before);
    this.#made(key).schedules.set(name, schedule);
    return 1;
  }

  #schedules(it: Dehydrator, names: readonly string[]): Reply {
    const rowAt = (name: string) => (it.schedules.has(name) ? rowOf(name, it.schedules.get(name)!) : null);
    if (names.length > 0) return names.map(rowAt);
    const next = ([, one]: [string, Schedule]) => one.next ?? Number.POSITIVE_INFINITY;
    return [...it.schedules].sort((one, other) => next(one) - next(other)).map(([name]) => rowAt(name));
  }

  #onDue(key: string, words: string[]): Reply {
    const isNew = words[0]?.toUpperCase() === "NX";
    if (isNew && this.#at(key).mostDeliveries > 0) return null;
    const [, , most, , dead, ...trim] = isNew ? words.slice(1) : words;
    if (dead === undefined) throw refused("ERR", "the server in memory knows HOLD DELIVERIES n STREAM dest");
    const deadLength = trim.length > 0 ? Number(trim.at(-1)) : 0;
    Object.assign(this.#made(key), { mostDeliveries: Number(most), dead, deadLength, isApproximate: trim[1] === "~" });
    return "OK";
  }

  #limit(key: string, words: string[]): Reply {
    const isEach = words[0]?.toUpperCase() === "EACH";
    const options = new Options(isEach ? words.slice(1) : words);
    const [group, share, remember] = [options.word("GROUP"), options.number("SHARE"), options.number("REMEMBER")];
    const [length, held, rate] = ["LENGTH", "HELD", "RATE"].map((name) => options.number(name));
    const it = this.#made(key);
    const caps: Partial<Caps> = rate === undefined ? {} : { rate, per: rate === 0 ? 0 : options.number("PER")! };
    if (length !== undefined) caps.length = length;
    if (held !== undefined) caps.held = held;
    if (group !== undefined) {
      const before = it.groups.get(group) ?? { length: 0, held: 0, rate: 0, per: 0, share: 1 };
      it.groups.set(group, { ...before, ...caps, share: share ?? before.share });
      return "OK";
    }
    Object.assign(isEach ? it.each : it.limits, caps);
    if (remember !== undefined) it.limits.remember = remember;
    if (remember === 0) it.remembered.clear();
    return "OK";
  }

  /** The fields that do not depend on the server's memory or history. */
  #info(it: Dehydrator, options: Options): Reply {
    const [now, group] = [this.#now, options.word("GROUP")];
    const entries = group === undefined ? it.entries : it.of(group);
    const until = it.pauses.get(group ?? "") ?? 0;
    const next = { length: entries.length, "next-deadline": entries[0]?.deadline ?? null };
    const paused = {
      paused: until > now ? 1 : 0,
      "paused-until": until > now && Number.isFinite(until) ? until : null,
    };
    if (group !== undefined) {
      const { share, ...caps } = it.capsOf(group);
      return Object.entries({ ...next, ...paused, share, ...told("", caps) }).flat();
    }
    const givenOut = entries.filter((entry) => entry.deliveries > 0).length;
    const leased = entries.filter((entry) => entry.token !== null).length;
    const { dead, mostDeliveries } = it;
    const policy = { action: "HOLD", deliveries: mostDeliveries, dest: dead, end: null, maxlen: it.deadLength };
    const more = { "dead-letters": dead && "STREAM", approximate: it.isApproximate ? 1 : 0, confirmed: 1 };
    return Object.entries({
      ...next,
      ...paused,
      due: entries.filter((entry) => entry.deadline <= now).length,
      ...{ "given-out": givenOut, leased, "given-back": givenOut - leased },
      policy: Object.entries({ ...policy, ...more }).flat(),
      ...told("", it.limits),
      remember: it.limits.remember,
      remembered: [...it.remembered.values()].filter((until) => until > now).length,
      ...told("each-", it.each),
      groups: new Set(entries.map((entry) => entry.group).filter((group) => group !== "")).size,
      schedules: it.schedules.size,
    }).flat();
  }
}

/** Returns the fields of INFO for limits. */
function told(scope: string, { length, held, rate, per }: Caps): Record<string, number> {
  const limit = (name: string) => `${scope}${name}`;
  const caps = { [limit("length-limit")]: length, [limit("held-limit")]: held };
  return { ...caps, [limit("rate-limit")]: rate, [limit("rate-per")]: per };
}

/** Returns what a POLL without elements replies. */
function blocks(keys: readonly string[], options: Options, nothing: Reply): Reply | Blocks {
  const ms = options.number("BLOCK");
  return ms === undefined ? nothing : new Blocks(keys, ms, nothing);
}
