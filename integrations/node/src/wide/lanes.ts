// The lanes of a worker: one for each key of its queues.

import { setTimeout as sleep } from "node:timers/promises";
import type { Part } from "../keys.js";
import { internals, type Queue } from "../queue.js";
import { passes } from "../wire.js";
import { type Crew, Lane } from "./lane.js";
import type { Permits } from "./permits.js";

/** How often the keys of the queues are read, in milliseconds. */
const INTERVAL = 1000;

/** What the lanes need of their worker. */
export interface Staff<T> {
  stopping(): boolean;
  tell(error: unknown): void;
  crewOf(queue: Queue<T>, part: Part<T>): Crew;
}

interface Running {
  readonly lane: Lane;
  readonly ended: Promise<void>;
}

/** Serves the keys of the queues, also when they change, until the worker stops. */
export class Lanes<T> {
  readonly #running = new Map<string, Running>();
  #failure: { error: unknown } | undefined;
  #wake: () => void = () => {};

  constructor(
    private readonly queues: readonly Queue<T>[],
    private readonly staff: Staff<T>,
    private readonly permits: Permits,
  ) {}

  /** Throws permanent errors. */
  async run(): Promise<void> {
    try {
      while (!this.staff.stopping() && this.#failure === undefined) {
        await Promise.all(this.queues.map((queue, rank) => this.#survey(queue, rank)));
        const woken = new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        const over = new AbortController();
        if (this.staff.stopping() || this.#failure !== undefined) break;
        await Promise.race([woken, sleep(INTERVAL, undefined, { signal: over.signal }).catch(() => {})]);
        over.abort();
      }
    } finally {
      this.permits.end();
      for (const { lane } of this.#running.values()) lane.isLeft = true;
      await Promise.all([...this.#running.values()].map(({ ended }) => ended));
    }
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Makes the lanes notice that the worker stops. */
  stop(): void {
    this.permits.end();
    this.#wake();
  }

  async #survey(queue: Queue<T>, rank: number): Promise<void> {
    let parts: readonly Part<T>[];
    try {
      parts = await internals(queue).keys.parts({ patience: INTERVAL, giveUp: () => this.staff.stopping() });
    } catch (error) {
      // Its lanes continue with what was known.
      if (!passes(error)) this.fail(error);
      else this.staff.tell(error);
      return;
    }
    const keys = new Set(parts.map(({ verbs }) => verbs.key));
    for (const part of parts) {
      if (!this.#running.has(part.verbs.key)) this.#begin(queue, part, rank);
    }
    for (const [key, { lane }] of this.#running) {
      if (!keys.has(key) && lane.queue === queue.name) lane.isLeft = true;
    }
  }

  #begin(queue: Queue<T>, part: Part<T>, rank: number): void {
    const lane = new Lane(queue.name, this.staff.crewOf(queue, part), this.permits, rank);
    const ended = lane
      .run()
      .catch((error) => {
        if (!this.staff.stopping() || !passes(error)) this.fail(error);
      })
      .finally(() => {
        if (!this.staff.stopping()) this.#running.delete(part.verbs.key);
      });
    this.#running.set(part.verbs.key, { lane, ended });
  }

  /** Ends `run`, which throws this error. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#wake();
  }
}
