// The free capacity of a worker, shared by the keys that it serves.

interface Waiting {
  readonly rank: number;
  take(count: number): void;
}

/** Gives free capacity to those of the first rank first, and in turn to those of one rank. */
export class Permits {
  readonly #waiting: Waiting[] = [];
  #free: number;
  #ended = false;

  constructor(
    private readonly capacity: number,
    /** How many one can take at once. */
    private readonly most: number,
  ) {
    this.#free = capacity;
  }

  /** Waits for capacity, and takes what is free, up to its share of all if several wait; 0 after `end`. */
  take(rank: number): Promise<number> {
    return new Promise((take) => {
      const next = this.#waiting.findIndex((other) => other.rank > rank);
      this.#waiting.splice(next < 0 ? this.#waiting.length : next, 0, { rank, take });
      this.#giveSoon();
    });
  }

  /** Takes one if it is free, and nobody of an earlier rank waits for it. */
  tryTake(rank: number): boolean {
    const first = this.#waiting[0];
    if (this.#free === 0 || (first !== undefined && first.rank < rank)) return false;
    this.#free -= 1;
    return true;
  }

  release(count = 1): void {
    this.#free += count;
    this.#giveSoon();
  }

  end(): void {
    this.#ended = true;
    for (const { take } of this.#waiting.splice(0)) take(0);
  }

  /** Jobs end together, as their replies come: what they leave is taken by one POLL. */
  #giveSoon(): void {
    setImmediate(() => this.#give());
  }

  #give(): void {
    if (this.#ended) {
      this.end();
      return;
    }
    for (let first = this.#waiting[0]; first !== undefined && this.#free > 0; first = this.#waiting[0]) {
      const { rank } = first;
      const others = this.#waiting.filter((other) => other.rank === rank).length;
      // A share of what is free just now would soon be one, with a POLL and a SETTLE for each job.
      const share = Math.min(this.#free, Math.ceil(this.capacity / others), this.most);
      this.#free -= share;
      this.#waiting.shift();
      first.take(share);
    }
  }
}
