/**
 * What was given out under a limit of rate: at most `rate` elements in any `per` milliseconds.
 *
 * The next element may go to the millisecond. Where `per` exceeds 1,024, the server may give it a thousandth of it later.
 */
export class Log {
  /** When each element was given out, as far as that counted when the last one was. */
  readonly #moments: number[] = [];

  record(now: number, count: number, per: number): void {
    for (let n = 0; n < count; n += 1) this.#moments.push(now);
    this.adapt(per);
  }

  /** Adapts to a limit that has changed: what counts under it goes on to count. */
  adapt(per: number): void {
    const last = this.#moments.at(-1)!;
    while (this.#moments.length > 0 && this.#moments[0]! + per <= last) this.#moments.shift();
  }

  /** Returns how many elements can be given out now. */
  room(now: number, rate: number, per: number): number {
    return Math.max(0, rate - this.#moments.filter((at) => at + per > now).length);
  }

  /** Returns the moment at which the next element can be given out. One that is over: now. */
  next(rate: number, per: number): number {
    const before = this.#moments.at(-rate);
    return before === undefined ? 0 : before + per;
  }
}
