// The keys of a queue: one here, several in wide/.

import { DehydratorError } from "./errors.js";
import type { Id } from "./job.js";
import { type ClusterMaker, type Maker, wireOf } from "./library.js";
import { text } from "./reply.js";
import { type Patience, Server } from "./server.js";
import { ask, type Question, type Revival, type Revived, type Verbs } from "./verbs.js";
import { isReply, passes } from "./wire.js";

/** How many milliseconds a queue waits for a reply on a connection without blocking commands. Then it opens another. */
export const REPLY = 5000;

/** One key of a queue: its commands, and the server that has it. */
export interface Part<T> {
  /** The name of the queue. */
  readonly queue: string;
  readonly verbs: Verbs<T>;
  readonly server: Server;
  readonly maker: Maker | ClusterMaker;
  /** Returns the server on another connection, with this timeout for replies in milliseconds. */
  another(timeout: number): Server;
}

/** Makes a question for a key. */
export type Make<T, A> = (verbs: Verbs<T>) => Question<A>;

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
  /** Brings dead letters of a key back, to where their ids belong. */
  revive(part: Part<T>, letters: Revival): Promise<Revived>;
  /** Throws if a client with other keys uses the queue. */
  checkAlone(how?: Patience): Promise<void>;
  /** The key that has the schedules of the queue, and whose jobs they put. */
  readonly home: Part<T>;
  close(): void;
}

/** The only key of a queue. */
export class OneKey<T> implements Keys<T>, Part<T> {
  readonly queue: string;
  /** The cluster's hash tag, by which it can be polled together with other keys; empty for a single server. */
  readonly tag: string;
  readonly server: Server;
  /** Set when it is known that the queue has no several keys. */
  #isAlone = false;

  constructor(
    readonly maker: Maker | ClusterMaker,
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

  /** Throws if the queue has several keys: nobody would look for a job in this one. */
  async checkAlone(how?: Patience): Promise<void> {
    if (this.#isAlone) return;
    const { key } = this.verbs;
    // Whoever may not read it, and another type of key, tell of none.
    const found = await this.server
      .ask(
        ask(["GET", `${key}:keys`], (reply) => reply),
        how,
      )
      .catch((error) => {
        if (!isReply(error) || passes(error)) throw error;
      });
    if (found && /"lists":\[/.test(text(found))) {
      throw new DehydratorError(`${key} has several keys: open the queue with \`keys\``);
    }
    this.#isAlone = true;
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

  async revive({ server, verbs }: Part<T>, letters: Revival): Promise<Revived> {
    return server.ask(verbs.revive(letters));
  }

  get home(): Part<T> {
    return this;
  }

  another(timeout: number): Server {
    return new Server(wireOf(this.maker, timeout), Number.POSITIVE_INFINITY);
  }

  close(): void {
    this.server.close();
  }
}
