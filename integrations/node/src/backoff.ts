// The delay of a failed job.

import { known, milliseconds } from "./moment.js";

/** In milliseconds. Doubles with each attempt, with jitter, so that jobs that failed together do not retry together. */
export interface Backoff {
  first: number;
  factor: number;
  most: number;
  /** From 0 to 1: the random share of the delay. */
  jitter: number;
}

export const BACKOFF: Readonly<Backoff> = { first: 1000, factor: 2, most: 3_600_000, jitter: 0.5 };

/** Returns a whole back-off; refuses numbers that make no delays. */
export function backoffOf(some: { [K in keyof Backoff]?: Backoff[K] | undefined } = {}): Backoff {
  known(some, Object.keys(BACKOFF).join(" "));
  const { first = BACKOFF.first, factor = BACKOFF.factor, most = BACKOFF.most, jitter = BACKOFF.jitter } = some;
  milliseconds(first, "`backoff.first`");
  milliseconds(most, "`backoff.most`");
  if (!(factor >= 1 && factor < Number.POSITIVE_INFINITY)) throw new RangeError("`backoff.factor` is from 1 on");
  if (!(jitter >= 0 && jitter <= 1)) throw new RangeError("`backoff.jitter` is from 0 to 1");
  return { first, factor, most, jitter };
}

/** Returns the delay after this attempt, counted from 1. */
export function waitAfter(attempt: number, { first, factor, most, jitter }: Backoff, random = Math.random()): number {
  // After so many doublings every delay is the longest; 0 times infinity would be no number.
  return Math.min(most, first * factor ** Math.min(attempt - 1, 64)) * (1 - jitter * random);
}
