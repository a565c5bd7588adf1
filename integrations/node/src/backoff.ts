// How long a job waits that failed.

/** In milliseconds. Doubles with each attempt, with a jitter, so that what failed together is not tried together. */
export interface Backoff {
  first: number;
  factor: number;
  most: number;
  /** From 0 to 1: which part of the wait is left to chance. */
  jitter: number;
}

export const BACKOFF: Readonly<Backoff> = { first: 1000, factor: 2, most: 3_600_000, jitter: 0.5 };

/** Returns how long to wait after the attempt of this number, from 1 on. */
export function waitAfter(attempt: number, { first, factor, most, jitter }: Backoff): number {
  return Math.min(most, first * factor ** (attempt - 1)) * (1 - jitter * Math.random());
}
