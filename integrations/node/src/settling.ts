// Settles jobs together that end at about the same time, in one command.

import { BATCH, type Pair } from "./verbs.js";

interface Ending {
  readonly pair: Pair;
  resolve(settled: boolean): void;
  reject(error: unknown): void;
}

/** Collects the jobs that end in one turn of the event loop. */
export class Settling {
  #endings: Ending[] = [];

  constructor(private readonly send: (pairs: Pair[]) => Promise<boolean[]>) {}

  /** Returns whether it was still held. */
  settle(pair: Pair): Promise<boolean> {
    return new Promise((resolve, reject) => {
      if (this.#endings.push({ pair, resolve, reject }) === 1) setImmediate(() => this.#flush());
    });
  }

  #flush(): void {
    const endings = this.#endings;
    this.#endings = [];
    for (let i = 0; i < endings.length; i += BATCH) void this.#sendSome(endings.slice(i, i + BATCH));
  }

  async #sendSome(endings: Ending[]): Promise<void> {
    try {
      const settled = await this.send(endings.map(({ pair }) => pair));
      for (const [i, { resolve }] of endings.entries()) resolve(settled[i] === true);
    } catch (error) {
      for (const { reject } of endings) reject(error);
    }
  }
}
