// Settles jobs together that end at about the same time, in one command.

import type { Delivery } from "./job.js";
import { BATCH } from "./verbs.js";

interface Ending {
  readonly delivery: Delivery;
  resolve(settled: boolean): void;
  reject(error: unknown): void;
}

/** Collects the jobs that end in one turn of the event loop. */
export class Settling {
  #endings: Ending[] = [];

  constructor(private readonly send: (deliveries: Delivery[]) => Promise<boolean[]>) {}

  /** Returns whether it was still held. */
  settle(delivery: Delivery): Promise<boolean> {
    return new Promise((resolve, reject) => {
      if (this.#endings.push({ delivery, resolve, reject }) === 1) setImmediate(() => this.#flush());
    });
  }

  #flush(): void {
    const endings = this.#endings;
    this.#endings = [];
    for (let i = 0; i < endings.length; i += BATCH) void this.#sendSome(endings.slice(i, i + BATCH));
  }

  async #sendSome(endings: Ending[]): Promise<void> {
    try {
      const settled = await this.send(endings.map(({ delivery }) => delivery));
      for (const [i, { resolve }] of endings.entries()) resolve(settled[i] === true);
    } catch (error) {
      for (const { reject } of endings) reject(error);
    }
  }
}
