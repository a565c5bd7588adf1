// A queue: what others put away for workers.

import { type Codec, json } from "./codec.js";
import type { DeadLetter, Id, Item, Waiting } from "./job.js";
import { type Client, type LibraryName, type Maker, makerOf, wireOf } from "./library.js";
import { Server } from "./server.js";
import { BATCH, type PutOptions, Verbs } from "./verbs.js";

/** For how many milliseconds a queue waits for a reply, on a connection where nothing sleeps. Then it makes another. */
export const REPLY = 5000;

export interface QueueOptions<T> {
  codec?: Codec<T>;
  /** The stream for dead letters: by default `jobs:dead` for `jobs`, and on a cluster `{jobs}:dead`, in its slot. */
  dead?: string;
  /** For how many milliseconds a command is sent again while the server is away. */
  patience?: number;
  /** Which library connects to a URL; without this the first of them that is installed. */
  library?: LibraryName;
}

/** Returns where the dead letters of a queue go: on a cluster, in the slot of the queue. */
export function deadOf(name: string, cluster: boolean): string {
  return cluster && !name.includes("{") ? `{${name}}:dead` : `${name}:dead`;
}

/**
 * Puts jobs away, and reads, postpones and cancels them by their ids.
 *
 * All commands are sent again when the connection breaks, for `patience`, and take effect once, but see `put`. Durations are
 * in milliseconds. A queue has a connection of its own from its first command on, until `close`.
 */
export class Queue<T = unknown> {
  readonly verbs: Verbs<T>;
  readonly server: Server;
  readonly #maker: Maker;

  /** Names a queue. `server`: a URL, or a client of ioredis or node-redis: the queue connects as that one does. */
  constructor(
    server: string | Client,
    readonly name: string,
    { codec = json<T>(), dead, patience = 10_000, library }: QueueOptions<T> = {},
  ) {
    this.#maker = makerOf(server, library);
    this.server = new Server(wireOf(this.#maker, REPLY), patience);
    this.verbs = new Verbs(name, dead ?? deadOf(name, this.#maker.cluster), codec);
  }

  /**
   * Puts a payload away; returns its id. Without an id one is drawn.
   *
   * An id that is there already stays as it was, and null is returned; with `replace` the new payload takes its place,
   * and its delay begins anew: a debounce.
   *
   * The id is free when a worker is done with the job. If a reply is lost and `put` sent again after that, the job is done
   * twice, unless the server remembers ids for a while: DEHYDRATOR.LIMIT key REMEMBER ms.
   */
  put(payload: T, options: PutOptions = {}): Promise<string | null> {
    return this.#ask(() => this.verbs.put(payload, options));
  }

  /**
   * Puts many away, a thousand in a command; returns for each what `put` would, and false if LIMIT LENGTH left no room.
   *
   * Those of one moment `at` share commands. If many have moments of their own, each is a command.
   */
  async putMany(
    items: Iterable<Item<T>> | AsyncIterable<Item<T>>,
    { replace = false } = {},
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
      const sending = [...moments].map(async ([at, places]) => {
        const question = this.verbs.putMany(
          places.map((n) => batch[n]!),
          replace,
          at,
        );
        for (const [i, id] of (await this.server.ask(question)).entries()) ids[start + places[i]!] = id;
      });
      await Promise.all(sending);
    };
    for await (const item of items) {
      if (some.push(item) === BATCH) await send();
    }
    if (some.length > 0) await send();
    return ids;
  }

  /** Removes jobs, whether they wait or a worker has them; returns how many were there. */
  async cancel(...ids: Id[]): Promise<number> {
    return ids.length === 0 ? 0 : this.server.ask(this.verbs.cancel(ids));
  }

  /** Sets when a job is due, in so many milliseconds or at a Date, later or earlier than it was; was it there? */
  postpone(id: Id, until: number | Date): Promise<boolean> {
    return this.#ask(() => this.verbs.postpone(id, until));
  }

  /** Returns what is known of a job, and leaves it as it is. */
  look(id: Id): Promise<Waiting<T> | null> {
    return this.server.ask(this.verbs.look(id));
  }

  /** Replaces a payload; the deadline stays. If there is no such id the server's error, NOSUCHID, is thrown. */
  update(id: Id, payload: T): Promise<void> {
    return this.#ask(() => this.verbs.update(id, payload));
  }

  /** Yields all that is in the queue, in the order of delivery, and takes nothing. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Waiting<T>> {
    for (let start: string | null = "-"; start !== null; ) {
      const { next, rows }: { next: string | null; rows: Waiting<T>[] } = await this.server.ask(this.verbs.page(start));
      yield* rows;
      start = next;
    }
  }

  /** Returns how many jobs there are: due, with workers, and waiting. */
  size(): Promise<number> {
    return this.server.ask(this.verbs.size());
  }

  /** Returns what DEHYDRATOR.INFO tells. */
  info(): Promise<Record<string, unknown>> {
    return this.server.ask(this.verbs.info());
  }

  /** Gives out nothing for so many milliseconds, or until `resume`. */
  pause(duration?: number): Promise<void> {
    return this.#ask(() => this.verbs.pause(duration));
  }

  /** Ends a pause; returns whether there was one. */
  resume(): Promise<boolean> {
    return this.server.ask(this.verbs.resume());
  }

  /** Returns the first of the dead letters, with the reasons. */
  deadLetters(count = 100): Promise<DeadLetter[]> {
    return this.server.ask(this.verbs.deadLetters(count));
  }

  /**
   * Puts the first dead letters away again, due at once; returns how many. One whose id is in the queue stays.
   *
   * If the reply is lost it is sent again, and so may do it for up to `count` more, and returns those alone.
   */
  revive(count = 100): Promise<number> {
    return this.server.ask(this.verbs.revive(count));
  }

  /** Throws ModuleMissingError or ModuleTooOldError, which say what to do, if the server cannot do this. */
  check(): Promise<void> {
    return this.server.check();
  }

  /** Closes the connection: without that the process does not end by itself. */
  close(): void {
    this.server.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  /** Returns the server by another connection, which waits for a reply for so many milliseconds. */
  another(timeout: number): Server {
    return new Server(wireOf(this.#maker, timeout), Number.POSITIVE_INFINITY);
  }

  /** What is wrong with arguments is a rejection too, and not thrown at once. */
  async #ask<A>(question: () => Parameters<Server["ask"]>[0]): Promise<A> {
    return (await this.server.ask(question())) as A;
  }
}
