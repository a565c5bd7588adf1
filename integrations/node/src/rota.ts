// The keys that a worker polls: those of its queues, and of their schedules.

import { cronLibrary, hasCron } from "./cron.js";
import type { Delivery } from "./job.js";
import type { Queue } from "./queue.js";

/** Schedules come first, but last after a POLL that gave some: one of each millisecond must not delay jobs. */
export class Rota<T> {
  readonly #queues: readonly string[];
  readonly #schedules: Map<string, Queue<T>>;
  #queuesFirst = false;

  /** The queues whose schedules, if there are any, are not served for want of the library. */
  readonly unserved: readonly Queue<T>[];

  private constructor(queues: readonly string[], schedules: readonly Queue<T>[], unserved: readonly Queue<T>[]) {
    this.#queues = queues;
    this.#schedules = new Map(schedules.map((queue) => [queue.schedules.key, queue]));
    this.unserved = unserved;
  }

  /** A key without schedules. */
  static ofKey<T>(key: string): Rota<T> {
    return new Rota<T>([key], [], []);
  }

  /** `schedules`: whether to serve them; by default, if the library for cron is installed. */
  static async of<T>(queues: readonly Queue<T>[], schedules: boolean | undefined): Promise<Rota<T>> {
    const serves = schedules ?? (await hasCron());
    // Throws an error that tells what is missing.
    if (serves) await cronLibrary();
    return new Rota<T>(
      queues.map(({ name }) => name),
      serves ? queues : [],
      serves || schedules !== undefined ? [] : queues,
    );
  }

  get schedules(): string[] {
    return [...this.#schedules.keys()];
  }

  /** Returns the keys for the next POLL. */
  get keys(): string[] {
    return this.#queuesFirst ? [...this.#queues, ...this.schedules] : [...this.schedules, ...this.#queues];
  }

  /** Returns the queue whose schedules a POLL gave, if it gave some. All deliveries are of one key. */
  scheduling([first]: readonly Delivery[]): Queue<T> | undefined {
    if (first === undefined) return undefined;
    const found = this.#schedules.get(first.key);
    this.#queuesFirst = found !== undefined;
    return found;
  }
}
