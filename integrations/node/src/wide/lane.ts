// The loop of a worker that takes the jobs of one key.

import type { Delivery } from "../job.js";
import type { Patience } from "../server.js";
import type { Permits } from "./permits.js";

/** For how many milliseconds a lane keeps its share of the capacity while its node does not reply. */
const PATIENCE = 200;

/** What a lane needs of its worker. */
export interface Crew {
  stopping(): boolean;
  /** Takes up to this number of jobs, and blocks in the server for them, or not. */
  poll(count: number, blocks: boolean, how: Patience): Promise<Delivery[]>;
  /** Does a job, until it has ended. */
  begin(delivery: Delivery): Promise<void>;
  giveBack(delivery: Delivery): Promise<void>;
  close(): void;
}

/**
 * Takes jobs of one key in turns: it waits for free capacity, asks for as many jobs as it got, and if there are none,
 * sleeps in the server for one, without holding capacity. If none is free when that one arrives, it is given back.
 */
export class Lane {
  /** Set when the key is no longer of the queue. */
  isLeft = false;

  constructor(
    readonly queue: string,
    private readonly crew: Crew,
    private readonly permits: Permits,
    private readonly rank: number,
  ) {}

  async run(): Promise<void> {
    try {
      while (!this.#isOver()) {
        const held = await this.permits.take(this.rank);
        const found = await this.#take(held);
        if (found === 0 && !this.#isOver()) await this.#take(0);
      }
    } finally {
      this.crew.close();
    }
  }

  #isOver(): boolean {
    return this.isLeft || this.crew.stopping();
  }

  /** Polls with this capacity, or sleeps without any; returns the number of jobs. */
  async #take(held: number): Promise<number> {
    let left = held;
    const surrender = () => {
      this.permits.release(left);
      left = 0;
    };
    if (held === 0 && this.crew.stopping()) return 0;
    const late = setTimeout(surrender, PATIENCE);
    let deliveries: Delivery[];
    try {
      deliveries = await this.crew.poll(Math.max(1, held), held === 0, { tell: surrender });
    } finally {
      clearTimeout(late);
    }
    const back: Promise<void>[] = [];
    for (const delivery of deliveries) {
      if (left > 0) left -= 1;
      else if (!this.permits.tryTake(this.rank)) {
        back.push(this.crew.giveBack(delivery));
        continue;
      }
      void this.crew.begin(delivery).finally(() => this.permits.release());
    }
    surrender();
    await Promise.all(back);
    return deliveries.length;
  }
}
