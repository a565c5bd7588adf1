// The jobs of a worker, whose leases must be renewed.

import { JobLostError } from "./errors.js";
import type { Delivery, Job } from "./job.js";
import type { Pair } from "./verbs.js";

interface Hand {
  readonly delivery: Delivery;
  readonly job: Job;
  readonly ending: AbortController;
}

/** The current jobs, by their leases. */
export class Held {
  readonly #hands = new Map<string, Hand>();

  add(delivery: Delivery, job: Job, ending: AbortController): void {
    this.#hands.set(name(delivery), { delivery, job, ending });
  }

  /** Returns whether its lease is still held. */
  remove(delivery: Delivery): boolean {
    return this.#hands.delete(name(delivery));
  }

  /** Returns the job whose lease was lost, if its work still runs; only once. */
  lose(delivery: Delivery): Job | undefined {
    const hand = this.#hands.get(name(delivery));
    if (hand === undefined) return undefined;
    this.remove(delivery);
    hand.ending.abort(new JobLostError("the job was cancelled, or its lease ran out"));
    return hand.job;
  }

  /** Returns the current jobs of a queue. */
  of(key: string): Delivery[] {
    return [...this.#hands.values()].map((hand) => hand.delivery).filter((delivery) => delivery.key === key);
  }
}

export function pairOf({ token, idBytes: id }: Delivery): Pair {
  return { token, id };
}

function name({ key, token, idBytes }: Delivery): string {
  // Latin-1 keeps bytes distinct that are not UTF-8.
  return `${key}\n${token}\n${idBytes.toString("latin1")}`;
}
