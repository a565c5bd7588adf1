// A queue of jobs for workers.

import { inspect } from "node:util";
import { type Codec, json } from "./codec.js";
import { DehydratorError, QueueFullError } from "./errors.js";
import { Guarded, type Hooks, type Logger } from "./hooks.js";
import type { DeadLetter, Id, Item, OwnTerms, Put, PutOptions, Waiting } from "./job.js";
import { type Answer, type Keys, OneKey, type Part } from "./keys.js";
import { type Client, inSlot, type LibraryName, makerOf } from "./library.js";
import { type LimitOptions, type Limits, limitsOf, limitWords } from "./limits.js";
import { having, known, milliseconds, named, oneOf, unixMilliseconds, whole } from "./moment.js";
import { bytes } from "./reply.js";
import { type ScheduleOptions, Schedules } from "./schedules.js";
import type { Patience } from "./server.js";
import {
  ask,
  BATCH,
  BATCH_BYTES,
  EACH,
  type GroupOption,
  groupWords,
  type Policy,
  type Question,
  type Revival,
  type Revived,
  type Selection,
  type Timed,
  timedOf,
  Verbs,
  type Word,
} from "./verbs.js";
import { byEntry, checkedKeys, type KeyCount, ManyKeys } from "./wide/many_keys.js";
import { mergedInfo, mergedRows } from "./wide/merged.js";

/** What `new Queue` takes. */
export interface QueueOptions<T> {
  /** What makes bytes of payloads; by default `json()`. */
  codec?: Codec<T>;
  /** The stream for dead letters: by default `jobs:dead` for `jobs`, and on a cluster `{jobs}:dead`, in its slot. */
  dead?: string;
  /** For how many milliseconds a command is retried while the server is down; by default 10,000. */
  patience?: number;
  /** The library that connects to a URL; by default the first that is installed, ioredis or redis. */
  library?: LibraryName;
  /** Of these only `sending` is called, and `crashed`. */
  hooks?: Partial<Hooks>;
  /** Where to log that a hook has failed; by default standard error. */
  logger?: Logger;
  /**
   * Experimental. Spreads the queue over so many keys, or over one for each primary of a cluster. The first client of
   * the queue determines it; then `setKeys` does. By default, the queue is one key, its name.
   */
  keys?: KeyCount;
}

/** What a worker needs of a queue. */
interface Internals<T> {
  readonly keys: Keys<T>;
  /** The only key; undefined if there are several. */
  readonly one: OneKey<T> | undefined;
  /** Keeps the connections, also after `close`, until the returned function is called. */
  hold(): () => void;
}

let open: <T>(queue: Queue<T>) => Internals<T>;

/** Returns the stream of dead letters of a key: on a cluster, in its slot. */
export function deadOf(key: string, cluster: boolean): string {
  return `${cluster ? inSlot(key) : key}:dead`;
}

/**
 * Puts jobs into a queue, and reads, postpones and cancels them by their ids.
 *
 * All commands are resent when the connection breaks, for `patience`, and take effect once, but see `put`. Durations
 * are in milliseconds. A queue has a connection of its own from its first command on, until `close`.
 */
export class Queue<T = unknown> {
  readonly #internals: Internals<T>;
  /** What `every` made: `get(name)`, `remove(name)`, `pause(name)`, and `for await (const schedule of jobs.schedules)`. */
  readonly schedules: Schedules<T>;
  readonly #hooks: Guarded;
  #isClosed = false;
  #holders = 0;

  static {
    open = (queue) => queue.#internals;
  }

  /** Opens a queue. `server`: a URL, or a client of ioredis or node-redis: the queue connects in the same way. */
  constructor(
    server: string | Client,
    /** Its key in the server, if it has one. */
    readonly name: string,
    options: QueueOptions<T> = {},
  ) {
    known(options, "codec dead patience library hooks logger keys");
    const { codec = json<T>(), dead, patience = 10_000, library, hooks, logger, keys } = options;
    if (typeof name !== "string" || name === "") throw new TypeError("the `name` of a queue is a text, not empty");
    having(codec, "codec", "encode", "decode");
    if (dead !== undefined) named(dead, "dead");
    milliseconds(patience, "patience");
    if (keys !== undefined) checkedKeys(keys);
    if (library !== undefined) oneOf(library, "library", "ioredis", "redis");
    const maker = makerOf(server, library);
    this.#hooks = new Guarded(hooks, logger);
    if (keys !== undefined && dead !== undefined) {
      throw new TypeError("with `keys`, each key has its own stream of dead letters");
    }
    const verbsOf = (key: string) => new Verbs(key, dead ?? deadOf(key, maker.cluster), codec);
    const one = keys === undefined || maker.isMemory ? new OneKey(maker, verbsOf(name), patience) : undefined;
    const all = one ?? new ManyKeys(maker, name, keys!, verbsOf, patience);
    this.#internals = { keys: all, one, hold: () => this.#hold() };
    this.schedules = new Schedules(() => this.#keys.home);
  }

  /**
   * Puts a payload into the queue; returns its id. By default, an id is generated.
   *
   * An existing element with that id stays, and null is returned; with `replace` the new payload takes its place,
   * and its delay restarts: a debounce. A revived dead letter has no `within` or `attempts`.
   *
   * The id is free when the job is done. If a reply is lost and `put` is resent after that, the job is done
   * twice, unless the server remembers ids for a while: `limit({ remember: 300_000 })`.
   */
  async put(payload: T, options: PutOptions = {}, ...others: never[]): Promise<string | null> {
    if (others.length > 0) throw new TypeError("put(payload, options) takes no name: each name is a queue");
    known(options, `id delay at ${EACH}`);
    const timed = timedOf(options);
    const { keys } = await this.#ready();
    return this.#hooks.sending(this.name, [timed.id], (headers) =>
      keys.byId(timed.id, (verbs) => verbs.put({ ...timed, element: verbs.wrapped(payload, headers, options) })),
    );
  }

  /**
   * Puts many payloads, up to a thousand or a megabyte per command; returns for each its id, and whether it was
   * `stored`, the id `exists`, or the queue is `full`. Each has the options of `put`, besides those for all.
   *
   * Payloads with the same options share commands, whatever their delays: if many have different ones, each is a
   * command. What makes no sense is refused before its thousand is sent.
   */
  async putMany(
    items: Iterable<Item<T>> | AsyncIterable<Item<T>>,
    options: Pick<PutOptions, keyof OwnTerms | "replace"> = {},
  ): Promise<Put[]> {
    known(options, EACH);
    const { keys } = await this.#ready();
    const puts: Put[] = [];
    let some: Item<T>[] = [];
    const send = async () => {
      const [batch, start] = [some, puts.length];
      some = [];
      const names = batch.map(timedOf);
      const ids = names.map(({ id }) => id);
      await this.#hooks.sending(this.name, ids, async (headers) => {
        const { verbs } = keys.home;
        const timed = batch.map((one, n) => ({ ...names[n]!, element: verbs.wrapped(one.payload, headers, one) }));
        const sending = together(timed).map(async (places) => {
          const of = (some: readonly number[]) => some.map((i) => timed[places[i]!]!);
          const own = places.map((n) => ids[n]!);
          for (const { places: some, answer } of await keys.byIds(own, (verbs, some) => verbs.putMany(of(some)))) {
            for (const [i, put] of answer.entries()) puts[start + places[some[i]!]!] = put;
          }
        });
        await Promise.all(sending);
      });
    };
    for await (const item of items) {
      known(item, `payload id delay at ${EACH}`, "item");
      if (some.push({ ...options, ...item }) === BATCH) await send();
    }
    if (some.length > 0) await send();
    return puts;
  }

  /**
   * Makes a schedule: the server puts a job with this payload again and again. Returns whether that is new: the same
   * again changes nothing.
   *
   * Call it at each deployment. The ids of the jobs are `name@milliseconds`.
   */
  async every(name: Id, payload: T, options: ScheduleOptions): Promise<boolean> {
    await this.#ready();
    return this.schedules.every(name, payload, options);
  }

  /** Removes jobs, waiting or with a worker; returns how many existed. */
  async cancel(...ids: Id[]): Promise<number> {
    if (ids.length === 0) return 0;
    for (const id of ids) named(id, "id");
    const of = (places: readonly number[]) => places.map((n) => ids[n]!);
    return sum((await this.#keys.byIds(ids, (verbs, some) => verbs.on("REM", of(some), Number))).map(answerOf));
  }

  /**
   * Removes the jobs of a group, or all whose ids have a prefix, waiting or with a worker; returns how many.
   *
   * A thousand are removed at a time. To remove what is there at one moment, pause the group first. If a reply is lost,
   * the command is resent, and counts only how many were left.
   */
  async cancelAll(selection: Selection): Promise<number> {
    const [name, value] = one(selection, "group", "prefix");
    if (name === "group") return this.#repeated((verbs) => verbs.on("PURGE", ["GROUP", value], Number));
    let total = 0;
    for (const { verbs, server } of await this.#keys.parts()) {
      for (let cursor: string | null = "0"; cursor !== null; ) {
        const { next, ids }: { next: string | null; ids: Buffer[] } = await server.ask(verbs.scan(cursor, value));
        total += await this.cancel(...ids);
        cursor = next;
      }
    }
    return total;
  }

  /**
   * Sets the deadlines, in milliseconds from now, of the jobs of a group; returns how many. Jobs with a worker stay as they
   * are, and those whose deadline is about that already: up to an eighth of the delay earlier, from a second to a minute. A
   * thousand are set at a time, as with `cancelAll`.
   */
  async postponeAll(selection: { group: Id }, delay: number): Promise<number> {
    const words = [milliseconds(delay, "delay"), "GROUP", one(selection, "group")[1]];
    return this.#repeated((verbs) => verbs.on("TOUCH", words, Number));
  }

  /** Repeats a command that changes some jobs until it has changed all; returns how many. */
  async #repeated(make: (verbs: Verbs<T>) => Question<number>): Promise<number> {
    for (let total = 0; ; ) {
      const changed = sum(await this.#keys.each(make));
      if (changed === 0) return total;
      total += changed;
    }
  }

  /** Sets the deadline of a job, in milliseconds from now or as a Date; returns whether it existed. */
  async postpone(id: Id, until: number | Date): Promise<boolean> {
    // A ttl of 0 would take the element from its worker; a millisecond does not.
    const timer =
      until instanceof Date ? [1, "AT", unixMilliseconds(until, "until")] : [Math.max(1, milliseconds(until, "until"))];
    return this.#keys.byId(named(id, "id"), (verbs) => verbs.on("TOUCH", [...timer, id], isOne));
  }

  /** Reads a job, without changing it; returns null if there is none. */
  async look(id: Id): Promise<Waiting<T> | null> {
    return this.#keys.byId(named(id, "id"), (verbs) => verbs.look(id));
  }

  /** Replaces a payload; deadline and `timeout` stay. Throws NotFoundError if the id does not exist. */
  async update(id: Id, payload: T): Promise<void> {
    const { headers } = (await this.look(id)) ?? {};
    return this.#keys.byId(id, (verbs) => verbs.on("UPDATE", [id, verbs.wrapped(payload, headers)], () => {}));
  }

  /** Yields everything in the queue, in the order of delivery, without taking anything. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Waiting<T>> {
    const [first, ...others] = await this.#keys.parts();
    if (first === undefined || others.length === 0) yield* rowsOf(first!);
    else yield* mergedRows([first, ...others].map(rowsOf));
  }

  /** Returns the number of jobs: due, with workers, and waiting. */
  async size(): Promise<number> {
    return sum(await this.#keys.each((verbs) => verbs.size()));
  }

  /** Returns the fields of DEHYDRATOR.INFO, of the queue or a group; the jobs without one are the group `""`. */
  async info(of: GroupOption = {}, how: Patience = {}): Promise<Record<string, unknown>> {
    const [first, ...others] = await this.#keys.each((verbs) => verbs.info(of), how);
    return others.length === 0 ? first! : mergedInfo([first!, ...others]);
  }

  /** Pauses deliveries, of all or a group, for this many milliseconds from 1 on, or until `resume`. */
  async pause(duration?: number, of: GroupOption = {}): Promise<void> {
    const words: Word[] = duration === undefined ? [] : ["FOR", milliseconds(duration, "duration", 1)];
    words.push(...groupWords(of));
    await this.#keys.each((verbs) => verbs.on("PAUSE", words, () => {}));
  }

  /** Ends the pause of the queue or of a group, not both; returns whether there was one. */
  async resume(of: GroupOption = {}): Promise<boolean> {
    const words = groupWords(of);
    return (await this.#keys.each((verbs) => verbs.on("RESUME", words, isOne))).some(Boolean);
  }

  /** Limits length, concurrency and rate, of the queue, of a group or of each; null removes a limit. */
  async limit(options: LimitOptions): Promise<void> {
    for (const words of limitWords(options)) await this.#keys.each((verbs) => verbs.on("LIMIT", words, () => {}));
  }

  /** Returns the limits of the queue, or those that apply to a group. Of a queue of several keys: of its first one. */
  async limits(of: GroupOption = {}): Promise<Limits> {
    const { server, verbs } = this.#keys.home;
    return limitsOf(await server.ask(verbs.info(of)));
  }

  /**
   * Sets after how many attempts jobs without their own are dead letters, and about how many of these are kept. The
   * first worker of a queue does so; then only this changes it, also for workers that run. The back-off is each worker's.
   */
  async setPolicy(policy: Policy): Promise<void> {
    known(policy, "attempts keepDead");
    await this.#keys.each((verbs) => verbs.onDue(policy));
  }

  /** Returns the first dead letters, by default a hundred, with the reasons. */
  async deadLetters(count = 100): Promise<DeadLetter<T>[]> {
    whole(count, "count", 1);
    const parts = await this.#keys.parts();
    const some = parts.map(async (part) => {
      return part.server.ask(part.verbs.deadLetters(await streamOf(part), count));
    });
    const letters = (await Promise.all(some)).flat();
    return parts.length === 1 ? letters : letters.sort(byEntry).slice(0, count);
  }

  /**
   * Puts the first dead letters back into the queue, by default a hundred, or these, due at once; returns how many. One
   * whose id is in the queue stays. With `payload`, one letter gets another.
   *
   * If the reply is lost, it is resent, and so may revive more than the first `count`, and returns only those.
   */
  async revive(
    which: number | readonly (Pick<DeadLetter, "key" | "entry"> & Partial<DeadLetter>)[] = 100,
    edited: { payload?: T } = {},
  ): Promise<number> {
    known(edited, "payload");
    const isEdited = "payload" in edited;
    const letters = typeof which === "object" ? lettersOf(which, "which") : undefined;
    const count = letters === undefined ? whole(which as number, "which", 1) : letters.length;
    if (isEdited && (letters === undefined || count !== 1)) throw new TypeError("a `payload` is for one letter");
    let total = 0;
    for (const part of await this.#keys.parts()) {
      if (letters !== undefined) {
        const own = letters.filter(({ key }) => key === part.verbs.key);
        const named = own.map(({ entry }) => entry);
        const element = isEdited ? part.verbs.wrapped(edited.payload as T, own[0]?.headers) : undefined;
        if (named.length > 0) total += (await this.#keys.revive(part, { named, element, count })).revived;
        continue;
      }
      for (let from: string | null | undefined; from !== null && total < count; ) {
        const some: Revival = { count: Math.min(BATCH, count - total), from: from ?? null };
        const found: Revived | null = await this.#keys.revive(part, some).catch((error) => {
          // There is no stream; or no room for more.
          if (/^NORULE/.test(error.message) || (error instanceof QueueFullError && total > 0)) return null;
          throw error;
        });
        total += found?.revived ?? 0;
        from = found?.next ?? null;
      }
    }
    return total;
  }

  /** Drops dead letters; returns how many existed. */
  async dropDeadLetters(letters: readonly Pick<DeadLetter, "key" | "entry">[]): Promise<number> {
    lettersOf(letters, "letters");
    const some = (await this.#keys.parts()).map(async (part) => {
      const entries = letters.filter(({ key }) => key === part.verbs.key).map(({ entry }) => entry);
      return entries.length === 0 ? 0 : part.server.ask(ask(["XDEL", await streamOf(part), ...entries], Number));
    });
    return sum(await Promise.all(some));
  }

  /**
   * Changes the number of keys while the queue is in use, and returns their names.
   *
   * No job is moved: those in former keys stay there until they are done. Then call `forgetKeys`.
   */
  async setKeys(keys: KeyCount): Promise<string[]> {
    return this.#many().setKeys(keys);
  }

  /** Drops former keys if nothing is left there; returns how many jobs and dead letters are left. */
  async forgetKeys(): Promise<number> {
    return this.#many().forgetKeys();
  }

  /** Throws ModuleMissingError or ModuleTooOldError, which explain what to do, if the server lacks support. */
  async check(): Promise<void> {
    await Promise.all((await this.#keys.parts()).map(({ server }) => server.check()));
  }

  /**
   * Ends the use of the queue, and its connection: otherwise the process does not end by itself. A worker that runs
   * keeps the connection until it has ended.
   */
  close(): void {
    this.#isClosed = true;
    if (this.#holders === 0) this.#internals.keys.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  get #keys(): Keys<T> {
    if (this.#isClosed) throw new DehydratorError("the queue was closed");
    return this.#internals.keys;
  }

  /** Returns the keys, when it is known that jobs that are put there are looked for. */
  async #ready(): Promise<{ keys: Keys<T> }> {
    const keys = this.#keys;
    await keys.checkAlone();
    return { keys };
  }

  #hold(): () => void {
    // What is closed throws here.
    void this.#keys;
    this.#holders += 1;
    return () => {
      this.#holders -= 1;
      if (this.#isClosed && this.#holders === 0) this.#internals.keys.close();
    };
  }

  #many(): ManyKeys<T> {
    const keys = this.#keys;
    if (keys instanceof ManyKeys) return keys;
    throw new DehydratorError(`${this.name} is one key: open the queue with \`keys\``);
  }
}

/** Returns what a worker needs of a queue. */
export function internals<T>(queue: Queue<T>): Internals<T> {
  return open(queue);
}

/** Groups what one command can put, with the same options and of limited size; returns the places. */
function together(timed: readonly Timed[]): number[][] {
  const parts: number[][] = [];
  const open = new Map<string, { places: number[]; left: number }>();
  for (const [n, { element, words }] of timed.entries()) {
    const options = words.map((word) => bytes(word).toString("latin1")).join("\0");
    let part = open.get(options);
    if (part === undefined || part.left < element.length) {
      part = { places: [], left: BATCH_BYTES };
      open.set(options, part);
      parts.push(part.places);
    }
    part.places.push(n);
    part.left -= element.length;
  }
  return parts;
}

/** Returns the stream of dead letters of a key: that of its policy, or else that which a worker sets. */
async function streamOf<T>({ server, verbs }: Part<T>): Promise<string> {
  const { policy } = (await server.ask(verbs.info())) as { policy?: Record<string, unknown> };
  return policy?.["dead-letters"] === "STREAM" ? String(policy.dest) : verbs.dead;
}

/** Yields what a key holds, page by page. */
async function* rowsOf<T>({ server, verbs }: Part<T>): AsyncGenerator<Waiting<T>> {
  for (let start: string | null = "-"; start !== null; ) {
    const { next, rows }: { next: string | null; rows: Waiting<T>[] } = await server.ask(verbs.page(start));
    yield* rows;
    start = next;
  }
}

/** Returns which of some properties a selection has, and its value. An `undefined` must not select everything. */
function one(selection: object, ...names: string[]): [name: string, value: Id] {
  known(selection, names.join(" "));
  const [only, ...others] = Object.entries(selection);
  if (only === undefined || others.length > 0) throw new TypeError(`name either a ${names.join(" or a ")}`);
  return [only[0], named(only[1], only[0], only[0] === "prefix" ? 0 : 1)];
}

/** Returns dead letters, and refuses what is none, such as ids. */
function lettersOf<L extends Pick<DeadLetter, "key" | "entry">>(letters: readonly L[], name: string): readonly L[] {
  const isLetter = (one: L) => typeof one?.key === "string" && typeof one.entry === "string";
  if (Array.isArray(letters) && letters.every(isLetter)) return letters;
  throw new TypeError(`\`${name}\` is a list of letters of deadLetters(), and not ${inspect(letters)}`);
}

function isOne(reply: unknown): boolean {
  return reply === 1;
}

function answerOf<A>({ answer }: Answer<A>): A {
  return answer;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
