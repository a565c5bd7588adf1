// The jobs of a worker, whose leases must be renewed.

import { JobLostError } from "./errors.js";
import type { Delivery, Job } from "./job.js";

interface Hand {
  readonly job: Job;
  readonly ending: AbortController;
  /** When its lease was asked for. */
  since: number;
}

/** The current jobs. */
export class Held {
  readonly #hands = new Map<Delivery, Hand>();

  add(delivery: Delivery, job: Job, ending: AbortController): void {
    this.#hands.set(delivery, { job, ending, since: performance.now() });
  }

  /** Returns whether its lease is still held. */
  remove(delivery: Delivery): boolean {
    return this.#hands.delete(delivery);
  }

  /** Keeps what was renewed for as long as `lease`, and returns why else the work is of no use: only once for each job. */
  renew(some: readonly Delivery[], renewed: readonly boolean[], since: number, lease: number): [Job, JobLostError][] {
    const lost: [Job, JobLostError][] = [];
    for (const [n, delivery] of some.entries()) {
      const hand = this.#hands.get(delivery);
      if (hand === undefined) continue;
      if (renewed[n]) {
        hand.since = since;
        continue;
      }
      this.remove(delivery);
      // A lease that has not ended was ended by somebody.
      const why = new JobLostError(performance.now() - hand.since < lease ? "cancelled" : "lease");
      hand.ending.abort(why);
      lost.push([hand.job, why]);
    }
    return lost;
  }

  /** Returns the current jobs of a queue. */
  of(key: string): Delivery[] {
    return [...this.#hands.keys()].filter((delivery) => delivery.key === key);
  }
}
