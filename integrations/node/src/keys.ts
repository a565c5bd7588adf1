// The keys of a queue: one here, several in wide/.

import type { Id } from "./job.js";
import { type Maker, wireOf } from "./library.js";
import { type Patience, Server } from "./server.js";
import type { Question, Verbs } from "./verbs.js";

/** How many milliseconds a queue waits for a reply on a connection without blocking commands. Then it opens another. */
export const REPLY = 5000;

/** One key of a queue: its commands, and the server that has it. */
export interface Part<T> {
  /** The name of the queue. */
  readonly queue: string;
  readonly verbs: Verbs<T>;
  readonly server: Server;
  /** Returns the server on another connection, with this timeout for replies in milliseconds. */
  another(timeout: number): Server;
}

/** Makes a question for a key. */
export type Make<T, A> = (verbs: Verbs<T>) => Question<A>;

export type Ask = <A>(question: Question<A>) => Promise<A>;

/** The reply about some of several ids, with their places among them. */
export interface Answer<A> {
  readonly places: readonly number[];
  readonly answer: A;
}

/** Sends commands to the keys that they are about. */
export interface Keys<T> {
  byId<A>(id: Id, make: Make<T, A>): Promise<A>;
  /** Asks about ids, of each key together. */
  byIds<A>(ids: readonly Id[], make: (verbs: Verbs<T>, places: readonly number[]) => Question<A>): Promise<Answer<A>[]>;
  /** Asks each key. */
  each<A>(make: Make<T, A>, how?: Patience): Promise<A[]>;
  parts(how?: Patience): Promise<readonly Part<T>[]>;
  /** The key beside which the schedules of the queue are, and in which their jobs are put. */
  readonly home: Part<T>;
  /** Asks a question of a script that puts jobs there. If these ids belong to other keys, `make` is given others. */
  atHome<A>(ids: readonly Buffer[], make: (ids: readonly Buffer[]) => Question<A>, ask: Ask): Promise<A>;
  /** Puts the first dead letters back; returns how many. */
  revive(count: number): Promise<number>;
  close(): void;
}

/** The only key of a queue. */
export class OneKey<T> implements Keys<T>, Part<T> {
  readonly queue: string;
  /** The cluster's hash tag, by which it can be polled together with other keys; empty for a single server. */
  readonly tag: string;
  readonly server: Server;

  constructor(
    private readonly maker: Maker,
    readonly verbs: Verbs<T>,
    patience: number,
  ) {
    this.queue = verbs.key;
    this.tag = maker.cluster ? (/\{(.+?)\}/.exec(verbs.key)?.[1] ?? verbs.key) : "";
    this.server = new Server(wireOf(maker, REPLY), patience);
  }

  async byId<A>(_: Id, make: Make<T, A>): Promise<A> {
    return this.server.ask(make(this.verbs));
  }

  async byIds<A>(
    ids: readonly Id[],
    make: (verbs: Verbs<T>, places: readonly number[]) => Question<A>,
  ): Promise<Answer<A>[]> {
    const places = ids.map((_, n) => n);
    return [{ places, answer: await this.server.ask(make(this.verbs, places)) }];
  }

  async each<A>(make: Make<T, A>, how?: Patience): Promise<A[]> {
    return [await this.server.ask(make(this.verbs), how)];
  }

  async parts(): Promise<readonly Part<T>[]> {
    return [this];
  }

  get home(): Part<T> {
    return this;
  }

  atHome<A>(ids: readonly Buffer[], make: (ids: readonly Buffer[]) => Question<A>, ask: Ask): Promise<A> {
    return ask(make(ids));
  }

  revive(count: number): Promise<number> {
    return this.server.ask(this.verbs.revive(count));
  }

  another(timeout: number): Server {
    return new Server(wireOf(this.maker, timeout), Number.POSITIVE_INFINITY);
  }

  close(): void {
    this.server.close();
  }
}
