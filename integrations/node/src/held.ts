// What a worker has in hand, whose leases are to be renewed.

import type { Delivery, Job } from "./job.js";
import type { Pair } from "./verbs.js";

interface Hand {
  readonly delivery: Delivery;
  readonly job: Job;
  readonly lost: AbortController;
}

/** Jobs in hand, by their leases. */
export class Held {
  readonly #hands = new Map<string, Hand>();

  add(delivery: Delivery, job: Job, lost: AbortController): void {
    this.#hands.set(name(delivery), { delivery, job, lost });
  }

  /** Returns whether its lease is held still. */
  remove(delivery: Delivery): boolean {
    return this.#hands.delete(name(delivery));
  }

  /** Returns the job whose lease is over, if its work still runs; once. */
  lose(delivery: Delivery): Job | undefined {
    const hand = this.#hands.get(name(delivery));
    if (hand === undefined) return undefined;
    this.remove(delivery);
    hand.lost.abort(new Error("the job was cancelled, or its lease ran out"));
    return hand.job;
  }

  /** Returns what is in hand of a queue. */
  of(key: string): Delivery[] {
    return [...this.#hands.values()].map((hand) => hand.delivery).filter((delivery) => delivery.key === key);
  }
}

export function pairOf({ token, id }: Delivery): Pair {
  return { token, id };
}

function name({ key, token, id }: Delivery): string {
  // Latin-1 keeps bytes apart that are no UTF-8.
  return `${key}\n${token}\n${id.toString("latin1")}`;
}
