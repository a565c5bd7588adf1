// The delay of a failed job.

/** In milliseconds. Doubles with each attempt, with jitter, so that jobs that failed together do not retry together. */
export interface Backoff {
  first: number;
  factor: number;
  most: number;
  /** From 0 to 1: the random share of the delay. */
  jitter: number;
}

export const BACKOFF: Readonly<Backoff> = { first: 1000, factor: 2, most: 3_600_000, jitter: 0.5 };

/** Returns the delay after this attempt, counted from 1. */
export function waitAfter(attempt: number, { first, factor, most, jitter }: Backoff): number {
  return Math.min(most, first * factor ** (attempt - 1)) * (1 - jitter * Math.random());
}
