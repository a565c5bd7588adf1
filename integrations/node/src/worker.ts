// A worker: takes due jobs, does the work, and reports the results.

import { setTimeout as sleep } from "node:timers/promises";
import { unwrap, wrap } from "./envelope.js";
import { Retry } from "./errors.js";
import { Held, pairOf } from "./held.js";
import { Guarded, type Hooks, type Tell } from "./hooks.js";
import type { Delivery, Job } from "./job.js";
import { type Part, REPLY } from "./keys.js";
import { milliseconds } from "./moment.js";
import type { Queue } from "./queue.js";
import { Rota } from "./rota.js";
import type { Patience, Server } from "./server.js";
import { Settling } from "./settling.js";
import { onSignal } from "./signals.js";
import { reasonOf, type Terms, type TermsOptions, termsOf, verdict } from "./terms.js";
import { BATCH, poll, type Question, replicated } from "./verbs.js";
import type { Crew } from "./wide/lane.js";
import { Lanes } from "./wide/lanes.js";
import { Permits } from "./wide/permits.js";
import { isReply, passes } from "./wire.js";

/** The reply timeout beyond the block, in milliseconds. */
const GRACE = 5000;

/** The maximum number of jobs per POLL, whatever the concurrency. */
const MOST_AT_ONCE = 100;

/** How often it asks for schedules while it takes no jobs, in milliseconds. */
const ASIDE = 200;

/** A key that the worker serves. */
interface Place<T> {
  readonly part: Part<T>;
  readonly settling: Settling;
}

export interface WorkerOptions extends TermsOptions {
  /** Hooks for events; missing ones write to the console. */
  hooks?: Partial<Hooks>;
  /** Whether to serve the schedules of the queues: by default, if croner is installed, which they need. */
  schedules?: boolean;
}

/**
 * Takes due jobs, and calls `work` with each Job, for `concurrency` jobs at a time.
 *
 * If `work` returns, the job is settled. If it throws, the job is delivered again, after a back-off, until it was
 * delivered `attempts` times; then it becomes a dead letter, with the reason. While it runs, its lease is renewed. If
 * the worker dies, another worker gets the job when the lease expires.
 */
export class Worker<T = unknown> {
  readonly queues: readonly Queue<T>[];
  readonly #places = new Map<string, Place<T>>();
  readonly #renewals: Promise<void>[] = [];
  readonly #terms: Terms;
  readonly #schedules: boolean | undefined;
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
  #roomy: () => unknown = () => {};
  /** The connections that can be blocked in a POLL. */
  readonly #blocked = new Set<Server>();

  /** Several queues are polled in their order: the first with due jobs is served. */
  constructor(
    queues: Queue<T> | readonly Queue<T>[],
    private readonly work: (job: Job<T>) => unknown,
    { hooks, schedules, ...terms }: WorkerOptions = {},
  ) {
    this.queues = [queues].flat() as Queue<T>[];
    if (this.queues.length === 0) throw new RangeError("a worker needs a queue");
    this.#terms = termsOf(terms);
    if (this.#terms.waitReplicas > 0 && this.queues.some(({ part }) => part !== undefined)) {
      // The libraries send the WAIT of a cluster to any node.
      throw new TypeError("waitReplicas needs queues with `keys`: `keys: 1` is one key");
    }
    this.#schedules = schedules;
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
      for (const server of this.#blocked) server.close();
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
    this.#places.clear();
    this.#ended = new AbortController();
    try {
      const parts = this.queues.map(({ part }) => part);
      const isTogether = parts.every((part) => part !== undefined && part.tag === parts[0]?.tag);
      await (isTogether ? this.#runTogether() : this.#runLanes());
    } catch (error) {
      // After the grace, the connections are closed, whatever they wait for.
      if (!this.#stopping || !(passes(error) || this.#left)) throw error;
    } finally {
      deaf();
      clearTimeout(this.#leaveTimer);
      this.#stopping = this.#left = false;
    }
  }

  /** Polls all queues by one command. */
  async #runTogether(): Promise<void> {
    const parts = this.queues.map(({ part }) => part!);
    const server = this.#another(parts[0]!);
    try {
      const { attempts } = this.#terms;
      const rota = await Rota.of(this.queues, this.#schedules);
      await server.check(this.#patiently());
      if (attempts !== null) {
        for (const part of parts) await this.#ask(part, part.verbs.limitAttempts(attempts));
      }
      await this.#tellUnserved(rota);
      for (const part of parts) this.#serveKey(part);
      while (!this.#stopping) await this.#take(server, rota);
    } finally {
      await this.#finish();
      this.#hangUp(server);
    }
  }

  async #tellUnserved({ unserved }: Rota<T>): Promise<void> {
    for (const { name, schedules } of unserved) {
      // Whatever the key is, or may not be read, concerns nobody here.
      if ((await schedules.size().catch(() => 0)) > 0) this.#tell("unserved", name);
    }
  }

  /** Polls each key of the queues by commands of its own: they are on several nodes. */
  async #runLanes(): Promise<void> {
    const permits = new Permits(this.#terms.concurrency, MOST_AT_ONCE);
    const tell = (error: unknown) => this.#tell("interrupted", error);
    const crewOf = (queue: Queue<T>, part: Part<T>) => this.#crewOf(queue, part);
    const lanes = new Lanes(this.queues, { stopping: () => this.#stopping, tell, crewOf }, permits);
    this.#roomy = () => this.#stopping && lanes.stop();
    const wide = this.queues.filter(({ part }) => part === undefined);
    const rota = await Rota.of(wide, this.#schedules);
    await this.#tellUnserved(rota);
    let isOver = false;
    const serving = (rota.schedules.length > 0 ? wide : []).map((queue) =>
      this.#serveSchedules(queue, () => isOver || this.#stopping).catch((error) => {
        if (!this.#stopping || !passes(error)) lanes.fail(error);
      }),
    );
    try {
      await lanes.run();
    } finally {
      isOver = true;
      await Promise.all(serving);
      await this.#finish();
    }
  }

  /** Serves schedules of a queue of several keys, also while all are busy: their jobs can wait for other workers. */
  async #serveSchedules(queue: Queue<T>, isOver: () => boolean): Promise<void> {
    const { lease, block } = this.#terms;
    const server = this.#another(queue.home);
    try {
      while (!isOver()) {
        const due = await server.ask(poll([queue.schedules.key], MOST_AT_ONCE, lease, block), this.#patiently());
        await Promise.all(due.map((delivery) => this.#putJobs(queue, delivery)));
      }
    } finally {
      this.#hangUp(server);
    }
  }

  #crewOf(queue: Queue<T>, part: Part<T>): Crew {
    const server = this.#another(part);
    const { block, attempts } = this.#terms;
    let rota: Rota<T> | undefined;
    return {
      stopping: () => this.#stopping,
      poll: async (count, blocks, { tell }) => {
        const how = this.#patiently(tell);
        if (rota === undefined) {
          await server.check(how);
          if (attempts !== null) await server.ask(part.verbs.limitAttempts(attempts), how);
          this.#serveKey(part);
          rota = queue.part === undefined ? Rota.ofKey(part.verbs.key) : await Rota.of([queue], this.#schedules);
        }
        return this.#poll(server, rota, rota.keys, count, blocks ? block : undefined, how);
      },
      begin: (delivery) => this.#begin(delivery),
      giveBack: (delivery) => this.#giveBack(delivery),
      close: () => this.#hangUp(server),
    };
  }

  /** Settles and renews the jobs of this key from now on. */
  #serveKey(part: Part<T>): void {
    const { key } = part.verbs;
    if (this.#places.has(key)) return;
    const settling = new Settling((pairs) =>
      this.#ask(part, replicated(part.verbs.settle(pairs), this.#terms.waitReplicas)),
    );
    this.#places.set(key, { part, settling });
    this.#renewals.push(this.#renew(part));
  }

  /** Returns the server on another connection, which `stop` can interrupt. */
  #another(part: Part<T>): Server {
    const server = part.another(this.#terms.block + GRACE);
    this.#blocked.add(server);
    return server;
  }

  #hangUp(server: Server): void {
    this.#blocked.delete(server);
    server.close();
  }

  /** Waits for the current jobs, then ends their renewal. */
  async #finish(): Promise<void> {
    await Promise.all(this.#serving);
    this.#ended.abort();
    await Promise.all(this.#renewals.splice(0));
  }

  /** Resends until there is a reply, or `stop`. */
  #patiently(tell?: (error: unknown) => void): Patience {
    return {
      giveUp: () => this.#stopping,
      tell: (error) => {
        tell?.(error);
        this.#tell("interrupted", error);
      },
    };
  }

  /** Waits for free capacity, and for up to that many jobs. */
  async #take(server: Server, rota: Rota<T>): Promise<void> {
    const { concurrency, block } = this.#terms;
    const room = Math.min(concurrency - this.#serving.size, MOST_AT_ONCE);
    if (room === 0) {
      const isAside = rota.schedules.length > 0;
      // The job of a schedule can wait in the queue, for other workers.
      if (!(await this.#awaitRoom(isAside ? ASIDE : undefined)))
        await this.#poll(server, rota, rota.schedules, MOST_AT_ONCE);
      return;
    }
    for (const delivery of await this.#poll(server, rota, rota.keys, room, block)) void this.#begin(delivery);
  }

  #begin(delivery: Delivery): Promise<void> {
    const serving: Promise<void> = this.#serve(delivery).finally(() => {
      this.#serving.delete(serving);
      this.#roomy();
    });
    this.#serving.add(serving);
    return serving;
  }

  /** Waits until a job has ended, or `stop`; returns whether that was in time. */
  #awaitRoom(ms?: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(() => resolve(false), ms);
      this.#roomy = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }

  /** Returns the jobs that are due, or serves the schedules that are. */
  async #poll(
    server: Server,
    rota: Rota<T>,
    keys: string[],
    room: number,
    block?: number,
    how = this.#patiently(),
  ): Promise<Delivery[]> {
    const began = performance.now();
    const found = await server.ask(poll(keys, room, this.#terms.lease, block), how);
    const queue = this.#places.get(found[0]?.key ?? "")?.part.queue;
    const deliveries = queue === undefined || queue === found[0]?.key ? found : found.map((one) => ({ ...one, queue }));
    const scheduling = rota.scheduling(deliveries);
    if (scheduling !== undefined) {
      await Promise.all(deliveries.map((delivery) => this.#putJobs(scheduling, delivery)));
      // Where many are due, they come together, however few jobs it does at a time.
      if (deliveries.length === room && room < MOST_AT_ONCE) {
        await this.#poll(server, rota, rota.schedules, MOST_AT_ONCE);
      }
      return [];
    }
    if (deliveries.length > 0) this.#tell("received", deliveries, performance.now() - began);
    return this.#confirm(server, deliveries, how);
  }

  /** Returns those of the jobs whose leases enough replicas have. */
  async #confirm(server: Server, deliveries: Delivery[], how: Patience): Promise<Delivery[]> {
    const { lease, waitReplicas } = this.#terms;
    const [first] = deliveries;
    if (first === undefined || waitReplicas === 0) return deliveries;
    const { verbs } = this.#places.get(first.key)!.part;
    try {
      // A write of this connection, even if the POLL came by an earlier one, which broke.
      const renewed = await server.ask(replicated(verbs.renew(lease, deliveries.map(pairOf)), waitReplicas), how);
      return deliveries.filter((_, n) => renewed[n]);
    } catch (error) {
      if (!this.#stopping || !passes(error)) throw error;
      await Promise.all(deliveries.map((delivery) => this.#giveBack(delivery)));
      return [];
    }
  }

  /** Gives back a job that was not begun: other workers can do it. */
  async #giveBack(delivery: Delivery): Promise<void> {
    const { part } = this.#places.get(delivery.key)!;
    try {
      await this.#ask(part, part.verbs.release(0, pairOf(delivery), { counted: false }));
    } catch (error) {
      // It is delivered again when its lease expires.
      this.#tell("crashed", error, "the return of a job");
    }
  }

  /** Puts the jobs of a schedule that is due. */
  async #putJobs(queue: Queue<T>, delivery: Delivery): Promise<void> {
    try {
      const reason = await queue.schedules.serve(delivery, (question) => this.#ask(queue.home, question));
      if (reason !== undefined) this.#tell("refused", queue.name, delivery.id.toString(), reason);
    } catch (error) {
      // It comes again when its lease expires.
      this.#tell("crashed", error, `the schedule ${delivery.id}`);
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
    const { part, settling } = this.#places.get(delivery.key)!;
    // The POLL was blocked in the server when the stop was requested.
    if (this.#stopping) return this.#giveBack(delivery);
    const lost = new AbortController();
    let job: Job<T>;
    try {
      const { headers, element } = unwrap(delivery.element);
      job = jobOf(part, delivery, part.verbs.codec.decode(element), headers, lost.signal);
    } catch (error) {
      return this.#bury(part, delivery, `it cannot be decoded: ${reasonOf(error)}`);
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
      await this.#hooks.settling(job, "settle", () => settling.settle(pairOf(delivery)));
      return this.#tell("succeeded", job, ms);
    }
    const then = verdict(failure.error, delivery.deliveries, await this.#termsOf(part, delivery));
    const changed = withHeaders(delivery, job.headers);
    if ("reason" in then) return this.#hooks.settling(job, "bury", () => this.#bury(part, changed, then.reason));
    const { verbs } = part;
    const release =
      changed === delivery ? verbs.release(then.delay, pairOf(delivery)) : verbs.retry(then.delay, changed);
    await this.#hooks.settling(job, "release", () => this.#ask(part, release));
    this.#tell("retried", job, ms, failure.error, then.delay);
  }

  /** Returns the terms of a job. With `attempts` null, the queue has its own policy, or none. */
  async #termsOf(part: Part<T>, { id }: Delivery): Promise<Terms> {
    const terms = this.#terms;
    if (terms.attempts === null) return terms;
    return { ...terms, attempts: (await this.#ask(part, part.verbs.ownAttempts(id))) || terms.attempts };
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

  async #bury(part: Part<T>, delivery: Delivery, reason: string): Promise<void> {
    let told = reason;
    if (this.#terms.attempts !== null) {
      await this.#ask(part, part.verbs.bury(delivery, reason));
    } else {
      // This worker does not configure dead letters: the policy of the queue does, if any.
      try {
        await this.#ask(part, part.verbs.reject(pairOf(delivery)));
      } catch (error) {
        if (!isReply(error)) throw error;
        const { most } = this.#terms.backoff;
        await this.#ask(part, part.verbs.release(most, pairOf(delivery)));
        told = `${reason}; it waits for ${most} ms, for it could not go to the dead letters: ${error.message}`;
      }
    }
    this.#tell("buried", delivery, told);
  }

  /** Retries for the duration of a lease: after that, the reply is useless. Only once when a stop has timed out. */
  #ask<A>({ server }: Part<T>, question: Question<A>): Promise<A> {
    const patience = Math.max(this.#terms.lease, 10_000);
    return server.ask(question, {
      patience,
      reply: this.#reply,
      giveUp: () => this.#left,
      tell: (error) => this.#tell("interrupted", error),
    });
  }

  /** Renews the current jobs of a key, three times per lease, until the worker has ended: two may fail. */
  async #renew(part: Part<T>): Promise<void> {
    const { signal } = this.#ended;
    const wait = () => sleep(this.#terms.lease / 3, true, { signal }).catch(() => false);
    while (await wait()) await this.#renewOnce(part);
  }

  async #renewOnce({ server, verbs }: Part<T>): Promise<void> {
    const held = this.#held.of(verbs.key);
    for (let i = 0; i < held.length; i += BATCH) {
      const some = held.slice(i, i + BATCH);
      try {
        const renewed = await server.ask(verbs.renew(this.#terms.lease, some.map(pairOf)), {
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

function jobOf<T>(
  { queue }: Part<T>,
  delivery: Delivery,
  payload: T,
  headers: Job["headers"],
  lost: AbortSignal,
): Job<T> {
  const { id, deliveries, token } = delivery;
  return { id: id.toString(), idBytes: id, payload, attempt: deliveries, queue, token, lost, headers };
}

/** Returns a delivery with these headers, which is itself if it has them. */
function withHeaders(delivery: Delivery, headers: Job["headers"]): Delivery {
  const { headers: before, element } = unwrap(delivery.element);
  if (JSON.stringify(before) === JSON.stringify(headers)) return delivery;
  return { ...delivery, element: Buffer.from(wrap(headers, element)) };
}
