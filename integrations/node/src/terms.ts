// The settings of a worker, and the handling of failed jobs.

import { type Backoff, backoffOf, waitAfter } from "./backoff.js";
import { Reject, Retry } from "./errors.js";
import { type Hooks, type Logger, reasonOf } from "./hooks.js";
import { milliseconds, oneOf, timed, whole } from "./moment.js";
import { ATTEMPTS_MAX } from "./verbs.js";

/** What `new Worker` takes. Durations are in milliseconds. */
export interface WorkerOptions {
  /** The number of jobs at a time; by default 1. */
  concurrency?: number;
  /**
   * For how long the server waits for a worker that died, by default 60,000, before another gets its jobs. It is renewed
   * while the work runs.
   */
  lease?: number;
  /**
   * How often a job that has no `attempts` of its own is delivered before it becomes a dead letter, from 1 to 65,535: by
   * default what the policy of the queue says, or 5. If both say, the fewer. null: unlimited, and no policy is set.
   */
  attempts?: number | null;
  /** About how many dead letters are kept, by default 10,000, if the queue has no policy yet; null: all. */
  keepDead?: number | null;
  /** How long an attempt may take, of a job that has no `timeout` of its own; by default without limit. */
  timeout?: number;
  /**
   * Whether a job that took longer than its `timeout` keeps its place, its lease and its group's turn until its work has
   * ended, which `job.signal` asks for; if that succeeds all the same, the job is done. By default it fails at once, and
   * its work may run on beside the next job.
   */
  keepPlace?: boolean;
  /** The delay before a failed job is delivered again. */
  backoff?: Partial<Backoff>;
  /** How long a POLL blocks in the server, by default 2000, and so how long a stop can take. */
  block?: number;
  /** How many replicas must have the lease of a job before it begins, and the end of it; by default 0. */
  waitReplicas?: number;
  /** Hooks for events; missing ones log. */
  hooks?: Partial<Hooks>;
  /** Where to log; by default standard error, and of successes only if NODE_DEBUG=dehydrator. */
  logger?: Logger;
}

/** What `run` takes. */
export interface RunOptions {
  /** Whether SIGTERM and SIGINT stop the worker; by default they do. */
  signals?: boolean;
  /** How long such a stop waits for running work, in milliseconds; by default without limit. */
  grace?: number;
}

export type Terms = ReturnType<typeof termsOf>;

export const TERMS = "concurrency lease attempts keepDead timeout keepPlace backoff block waitReplicas hooks logger";

/** Attempts where neither the policy of the queue nor the worker says how many. */
export const ATTEMPTS = 5;

/** Returns the options of a worker with their defaults. */
export function termsOf(options: WorkerOptions) {
  const { attempts, keepDead, timeout, keepPlace = false, backoff } = options;
  if (attempts !== undefined && attempts !== null) whole(attempts, "attempts", 1, ATTEMPTS_MAX);
  if (keepDead !== undefined && keepDead !== null) whole(keepDead, "keepDead", 1);
  if (timeout !== undefined) milliseconds(timeout, "timeout", 1);
  return {
    concurrency: whole(options.concurrency ?? 1, "concurrency", 1),
    // It is renewed three times in its time.
    lease: milliseconds(options.lease ?? 60_000, "lease", 100),
    attempts,
    keepDead,
    timeout,
    keepPlace: oneOf(keepPlace, "keepPlace", true, false),
    backoff: backoffOf(backoff),
    block: timed(milliseconds(options.block ?? 2000, "block")),
    waitReplicas: whole(options.waitReplicas ?? 0, "waitReplicas", 0),
  };
}

/** Why an attempt failed, and whether it was the last one, or else when the next is, and whether this one counts. */
export type Verdict = { reason: string; delay?: number; isCounted: boolean };

/** Returns the fate of a job whose work threw `error`, if it has so many attempts. */
export function verdict(error: unknown, attempt: number, attempts: number | null, backoff: Backoff): Verdict {
  const [reason, isCounted] = [reasonOf(error), !(error instanceof Retry && !error.counted)];
  const isLast = isCounted && attempts !== null && attempt >= attempts;
  if (error instanceof Reject || isLast) return { reason, isCounted };
  return { reason, isCounted, delay: error instanceof Retry ? error.delay : waitAfter(attempt, backoff) };
}
