// The delay of a failed job.

import { known, milliseconds, number } from "./moment.js";

/** Grows with each attempt, with jitter, so that jobs that failed together do not retry together. */
export interface Backoff {
  /** After the first attempt, in milliseconds; by default 1000. */
  first: number;
  /** How many times as long each delay is as the one before; by default 2. */
  factor: number;
  /** The longest delay, in milliseconds; by default an hour. */
  most: number;
  /** The random share of the delay, from 0 to 1, by which it is shorter; by default 0.5. */
  jitter: number;
}

export const BACKOFF: Readonly<Backoff> = { first: 1000, factor: 2, most: 3_600_000, jitter: 0.5 };

/** Returns a whole back-off; refuses numbers that make no delays. */
export function backoffOf(some: { [K in keyof Backoff]?: Backoff[K] | undefined } = {}): Backoff {
  known(some, Object.keys(BACKOFF).join(" "), "backoff");
  const { first = BACKOFF.first, factor = BACKOFF.factor, most = BACKOFF.most, jitter = BACKOFF.jitter } = some;
  milliseconds(first, "backoff.first");
  milliseconds(most, "backoff.most");
  number(factor, "backoff.factor", 1);
  number(jitter, "backoff.jitter", 0, 1);
  return { first, factor, most, jitter };
}

/** Returns the delay after this attempt, counted from 1. */
export function waitAfter(attempt: number, { first, factor, most, jitter }: Backoff, random = Math.random()): number {
  // After so many doublings every delay is the longest; 0 times infinity would be no number.
  return Math.min(most, first * factor ** Math.min(attempt - 1, 64)) * (1 - jitter * random);
}
