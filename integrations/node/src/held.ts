// The jobs of a worker, whose leases must be renewed.

import { JobLostError } from "./errors.js";
import type { Delivery, Job } from "./job.js";

interface Hand {
  readonly job: Job;
  readonly ending: AbortController;
}

/** The current jobs. */
export class Held {
  readonly #hands = new Map<Delivery, Hand>();

  add(delivery: Delivery, job: Job, ending: AbortController): void {
    this.#hands.set(delivery, { job, ending });
  }

  /** Returns whether its lease is still held. */
  remove(delivery: Delivery): boolean {
    return this.#hands.delete(delivery);
  }

  /** Returns the job whose lease was lost, if its work still runs; only once. */
  lose(delivery: Delivery): Job | undefined {
    const hand = this.#hands.get(delivery);
    if (hand === undefined) return undefined;
    this.remove(delivery);
    hand.ending.abort(new JobLostError("the job was cancelled, or its lease ran out"));
    return hand.job;
  }

  /** Returns the current jobs of a queue. */
  of(key: string): Delivery[] {
    return [...this.#hands.keys()].filter((delivery) => delivery.key === key);
  }
}
