// The settings of a worker, and the handling of failed jobs.

import { BACKOFF, type Backoff, waitAfter } from "./backoff.js";
import { Reject, Retry } from "./errors.js";
import { milliseconds } from "./moment.js";

/** Durations in milliseconds. */
export interface TermsOptions {
  /** The number of jobs at a time. */
  concurrency?: number;
  lease?: number;
  /** How often a job that has no `attempts` of its own is delivered before it becomes a dead letter; null: unlimited. */
  attempts?: number | null;
  backoff?: Partial<Backoff>;
  /** How long a POLL blocks in the server, and so how long a stop can take. */
  block?: number;
  /** How many replicas must have the lease of a job before it begins, and the end of it. */
  waitReplicas?: number;
}

export type Terms = Required<Omit<TermsOptions, "backoff">> & { backoff: Backoff };

export function termsOf(options: TermsOptions): Terms {
  const { concurrency = 1, attempts = 5, waitReplicas = 0 } = options;
  const lease = milliseconds(options.lease ?? 60_000);
  const block = milliseconds(options.block ?? 2000);
  if (!Number.isInteger(concurrency) || concurrency < 1) throw new RangeError("concurrency is a number from 1 on");
  if (lease < 100) throw new RangeError("a lease is at least 100 ms: it is renewed three times in its time");
  if (attempts !== null && !(Number.isInteger(attempts) && attempts >= 1 && attempts <= 65535)) {
    throw new RangeError("attempts is from 1 to 65535, or null for no limit");
  }
  if (!Number.isInteger(waitReplicas) || waitReplicas < 0) throw new RangeError("waitReplicas is a number from 0 on");
  return { concurrency, lease, attempts, block, waitReplicas, backoff: { ...BACKOFF, ...options.backoff } };
}

/** To be delivered again in `delay` milliseconds, or to become a dead letter now. */
export type Verdict = { delay: number } | { reason: string };

/** Returns the reason of a failure, in one line. */
export function reasonOf(error: unknown): string {
  if (error instanceof Reject) return error.message || "rejected";
  return String(error);
}

/** Returns the fate of a job whose work threw `error`. */
export function verdict(error: unknown, deliveries: number, terms: Terms): Verdict {
  if (error instanceof Reject || (terms.attempts !== null && deliveries >= terms.attempts)) {
    return { reason: reasonOf(error) };
  }
  return { delay: error instanceof Retry ? error.delay : waitAfter(deliveries, terms.backoff) };
}
