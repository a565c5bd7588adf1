// A queue of jobs for workers.

import { randomUUID } from "node:crypto";
import { type Codec, json } from "./codec.js";
import { DehydratorError } from "./errors.js";
import { Guarded, type Hooks } from "./hooks.js";
import type { DeadLetter, Id, Item, Waiting } from "./job.js";
import { type Answer, type Keys, OneKey, type Part } from "./keys.js";
import { type Client, type LibraryName, makerOf } from "./library.js";
import type { ScheduleOptions } from "./plan.js";
import { type Schedule, Schedules } from "./schedules.js";
import type { Patience, Server } from "./server.js";
import {
  BATCH,
  type GroupOption,
  type OwnTerms,
  type PutOptions,
  type Question,
  type Selection,
  Verbs,
} from "./verbs.js";
import { mergedInfo } from "./wide/info.js";
import { byEntry, type KeyCount, ManyKeys } from "./wide/many_keys.js";
import { mergedRows } from "./wide/merged.js";

export interface QueueOptions<T> {
  codec?: Codec<T>;
  /** The stream for dead letters: by default `jobs:dead` for `jobs`, and on a cluster `{jobs}:dead`, in its slot. */
  dead?: string;
  /** For how many milliseconds a command is retried while the server is down. */
  patience?: number;
  /** The library that connects to a URL; by default the first that is installed. */
  library?: LibraryName;
  /** Of these only `sending` is called, and `crashed`. */
  hooks?: Partial<Hooks>;
  /**
   * Spreads the queue over so many keys, or over one for each primary of a cluster. The first client of the queue
   * determines it; then `setKeys` does. By default, the queue is one key, its name.
   */
  keys?: KeyCount;
}

/** Returns another key of a queue: on a cluster, in its slot. */
function beside(name: string, cluster: boolean, suffix: string): string {
  return cluster && !name.includes("{") ? `{${name}}:${suffix}` : `${name}:${suffix}`;
}

/**
 * Puts jobs into a queue, and reads, postpones and cancels them by their ids.
 *
 * All commands are resent when the connection breaks, for `patience`, and take effect once, but see `put`. Durations
 * are in milliseconds. A queue has a connection of its own from its first command on, until `close`.
 */
export class Queue<T = unknown> {
  readonly #keys: Keys<T>;
  readonly #one: OneKey<T> | undefined;
  /** What `every` made: `get(name)`, `remove(name)`, `pause(name)`, and `for await (const schedule of jobs.schedules)`. */
  readonly schedules: Schedules<T>;
  readonly #hooks: Guarded;

  /** Opens a queue. `server`: a URL, or a client of ioredis or node-redis: the queue connects in the same way. */
  constructor(
    server: string | Client,
    readonly name: string,
    { codec = json<T>(), dead, patience = 10_000, library, hooks, keys }: QueueOptions<T> = {},
  ) {
    const maker = makerOf(server, library);
    this.#hooks = new Guarded(hooks);
    if (keys !== undefined) {
      if (dead !== undefined) throw new TypeError("with `keys`, each key has its own stream of dead letters");
      this.#keys = new ManyKeys(maker, name, keys, (key) => new Verbs(key, `${key}:dead`, codec), patience);
    } else {
      const verbs = new Verbs(name, dead ?? beside(name, maker.cluster, "dead"), codec);
      this.#keys = this.#one = new OneKey(maker, verbs, patience);
    }
    this.schedules = new Schedules(beside(this.home.verbs.key, maker.cluster, "schedules"), this.#keys);
  }

  /** The commands of the queue, if it is one key. */
  get verbs(): Verbs<T> {
    return this.#only().verbs;
  }

  get server(): Server {
    return this.#only().server;
  }

  /**
   * Puts a payload into the queue; returns its id. By default, an id is generated.
   *
   * An existing element with that id stays, and null is returned; with `replace` the new payload takes its place,
   * and its delay restarts: a debounce. A revived dead letter has no `within` or `attempts`.
   *
   * The id is free when the job is done. If a reply is lost and `put` is resent after that, the job is done
   * twice, unless the server remembers ids for a while: DEHYDRATOR.LIMIT key REMEMBER ms.
   */
  put(payload: T, options: PutOptions = {}): Promise<string | null> {
    const id = options.id ?? randomUUID();
    const drawn = options.id === undefined ? String(id) : undefined;
    return this.#hooks.sending(this.name, [id], (headers) =>
      this.#keys.byId(id, (verbs) => verbs.put(payload, options, headers, drawn)),
    );
  }

  /**
   * Puts many payloads, a thousand per command; returns for each what `put` would, and false at LIMIT LENGTH.
   *
   * Payloads with the same `at` share commands. If many have different ones, each is a command. `within`, `attempts`
   * and `group` are those of each.
   */
  async putMany(
    items: Iterable<Item<T>> | AsyncIterable<Item<T>>,
    { replace = false, ...terms }: { replace?: boolean } & OwnTerms = {},
  ): Promise<(string | null | false)[]> {
    const ids: (string | null | false)[] = [];
    let some: Item<T>[] = [];
    const send = async () => {
      const [batch, start] = [some, ids.length];
      some = [];
      const moments = new Map<number | undefined, number[]>();
      for (const [n, { at }] of batch.entries()) {
        const moment = at === undefined ? undefined : Number(at);
        const places = moments.get(moment);
        if (places === undefined) moments.set(moment, [n]);
        else places.push(n);
      }
      const named = batch.map((item) => item.id);
      await this.#hooks.sending(this.name, named, (headers) =>
        Promise.all(
          [...moments].map(async ([at, places]) => {
            const names = places.map((n) => batch[n]!.id ?? randomUUID());
            const answers = await this.#keys.byIds(names, (verbs, some) => {
              const items = some.map((i) => batch[places[i]!]!);
              const itsNames = some.map((i) => names[i]!);
              return verbs.putMany(items, replace, at, headers, terms, itsNames);
            });
            for (const { places: some, answer } of answers) {
              for (const [i, id] of answer.entries()) ids[start + places[some[i]!]!] = id;
            }
          }),
        ),
      );
    };
    for await (const item of items) {
      if (some.push(item) === BATCH) await send();
    }
    if (some.length > 0) await send();
    return ids;
  }

  /**
   * Makes a schedule, which puts a job with this payload again and again; returns it as it is. It needs croner.
   *
   * Call it at each deployment: a schedule with that name is changed if anything of it is different, and stays as it is
   * if not. The workers of the queue put the jobs, whose ids are `name@milliseconds`.
   */
  every(name: Id, payload: T, options: ScheduleOptions): Promise<Schedule<T>> {
    return this.schedules.every(name, payload, options);
  }

  /** Removes jobs, waiting or with a worker; returns how many existed. */
  async cancel(...ids: Id[]): Promise<number> {
    if (ids.length === 0) return 0;
    return sum((await this.#keys.byIds(ids, (verbs, some) => verbs.cancel(some.map((n) => ids[n]!)))).map(answerOf));
  }

  /**
   * Removes the jobs of a group, or all whose ids have a prefix, waiting or with a worker; returns how many.
   *
   * A thousand are removed at a time. To remove what is there at one moment, pause the group first. If a reply is lost,
   * the command is resent, and counts only how many were left.
   */
  async cancelAll(selection: Selection): Promise<number> {
    if ("group" in selection === "prefix" in selection)
      throw new TypeError("name either a `group` or a `prefix` of ids");
    if ("group" in selection) return this.#repeated((verbs) => verbs.cancelGroup(selection.group));
    let total = 0;
    for (const { verbs, server } of await this.#keys.parts()) {
      for (let cursor: string | null = "0"; cursor !== null; ) {
        const { next, ids }: { next: string | null; ids: Buffer[] } = await server.ask(
          verbs.scan(cursor, selection.prefix),
        );
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
  async postponeAll({ group }: { group: string | Uint8Array }, delay: number): Promise<number> {
    return this.#repeated((verbs) => verbs.postponeGroup(group, delay));
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
  postpone(id: Id, until: number | Date): Promise<boolean> {
    return this.#keys.byId(id, (verbs) => verbs.postpone(id, until));
  }

  /** Reads a job, without changing it. */
  look(id: Id): Promise<Waiting<T> | null> {
    return this.#keys.byId(id, (verbs) => verbs.look(id));
  }

  /** Replaces a payload; the deadline stays. If the id does not exist, the server's error, NOSUCHID, is thrown. */
  update(id: Id, payload: T): Promise<void> {
    return this.#keys.byId(id, (verbs) => verbs.update(id, payload));
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

  /** Returns the fields of DEHYDRATOR.INFO, of the queue or a group. */
  async info(of: GroupOption = {}, how: Patience = {}): Promise<Record<string, unknown>> {
    const [first, ...others] = await this.#keys.each((verbs) => verbs.info(of), how);
    return others.length === 0 ? first! : mergedInfo([first!, ...others]);
  }

  /** Pauses deliveries, of all or a group, for this many milliseconds, or until `resume`. */
  async pause(duration?: number, of: GroupOption = {}): Promise<void> {
    await this.#keys.each((verbs) => verbs.pause(duration, of));
  }

  /** Ends the pause of the queue or of a group, not both; returns whether there was one. */
  async resume(of: GroupOption = {}): Promise<boolean> {
    return (await this.#keys.each((verbs) => verbs.resume(of))).some(Boolean);
  }

  /** Returns the first dead letters, with the reasons. */
  async deadLetters(count = 100): Promise<DeadLetter[]> {
    const letters = (await this.#keys.each((verbs) => verbs.deadLetters(count))).flat();
    return this.#one === undefined ? letters.sort(byEntry).slice(0, count) : letters;
  }

  /**
   * Puts the first dead letters back into the queue, due at once; returns how many. One whose id is in the queue stays.
   *
   * If the reply is lost, it is resent, and so may revive up to `count` more, and returns only those.
   */
  revive(count = 100): Promise<number> {
    return this.#keys.revive(count);
  }

  /**
   * Changes the number of keys while the queue is in use, and returns their names.
   *
   * No job is moved: those in former keys stay there until they are done. Then call `forgetKeys`.
   */
  setKeys(keys: KeyCount): Promise<string[]> {
    return this.#many().setKeys(keys);
  }

  /** Drops former keys if nothing is left there; returns how many jobs and dead letters are left. */
  forgetKeys(): Promise<number> {
    return this.#many().forgetKeys();
  }

  /** Throws ModuleMissingError or ModuleTooOldError, which explain what to do, if the server lacks support. */
  async check(): Promise<void> {
    await Promise.all((await this.#keys.parts()).map(({ server }) => server.check()));
  }

  /** Returns the keys of the queue at present, with those that are no longer used for new jobs. */
  parts(how?: Patience): Promise<readonly Part<T>[]> {
    return this.#keys.parts(how);
  }

  /** Its only key; undefined if the queue has several, or had. */
  get part(): OneKey<T> | undefined {
    return this.#one;
  }

  /** The key in which its schedules put jobs. */
  get home(): Part<T> {
    return this.#keys.home;
  }

  /** Closes the connection: otherwise the process does not end by itself. */
  close(): void {
    this.#keys.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  #only(): OneKey<T> {
    if (this.#one !== undefined) return this.#one;
    throw new DehydratorError(`${this.name} has several keys`);
  }

  #many(): ManyKeys<T> {
    if (this.#keys instanceof ManyKeys) return this.#keys;
    throw new DehydratorError(`${this.name} is one key: open the queue with \`keys\``);
  }
}

/** Yields what a key holds, page by page. */
async function* rowsOf<T>({ server, verbs }: Part<T>): AsyncGenerator<Waiting<T>> {
  for (let start: string | null = "-"; start !== null; ) {
    const { next, rows }: { next: string | null; rows: Waiting<T>[] } = await server.ask(verbs.page(start));
    yield* rows;
    start = next;
  }
}

function answerOf<A>({ answer }: Answer<A>): A {
  return answer;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
