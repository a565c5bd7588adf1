// The moments at which a schedule occurs, in milliseconds since 1970: by cron, or at intervals.

/** Those that are due, or the first of many. */
export interface Due {
  readonly count: number;
  /** Returns one of them, from 0 on. */
  at(n: number): number;
}

export interface Occurrences {
  /** Returns the first occurrence after an occurrence, or for cron after any moment; null if there is none. */
  after(moment: number): number | null;
  /** Returns the occurrences from `first`, which is one, until `last`. */
  due(first: number, last: number): Due;
}

export class Interval implements Occurrences {
  constructor(private readonly ms: number) {
    if (ms < 1) throw new RangeError("the interval of a schedule is at least a millisecond");
  }

  after(moment: number): number {
    return moment + this.ms;
  }

  due(first: number, last: number): Due {
    return { count: Math.floor((last - first) / this.ms) + 1, at: (n) => first + n * this.ms };
  }
}
