/**
 * For tests of programs that use this package: a queue without a server, whose clock the test sets.
 *
 *     const memory = new MemoryServer();
 *     const jobs = new Queue(memory, "jobs");
 *     await jobs.put("mail", { delay: 60_000 });
 *     memory.advance(60_000);
 *     await memory.drain(new Worker(jobs, send));
 */

import type { Maker } from "./library.js";
import { milliseconds, timed, unixMilliseconds } from "./moment.js";
import { wordOf } from "./testing/arguments.js";
import { Blocks, Commands } from "./testing/commands.js";
import type { Word } from "./verbs.js";
import type { Opened } from "./wire.js";

/** What `drain` needs of a worker. */
interface Drained {
  run(options: { signals: boolean }): Promise<void>;
  stop(): void;
}

/**
 * Takes the place of a URL: `new Queue(memory, "jobs")`.
 *
 * Its replies are those of the server, for all that a Queue and a Worker send. Its time passes by `advance` alone; but a
 * worker that finds nothing due waits in real time, for its `block`.
 */
export class MemoryServer implements Maker {
  readonly cluster = false;
  /** A queue with `keys` is one key here. */
  readonly isMemory = true;
  readonly #commands = new Commands();
  #now: number;
  readonly #waiting = new Set<() => void>();
  /** The worker of `drain`, and the tokens that it got. */
  #drained: Drained | undefined;
  #tokens = new Set<string>();

  /** `now`: the time at the beginning, by default the real time. */
  constructor(now: Date | number = Date.now()) {
    this.#now = unixMilliseconds(now, "now");
  }

  /** The time of its clock. */
  get now(): Date {
    return new Date(this.#now);
  }

  /** Sets the clock forward by some milliseconds: delays pass, and leases expire. */
  advance(duration: number): void {
    this.#now += milliseconds(duration, "duration");
    this.#commands.passTime(this.#now);
    this.#wake();
  }

  /** Runs a worker until nothing is due and its work has ended. What it gives back waits for `advance`. */
  async drain(worker: Drained): Promise<void> {
    if (this.#drained !== undefined) throw new Error("another worker is being drained");
    this.#drained = worker;
    this.#tokens = new Set();
    try {
      await worker.run({ signals: false });
    } finally {
      this.#drained = undefined;
    }
  }

  /** Sends a command, as a client does: `await memory.call("DEHYDRATOR.LIMIT", "jobs", "REMEMBER", 300_000)`. */
  async call(...words: Word[]): Promise<unknown> {
    return this.#send(words, () => true);
  }

  /** Opens a connection, as a queue does. */
  async open(): Promise<Opened> {
    let alive = true;
    return {
      get alive() {
        return alive;
      },
      send: (words) => this.#send(words, () => alive),
      close: () => {
        alive = false;
        this.#wake();
      },
    };
  }

  async #send(words: readonly Word[], isAlive: () => boolean): Promise<unknown> {
    let end: number | undefined;
    for (;;) {
      if (!isAlive()) throw new Error("the connection was closed");
      const reply = this.#commands.call(words, this.#now);
      if (!(reply instanceof Blocks)) {
        const token = words.indexOf("TOKEN") + 1;
        if (token > 0) this.#tokens.add(wordOf(words[token]!));
        this.#wake();
        return buffersOf(reply);
      }
      const { keys } = reply;
      if (this.#drained !== undefined && !this.#commands.holds(keys, this.#tokens) && !this.#commands.hasDue(keys)) {
        this.#drained.stop();
        return buffersOf(reply.nothing);
      }
      end ??= performance.now() + (reply.ms === 0 ? timed(Number.POSITIVE_INFINITY) : reply.ms);
      if (!(await this.#change(end - performance.now()))) return buffersOf(reply.nothing);
    }
  }

  /** Waits for the next change; returns false if there is none in time. */
  #change(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(wake);
        resolve(false);
      }, ms);
      this.#waiting.add(wake);
    });
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }
}

/** Returns a reply as the libraries do: bulk strings are Buffers. */
function buffersOf(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply.map(buffersOf);
  return typeof reply === "string" ? Buffer.from(reply, "latin1") : reply;
}
