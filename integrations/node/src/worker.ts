// A worker: takes due jobs, does the work, and reports the results.

import { setTimeout as sleep } from "node:timers/promises";
import { unwrap, wrap } from "./envelope.js";
import { Retry } from "./errors.js";
import { Held, pairOf } from "./held.js";
import { Guarded, type Hooks, type Tell } from "./hooks.js";
import type { Delivery, Job } from "./job.js";
import { milliseconds } from "./moment.js";
import { type Queue, REPLY } from "./queue.js";
import type { Server } from "./server.js";
import { Settling } from "./settling.js";
import { onSignal } from "./signals.js";
import { reasonOf, type Terms, type TermsOptions, termsOf, verdict } from "./terms.js";
import { BATCH, poll, type Question } from "./verbs.js";
import { isReply, passes } from "./wire.js";

/** The reply timeout beyond the block, in milliseconds. */
const GRACE = 5000;

/** The maximum number of jobs per POLL, whatever the concurrency. */
const MOST_AT_ONCE = 100;

export interface WorkerOptions extends TermsOptions {
  /** Hooks for events; missing ones write to the console. */
  hooks?: Partial<Hooks>;
}

/**
 * Takes due jobs, and calls `work` with each Job, for `concurrency` jobs at a time.
 *
 * If `work` returns, the job is settled. If it throws, the job is delivered again, after a back-off, until it was
 * delivered `attempts` times; then it becomes a dead letter, with the reason. While it runs, its lease is renewed. If
 * the worker dies, another worker gets the job when the lease expires.
 */
export class Worker<T = unknown> {
  readonly #queues = new Map<string, Queue<T>>();
  readonly #settling = new Map<string, Settling>();
  readonly #terms: Terms;
  readonly #hooks: Guarded;
  readonly #tell: Tell;
  /** The timeout in milliseconds for replies about leases: short enough to retry within the lease. */
  readonly #reply: number;
  readonly #held = new Held();
  readonly #serving = new Set<Promise<void>>();
  #ended = new AbortController();
  /** Ends the waits for running work. */
  readonly #leaving = new Set<() => void>();
  #stopping = false;
  #left = false;
  #leaveTimer: NodeJS.Timeout | undefined;
  #roomy: () => void = () => {};
  #awake: () => void = () => {};

  /** Several queues are polled in their order: the first with due jobs is served. */
  constructor(
    queues: Queue<T> | readonly Queue<T>[],
    private readonly work: (job: Job<T>) => unknown,
    { hooks, ...terms }: WorkerOptions = {},
  ) {
    for (const queue of [queues].flat() as Queue<T>[]) {
      this.#queues.set(queue.name, queue);
      this.#settling.set(queue.name, new Settling((pairs) => this.#ask(queue, queue.verbs.settle(pairs))));
    }
    if (this.#queues.size === 0) throw new RangeError("a worker needs a queue");
    this.#terms = termsOf(terms);
    this.#hooks = new Guarded(hooks);
    this.#tell = this.#hooks.tell;
    this.#reply = Math.min(REPLY, this.#terms.lease / 6);
  }

  /**
   * Makes the worker take no more jobs, finish its current ones, and return from `run`.
   *
   * Jobs that arrive while it is still blocked are given back, due at once, which counts as no attempt.
   *
   * After `grace` milliseconds it stops waiting: it aborts `lost` of the jobs whose work still runs, and gives them back
   * as if the work had failed, due at once. A job that arrives at that moment is delivered again when its lease expires.
   */
  stop(grace?: number): void {
    this.#stopping = true;
    this.#roomy();
    if (grace === undefined) return;
    const leave = () => {
      this.#left = true;
      this.#awake();
      for (const one of this.#leaving) one();
    };
    clearTimeout(this.#leaveTimer);
    this.#leaveTimer = setTimeout(leave, milliseconds(grace)).unref();
  }

  /**
   * Works until `stop`, or SIGTERM or SIGINT, which stop it with `grace`. Throws permanent errors.
   *
   * An earlier `stop` ends it at once. After it has returned, it can be called again.
   */
  async run({ signals = true, grace }: { signals?: boolean; grace?: number } = {}): Promise<void> {
    const deaf = signals ? onSignal(() => this.stop(grace)) : () => {};
    const [first] = this.#queues.values();
    const server = first!.another(this.#terms.block + GRACE);
    this.#awake = () => server.close();
    try {
      await this.#run(server);
    } catch (error) {
      if (!this.#stopping || !passes(error)) throw error;
    } finally {
      server.close();
      deaf();
      clearTimeout(this.#leaveTimer);
      this.#stopping = this.#left = false;
    }
  }

  async #run(server: Server): Promise<void> {
    const { attempts } = this.#terms;
    this.#ended = new AbortController();
    await server.check({
      giveUp: () => this.#stopping,
      tell: (error) => this.#tell("interrupted", error),
    });
    if (attempts !== null) {
      for (const queue of this.#queues.values()) await this.#ask(queue, queue.verbs.limitAttempts(attempts));
    }
    const renewing = this.#renew();
    try {
      while (!this.#stopping) await this.#take(server);
    } finally {
      await Promise.all(this.#serving);
      this.#ended.abort();
      await renewing;
    }
  }

  /** Waits for free capacity, and for up to that many jobs. */
  async #take(server: Server): Promise<void> {
    const { concurrency, lease, block } = this.#terms;
    const room = Math.min(concurrency - this.#serving.size, MOST_AT_ONCE);
    if (room === 0) {
      await new Promise<void>((resolve) => {
        this.#roomy = resolve;
      });
      return;
    }
    const began = performance.now();
    const deliveries = await server.ask(poll([...this.#queues.keys()], room, lease, block), {
      giveUp: () => this.#stopping,
      tell: (error) => this.#tell("interrupted", error),
    });
    if (deliveries.length > 0) this.#tell("received", deliveries, performance.now() - began);
    for (const delivery of deliveries) {
      const serving: Promise<void> = this.#serve(delivery).finally(() => {
        this.#serving.delete(serving);
        this.#roomy();
      });
      this.#serving.add(serving);
    }
  }

  async #serve(delivery: Delivery): Promise<void> {
    try {
      await this.#do(delivery);
    } catch (error) {
      // It was neither settled nor given back, so it is delivered again when its lease expires.
      this.#tell("crashed", error, "the end of a job");
    }
  }

  async #do(delivery: Delivery): Promise<void> {
    const queue = this.#queues.get(delivery.key)!;
    if (this.#stopping) {
      // The POLL was blocked in the server when the stop was requested. Other workers can do this job.
      await this.#ask(queue, queue.verbs.release(0, pairOf(delivery), { counted: false }));
      return;
    }
    const lost = new AbortController();
    let job: Job<T>;
    try {
      const { headers, element } = unwrap(delivery.element);
      job = jobOf(delivery, queue.verbs.codec.decode(element), headers, lost.signal);
    } catch (error) {
      return this.#bury(queue, delivery, `it cannot be decoded: ${reasonOf(error)}`);
    }
    this.#held.add(delivery, job, lost);
    const began = performance.now();
    let failure: { error: unknown } | undefined;
    try {
      this.#tell("started", job);
      await this.#hooks.working(job, () => this.#workOn(job, lost));
    } catch (error) {
      failure = { error };
    }
    const ms = performance.now() - began;
    if (!this.#held.remove(delivery)) return;
    if (failure === undefined) {
      // False can mean that a first SETTLE worked, but its reply was lost.
      await this.#hooks.settling(job, "settle", () => this.#settling.get(queue.name)!.settle(pairOf(delivery)));
      return this.#tell("succeeded", job, ms);
    }
    const then = verdict(failure.error, delivery.deliveries, await this.#termsOf(queue, delivery));
    const changed = withHeaders(delivery, job.headers);
    if ("reason" in then) return this.#hooks.settling(job, "bury", () => this.#bury(queue, changed, then.reason));
    const { verbs } = queue;
    const release =
      changed === delivery ? verbs.release(then.delay, pairOf(delivery)) : verbs.retry(then.delay, changed);
    await this.#hooks.settling(job, "release", () => this.#ask(queue, release));
    this.#tell("retried", job, ms, failure.error, then.delay);
  }

  /** Returns the terms of a job. With `attempts` null, the queue has its own policy, or none. */
  async #termsOf(queue: Queue<T>, { id }: Delivery): Promise<Terms> {
    const terms = this.#terms;
    if (terms.attempts === null) return terms;
    return { ...terms, attempts: (await this.#ask(queue, queue.verbs.ownAttempts(id))) || terms.attempts };
  }

  /** Waits for the work, at most as long as a stop allows. */
  async #workOn(job: Job<T>, lost: AbortController): Promise<void> {
    let leave!: () => void;
    const left = new Promise<never>((_, reject) => {
      leave = () => {
        const stopped = new Retry(0, "the worker stopped");
        lost.abort(stopped);
        reject(stopped);
      };
    });
    this.#leaving.add(leave);
    try {
      await Promise.race([this.work(job), left]);
    } finally {
      this.#leaving.delete(leave);
    }
  }

  async #bury(queue: Queue<T>, delivery: Delivery, reason: string): Promise<void> {
    let told = reason;
    if (this.#terms.attempts !== null) {
      await this.#ask(queue, queue.verbs.bury(delivery, reason));
    } else {
      // This worker does not configure dead letters: the policy of the queue does, if any.
      try {
        await this.#ask(queue, queue.verbs.reject(pairOf(delivery)));
      } catch (error) {
        if (!isReply(error)) throw error;
        const { most } = this.#terms.backoff;
        await this.#ask(queue, queue.verbs.release(most, pairOf(delivery)));
        told = `${reason}; it waits for ${most} ms, for it could not go to the dead letters: ${error.message}`;
      }
    }
    this.#tell("buried", delivery, told);
  }

  /** Retries for the duration of a lease: after that, the reply is useless. Only once when a stop has timed out. */
  #ask<A>(queue: Queue<T>, question: Question<A>): Promise<A> {
    const patience = Math.max(this.#terms.lease, 10_000);
    return queue.server.ask(question, {
      patience,
      reply: this.#reply,
      giveUp: () => this.#left,
      tell: (error) => this.#tell("interrupted", error),
    });
  }

  /** Renews the current jobs, three times per lease, until the worker has ended: two may fail. */
  async #renew(): Promise<void> {
    const { signal } = this.#ended;
    const wait = () => sleep(this.#terms.lease / 3, true, { signal }).catch(() => false);
    while (await wait()) {
      await Promise.all([...this.#queues.values()].map((queue) => this.#renewOf(queue)));
    }
  }

  async #renewOf(queue: Queue<T>): Promise<void> {
    const held = this.#held.of(queue.name);
    for (let i = 0; i < held.length; i += BATCH) {
      const some = held.slice(i, i + BATCH);
      try {
        const renewed = await queue.server.ask(queue.verbs.renew(this.#terms.lease, some.map(pairOf)), {
          patience: this.#terms.lease / 3,
          reply: this.#reply,
          giveUp: () => this.#ended.signal.aborted,
          tell: (error) => this.#tell("interrupted", error),
        });
        for (const [n, delivery] of some.entries()) {
          const job = renewed[n] ? undefined : this.#held.lose(delivery);
          if (job !== undefined) this.#tell("lost", job);
        }
      } catch (error) {
        this.#tell("crashed", error, "a renewal");
      }
    }
  }
}

function jobOf<T>(delivery: Delivery, payload: T, headers: Job["headers"], lost: AbortSignal): Job<T> {
  const { id, deliveries, key, token } = delivery;
  return { id: id.toString(), idBytes: id, payload, attempt: deliveries, queue: key, token, lost, headers };
}

/** Returns a delivery with these headers, which is itself if it has them. */
function withHeaders(delivery: Delivery, headers: Job["headers"]): Delivery {
  const { headers: before, element } = unwrap(delivery.element);
  if (JSON.stringify(before) === JSON.stringify(headers)) return delivery;
  return { ...delivery, element: Buffer.from(wrap(headers, element)) };
}
