// The settings of a worker, and the handling of failed jobs.

import { type Backoff, backoffOf, waitAfter } from "./backoff.js";
import { Reject, Retry } from "./errors.js";
import { stackOf } from "./hooks.js";
import { milliseconds, timed, whole } from "./moment.js";
import { ATTEMPTS_MAX } from "./verbs.js";

/** Durations in milliseconds. */
export interface TermsOptions {
  /** The number of jobs at a time. */
  concurrency?: number;
  lease?: number;
  /**
   * How often a job that has no `attempts` of its own is delivered before it becomes a dead letter: by default what the
   * policy of the queue says, or 5; null: unlimited.
   */
  attempts?: number | null;
  /** About how many dead letters are kept, if the queue has no policy yet; by default all. */
  keepDead?: number;
  /** How long an attempt may take, of a job that has no `timeout` of its own; by default without limit. */
  timeout?: number;
  backoff?: Partial<Backoff>;
  /** How long a POLL blocks in the server, and so how long a stop can take. */
  block?: number;
  /** How many replicas must have the lease of a job before it begins, and the end of it. */
  waitReplicas?: number;
}

export interface Terms {
  readonly concurrency: number;
  readonly lease: number;
  readonly attempts: number | null | undefined;
  readonly keepDead: number | undefined;
  readonly timeout: number | undefined;
  readonly backoff: Backoff;
  readonly block: number;
  readonly waitReplicas: number;
}

export const TERMS = "concurrency lease attempts keepDead timeout backoff block waitReplicas";

/** Attempts where neither the policy of the queue nor the worker says how many. */
export const ATTEMPTS = 5;

export function termsOf(options: TermsOptions): Terms {
  const { attempts, keepDead, timeout, backoff } = options;
  if (attempts !== undefined && attempts !== null) whole(attempts, "attempts", 1, ATTEMPTS_MAX);
  if (keepDead !== undefined) whole(keepDead, "keepDead", 1);
  if (timeout !== undefined) milliseconds(timeout, "`timeout`", 1);
  return {
    concurrency: whole(options.concurrency ?? 1, "concurrency", 1),
    // It is renewed three times in its time.
    lease: milliseconds(options.lease ?? 60_000, "`lease`", 100),
    attempts,
    keepDead,
    timeout,
    backoff: backoffOf(backoff),
    block: timed(milliseconds(options.block ?? 2000, "`block`")),
    waitReplicas: whole(options.waitReplicas ?? 0, "waitReplicas", 0),
  };
}

/** Why an attempt failed, and whether it is the last one, or else when there is another. */
export type Verdict = { reason: string; delay?: number };

/** Returns the reason of a failure: first the error, then its stack. */
export function reasonOf(error: unknown): string {
  if (error instanceof Reject) return error.message || "rejected";
  return error instanceof Retry ? `${error}` : stackOf(error);
}

/** Returns the fate of a job whose work threw `error`, if it has so many attempts. */
export function verdict(error: unknown, attempt: number, attempts: number | null, backoff: Backoff): Verdict {
  const reason = reasonOf(error);
  if (error instanceof Reject || (attempts !== null && attempt >= attempts)) return { reason };
  return { reason, delay: error instanceof Retry ? error.delay : waitAfter(attempt, backoff) };
}
