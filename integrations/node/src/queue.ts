// A queue of jobs for workers.

import { randomUUID } from "node:crypto";
import { type Codec, json } from "./codec.js";
import { Guarded, type Hooks } from "./hooks.js";
import type { DeadLetter, Id, Item, Waiting } from "./job.js";
import { type Client, type LibraryName, type Maker, makerOf, wireOf } from "./library.js";
import { Server } from "./server.js";
import { BATCH, type GroupOption, type OwnTerms, type PutOptions, type Selection, Verbs } from "./verbs.js";

/** How many milliseconds a queue waits for a reply on a connection without blocking commands. Then it opens another. */
export const REPLY = 5000;

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
}

/** Returns the stream of a queue's dead letters: on a cluster, in the slot of the queue. */
export function deadOf(name: string, cluster: boolean): string {
  return cluster && !name.includes("{") ? `{${name}}:dead` : `${name}:dead`;
}

/**
 * Puts jobs into a queue, and reads, postpones and cancels them by their ids.
 *
 * All commands are resent when the connection breaks, for `patience`, and take effect once, but see `put`. Durations
 * are in milliseconds. A queue has a connection of its own from its first command on, until `close`.
 */
export class Queue<T = unknown> {
  readonly verbs: Verbs<T>;
  readonly server: Server;
  readonly #maker: Maker;
  readonly #hooks: Guarded;

  /** Opens a queue. `server`: a URL, or a client of ioredis or node-redis: the queue connects in the same way. */
  constructor(
    server: string | Client,
    readonly name: string,
    { codec = json<T>(), dead, patience = 10_000, library, hooks }: QueueOptions<T> = {},
  ) {
    this.#maker = makerOf(server, library);
    this.#hooks = new Guarded(hooks);
    this.server = new Server(wireOf(this.#maker, REPLY), patience);
    this.verbs = new Verbs(name, dead ?? deadOf(name, this.#maker.cluster), codec);
  }

  /**
   * Puts a payload into the queue; returns its id. By default, an id is generated.
   *
   * An existing element with that id stays, and null is returned; with `replace` the new payload takes its place,
   * and its delay restarts: a debounce. A revived dead letter has no `within`, `attempts` or `group`.
   *
   * The id is free when the job is done. If a reply is lost and `put` is resent after that, the job is done
   * twice, unless the server remembers ids for a while: DEHYDRATOR.LIMIT key REMEMBER ms.
   */
  put(payload: T, options: PutOptions = {}): Promise<string | null> {
    const id = options.id ?? randomUUID();
    const drawn = options.id === undefined ? String(id) : undefined;
    return this.#hooks.sending(this.name, [id], (headers) =>
      this.#ask(() => this.verbs.put(payload, options, headers, drawn)),
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
            const some = places.map((n) => batch[n]!);
            const question = this.verbs.putMany(some, replace, at, headers, terms);
            for (const [i, id] of (await this.server.ask(question)).entries()) ids[start + places[i]!] = id;
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

  /** Removes jobs, waiting or with a worker; returns how many existed. */
  async cancel(...ids: Id[]): Promise<number> {
    return ids.length === 0 ? 0 : this.server.ask(this.verbs.cancel(ids));
  }

  /**
   * Removes the jobs of a group, or all whose ids have a prefix, waiting or with a worker; returns how many.
   *
   * If the reply is lost, it is resent, and returns only how many were left.
   */
  cancelAll(selection: Selection): Promise<number> {
    return this.#ask(() => this.verbs.cancelAll(selection));
  }

  /**
   * Sets the deadlines, in milliseconds from now, of the jobs of a group, or of all whose ids have a prefix; returns how
   * many. Jobs with a worker stay as they are. If the reply is lost, it is resent, as with `cancelAll`.
   */
  postponeAll(selection: Selection, delay: number): Promise<number> {
    return this.#ask(() => this.verbs.postponeAll(selection, delay));
  }

  /** Sets the deadline of a job, in milliseconds from now or as a Date; returns whether it existed. */
  postpone(id: Id, until: number | Date): Promise<boolean> {
    return this.#ask(() => this.verbs.postpone(id, until));
  }

  /** Reads a job, without changing it. */
  look(id: Id): Promise<Waiting<T> | null> {
    return this.server.ask(this.verbs.look(id));
  }

  /** Replaces a payload; the deadline stays. If the id does not exist, the server's error, NOSUCHID, is thrown. */
  update(id: Id, payload: T): Promise<void> {
    return this.#ask(() => this.verbs.update(id, payload));
  }

  /** Yields everything in the queue, in the order of delivery, without taking anything. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Waiting<T>> {
    for (let start: string | null = "-"; start !== null; ) {
      const { next, rows }: { next: string | null; rows: Waiting<T>[] } = await this.server.ask(this.verbs.page(start));
      yield* rows;
      start = next;
    }
  }

  /** Returns the number of jobs: due, with workers, and waiting. */
  size(): Promise<number> {
    return this.server.ask(this.verbs.size());
  }

  /** Returns the fields of DEHYDRATOR.INFO, of the queue or a group. */
  info(of: GroupOption = {}): Promise<Record<string, unknown>> {
    return this.server.ask(this.verbs.info(of));
  }

  /** Pauses deliveries, of all or a group, for this many milliseconds, or until `resume`. */
  pause(duration?: number, of: GroupOption = {}): Promise<void> {
    return this.#ask(() => this.verbs.pause(duration, of));
  }

  /** Ends the pause of the queue or of a group, not both; returns whether there was one. */
  resume(of: GroupOption = {}): Promise<boolean> {
    return this.server.ask(this.verbs.resume(of));
  }

  /** Returns the first dead letters, with the reasons. */
  deadLetters(count = 100): Promise<DeadLetter[]> {
    return this.server.ask(this.verbs.deadLetters(count));
  }

  /**
   * Puts the first dead letters back into the queue, due at once; returns how many. One whose id is in the queue stays.
   *
   * If the reply is lost, it is resent, and so may revive up to `count` more, and returns only those.
   */
  revive(count = 100): Promise<number> {
    return this.server.ask(this.verbs.revive(count));
  }

  /** Throws ModuleMissingError or ModuleTooOldError, which explain what to do, if the server lacks support. */
  check(): Promise<void> {
    return this.server.check();
  }

  /** Closes the connection: otherwise the process does not end by itself. */
  close(): void {
    this.server.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  /** Returns the server on another connection, with this timeout for replies in milliseconds. */
  another(timeout: number): Server {
    return new Server(wireOf(this.#maker, timeout), Number.POSITIVE_INFINITY);
  }

  /** Invalid arguments reject too, instead of throwing at once. */
  async #ask<A>(question: () => Parameters<Server["ask"]>[0]): Promise<A> {
    return (await this.server.ask(question())) as A;
  }
}
