// A worker: takes due jobs, does the work, and reports the results.

import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { unwrap, wrap } from "./envelope.js";
import {
  DehydratorError,
  JobLostError,
  JobTimeoutError,
  QueueFullError,
  Reject,
  Retry,
  TooLateError,
} from "./errors.js";
import { Held } from "./held.js";
import { Guarded, reasonOf, type Tell } from "./hooks.js";
import type { Delivery, Job } from "./job.js";
import { type Part, REPLY } from "./keys.js";
import { after, known, milliseconds, oneOf, timed } from "./moment.js";
import { internals, Queue } from "./queue.js";
import type { Patience, Server } from "./server.js";
import { Settling } from "./settling.js";
import { onSignal } from "./signals.js";
import {
  ATTEMPTS,
  type RunOptions,
  TERMS,
  type Terms,
  termsOf,
  type Verdict,
  verdict,
  type WorkerOptions,
} from "./terms.js";
import { listen } from "./told.js";
import { BATCH, poll, type Question, replicated } from "./verbs.js";
import type { Crew } from "./wide/lane.js";
import { Lanes } from "./wide/lanes.js";
import { Permits } from "./wide/permits.js";
import { passes } from "./wire.js";

/** The reply timeout beyond the block, in milliseconds. */
const GRACE = 5000;

/** The maximum number of jobs per POLL, whatever the concurrency. */
const MOST_AT_ONCE = 100;

/** A key that the worker serves. */
interface Place<T> {
  readonly part: Part<T>;
  readonly settling: Settling;
  /** The attempts of jobs without their own; null: unlimited. */
  attempts: number | null;
  /** Whether the policy is still to be set: the server was full. */
  isUnset: boolean;
}

/**
 * Takes due jobs, and calls `work` with each Job, for `concurrency` jobs at a time.
 *
 * If `work` returns, the job is settled. If it throws, the job is delivered again, after a back-off, until it was
 * delivered `attempts` times; then it becomes a dead letter, with the reason. While it runs, its lease is renewed. If
 * the worker dies, another worker gets the job when the lease expires.
 */
export class Worker<T = unknown> {
  /** The first ones go first. */
  readonly queues: readonly Queue<T>[];
  readonly #work: (job: Job<T>) => unknown;
  readonly #places = new Map<string, Place<T>>();
  readonly #renewals: Promise<void>[] = [];
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
  #isRunning = false;
  #stopping = false;
  #left = false;
  #endGrace = () => {};
  #roomy: () => unknown = () => {};
  /** The connections that can be blocked in a POLL. */
  readonly #blocked = new Set<Server>();

  /** Several queues are polled in their order: the first with due jobs is served. */
  constructor(queues: Queue<T> | readonly Queue<T>[], work: (job: Job<T>) => unknown, options: WorkerOptions = {}) {
    this.queues = [queues].flat() as Queue<T>[];
    if (this.queues.length === 0) throw new RangeError("a worker needs a queue");
    if (!this.queues.every((queue) => queue instanceof Queue))
      throw new TypeError("a worker is of queues: new Queue(…)");
    const names = new Set(this.queues.map(({ name }) => name));
    if (names.size < this.queues.length) throw new TypeError("the queues of a worker have different names");
    if (typeof work !== "function") throw new TypeError("the work of a worker is a function");
    known(options, TERMS);
    this.#work = work;
    this.#terms = termsOf(options);
    if (this.#terms.waitReplicas > 0 && this.queues.some((queue) => internals(queue).one !== undefined)) {
      // The libraries send the WAIT of a cluster to any node.
      throw new TypeError("waitReplicas needs queues with `keys`: `keys: 1` is one key");
    }
    this.#hooks = new Guarded(options.hooks, options.logger);
    this.#tell = this.#hooks.tell;
    this.#reply = Math.min(REPLY, this.#terms.lease / 6);
  }

  /**
   * Makes the worker take no more jobs, finish its current ones, and return from `run`.
   *
   * Jobs that arrive while it is still blocked are given back, due at once, which counts as no attempt.
   *
   * After `grace` milliseconds it stops waiting: it aborts the signals of the jobs whose work still runs, and gives them
   * back, uncounted, due at once. A job that arrives at that moment is delivered again when its lease
   * expires.
   */
  stop(grace?: number): void {
    const ms = grace === undefined ? undefined : milliseconds(grace, "grace");
    this.#stopping = true;
    this.#roomy();
    if (ms === undefined) return;
    this.#endGrace();
    this.#endGrace = after(ms, () => {
      this.#left = true;
      for (const server of this.#blocked) server.close();
      for (const one of this.#leaving) one();
    });
  }

  /**
   * Works until `stop`, or SIGTERM or SIGINT, which stop it with `grace`; a second one gives all jobs back, and a third
   * one ends the process. Throws permanent errors.
   *
   * An earlier `stop` ends it at once. After it has returned, it can be called again.
   */
  async run(options: RunOptions = {}): Promise<void> {
    known(options, "signals grace");
    const { signals = true, grace } = options;
    oneOf(signals, "signals", true, false);
    if (grace !== undefined) milliseconds(grace, "grace");
    if (this.#isRunning) throw new DehydratorError("the worker is running");
    const free: (() => void)[] = [];
    this.#isRunning = true;
    const deaf = signals ? onSignal((count) => this.stop(count > 1 ? 0 : grace)) : () => {};
    this.#places.clear();
    this.#ended = new AbortController();
    // Node warns of eleven listeners, and each key has some.
    setMaxListeners(0, this.#ended.signal);
    try {
      for (const queue of this.queues) free.push(internals(queue).hold());
      const ones = this.queues.map((queue) => internals(queue).one);
      await Promise.all(ones.map((one) => one?.checkAlone(this.#patiently())));
      const isTogether = ones.every((one) => one !== undefined && one.tag === ones[0]?.tag);
      await (isTogether ? this.#runTogether(ones as Part<T>[]) : this.#runLanes());
    } catch (error) {
      // After the grace, the connections are closed, whatever they wait for.
      if (!this.#stopping || !(passes(error) || this.#left)) throw error;
    } finally {
      deaf();
      this.#endGrace();
      this.#isRunning = this.#stopping = this.#left = false;
      for (const one of free) one();
    }
  }

  #begun(): void {
    const names = this.queues.map(({ name }) => name);
    this.#tell("begun", names, this.#terms.concurrency);
    this.#ended.signal.addEventListener("abort", () => this.#tell("ended", names));
  }

  /** Polls all queues by one command. */
  async #runTogether(parts: readonly Part<T>[]): Promise<void> {
    const server = this.#another(parts[0]!);
    try {
      await server.check(this.#patiently());
      for (const part of parts) await this.#serveKey(part, server);
      this.#listen(parts);
      this.#begun();
      const keys = parts.map(({ verbs }) => verbs.key);
      while (!this.#stopping) await this.#take(server, keys);
    } finally {
      await this.#finish();
      this.#hangUp(server);
    }
  }

  /** Polls each key of the queues by commands of its own: they are on several nodes. */
  async #runLanes(): Promise<void> {
    const permits = new Permits(this.#terms.concurrency, MOST_AT_ONCE);
    const tell = (error: unknown) => this.#tell("interrupted", error);
    const crewOf = (_: Queue<T>, part: Part<T>) => this.#crewOf(part);
    const lanes = new Lanes(this.queues, { stopping: () => this.#stopping, tell, crewOf }, permits);
    this.#roomy = () => this.#stopping && lanes.stop();
    this.#begun();
    try {
      await lanes.run();
    } finally {
      await this.#finish();
    }
  }

  #crewOf(part: Part<T>): Crew {
    const server = this.#another(part);
    const { block } = this.#terms;
    let isServed = false;
    return {
      stopping: () => this.#stopping,
      poll: async (count, blocks, { tell }) => {
        const how = this.#patiently(tell);
        if (!isServed) {
          await server.check(how);
          await this.#serveKey(part, server, how);
          this.#listen([part]);
          isServed = true;
        }
        return this.#poll(server, [part.verbs.key], count, blocks ? block : undefined, how);
      },
      begin: (delivery) => this.#begin(delivery),
      giveBack: (delivery) => this.#giveBack(delivery),
      close: () => this.#hangUp(server),
    };
  }

  /** Settles and renews the jobs of this key from now on. */
  async #serveKey(part: Part<T>, server: Server, how = this.#patiently()): Promise<void> {
    const { key } = part.verbs;
    if (this.#places.has(key)) return;
    const settling = new Settling((deliveries) =>
      this.#ask(part, replicated(part.verbs.settle(deliveries), this.#terms.waitReplicas)),
    );
    const place = { part, settling, attempts: this.#terms.attempts ?? null, isUnset: this.#terms.attempts !== null };
    await this.#setPolicy(place, (question) => server.ask(question, how));
    this.#places.set(key, place);
    this.#renewals.push(this.#renew(place));
  }

  /** Sets the policy of a key, unless it has one; a full server is asked again. */
  async #setPolicy(place: Place<T>, ask: <A>(question: Question<A>) => Promise<A>): Promise<void> {
    if (!place.isUnset) return;
    const { verbs, queue } = place.part;
    const { attempts, keepDead } = this.#terms;
    place.attempts = attempts ?? ATTEMPTS;
    try {
      if (!(await ask(verbs.onDue({ attempts: place.attempts, keepDead }, true)))) {
        const most = await this.#policyOf(place, ask);
        if (attempts != null && most !== attempts) this.#tell("overruled", queue, most, attempts);
        place.attempts = Math.min(attempts ?? most, most);
      }
      place.isUnset = false;
    } catch (error) {
      if (!(error instanceof QueueFullError)) throw error;
      this.#tell("crashed", error, `the policy of ${queue}`);
    }
  }

  /** Returns the attempts that the server gives a job. */
  async #policyOf({ part, attempts }: Place<T>, ask: <A>(question: Question<A>) => Promise<A>): Promise<number> {
    const { policy } = (await ask(part.verbs.info())) as { policy?: { deliveries?: number } };
    return policy?.deliveries || (attempts ?? ATTEMPTS);
  }

  /** Renews at once what somebody has cancelled: the reply tells that it is lost. */
  #listen(parts: readonly Part<T>[]): void {
    const places = new Map(parts.map((part) => [part.verbs.key, part]));
    const hear = (key: string, id: Buffer) => {
      const some = this.#held.of(key).filter(({ idBytes }) => idBytes.equals(id));
      void this.#renewSome(places.get(key)!, some);
    };
    // A stop waits for none that is being opened.
    void listen(parts[0]!.maker, [...places.keys()], hear, this.#ended.signal);
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
    const how = this.#resending(Number.POSITIVE_INFINITY, () => this.#stopping);
    const both = (error: unknown) => {
      tell?.(error);
      how.tell(error);
    };
    return { ...how, reply: undefined, tell: both };
  }

  #resending(patience: number, giveUp: () => boolean) {
    const tell = (error: unknown) => this.#tell("interrupted", error);
    return { patience, giveUp, tell, reply: this.#reply };
  }

  /** Waits for free capacity, and for up to that many jobs. */
  async #take(server: Server, keys: readonly string[]): Promise<void> {
    const { concurrency, block } = this.#terms;
    const room = Math.min(concurrency - this.#serving.size, MOST_AT_ONCE);
    if (room === 0) {
      await new Promise<void>((resolve) => {
        this.#roomy = resolve;
      });
      return;
    }
    for (const delivery of await this.#poll(server, keys, room, block)) void this.#begin(delivery);
  }

  #begin(delivery: Delivery): Promise<void> {
    const serving: Promise<void> = this.#serve(delivery).finally(() => {
      this.#serving.delete(serving);
      this.#roomy();
    });
    this.#serving.add(serving);
    return serving;
  }

  /** Returns the jobs that are due, with the names of their queues. */
  async #poll(
    server: Server,
    keys: readonly string[],
    room: number,
    block?: number,
    how = this.#patiently(),
  ): Promise<Delivery[]> {
    const began = performance.now();
    const found = await server.ask(poll(keys, room, this.#terms.lease, block), how);
    const queue = this.#places.get(found[0]?.key ?? "")?.part.queue;
    const deliveries = queue === undefined || queue === found[0]?.key ? found : found.map((one) => ({ ...one, queue }));
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
      const renewed = await server.ask(replicated(verbs.renew(lease, deliveries), waitReplicas), how);
      return deliveries.filter((_, n) => renewed[n]);
    } catch (error) {
      if (!this.#stopping || !passes(error)) throw error;
      await Promise.all(deliveries.map((delivery) => this.#giveBack(delivery)));
      return [];
    }
  }

  /** Gives back a job that was not begun, or that a stop cut off: other workers can do it. */
  async #giveBack(delivery: Delivery, reason = ""): Promise<void> {
    const { part } = this.#places.get(delivery.key)!;
    try {
      await this.#ask(part, part.verbs.giveBack(delivery, reason));
    } catch (error) {
      // It is delivered again when its lease expires.
      this.#tell("crashed", error, "the return of a job");
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
    const place = this.#places.get(delivery.key)!;
    const { part, settling } = place;
    // The POLL was blocked in the server when the stop was requested.
    if (this.#stopping) return this.#giveBack(delivery);
    const ending = new AbortController();
    let job: Job<T>;
    try {
      const { headers, element } = unwrap(delivery.element);
      job = this.#jobOf(part, delivery, part.verbs.codec.decode(element), headers, ending.signal);
    } catch (error) {
      return this.#bury(part, delivery, `it cannot be decoded: ${reasonOf(error)}`);
    }
    this.#held.add(delivery, job, ending);
    const began = performance.now();
    let failure: { error: unknown } | undefined;
    try {
      this.#tell("started", job);
      await this.#hooks.working(job, () => this.#workOn(job, ending));
    } catch (error) {
      failure = { error };
    }
    const ms = performance.now() - began;
    if (!this.#held.remove(delivery)) return;
    if (failure === undefined) {
      // False can mean that a first SETTLE worked, but its reply was lost.
      await this.#hooks.settling(job, "settle", () => settling.settle(delivery));
      return this.#tell("succeeded", job, ms);
    }
    const { reason: because } = ending.signal;
    if (failure.error === because && because instanceof JobLostError) {
      await this.#giveBack(delivery, because.message);
      return this.#tell("lost", job, because);
    }
    const most = await this.#attemptsOf(place, delivery);
    const then = verdict(failure.error, delivery.attempt, most, this.#terms.backoff);
    const { delay, reason } = then;
    const changed = withHeaders(delivery, job.headers);
    if (delay === undefined) {
      return this.#hooks.settling(job, "bury", () => this.#bury(part, delivery, reason, changed));
    }
    await this.#hooks.settling(job, "release", () => this.#release(part, delivery, { ...then, delay }, changed));
    this.#tell("retried", job, ms, failure.error, delay);
  }

  /** Returns the attempts of a job. With `attempts` null, the queue has its own policy, or none. */
  async #attemptsOf(place: Place<T>, { idBytes, attempt }: Delivery): Promise<number | null> {
    const { attempts } = this.#terms;
    if (attempts === null) return null;
    const ask = <A>(question: Question<A>) => this.#ask(place.part, question);
    const own = (await ask(place.part.verbs.look(idBytes)))?.attempts;
    if (own === undefined && attempt >= place.attempts!) {
      // Somebody may have raised it.
      const most = await this.#policyOf(place, ask);
      place.attempts = Math.min(attempts ?? most, most);
    }
    return own ?? place.attempts;
  }

  #jobOf(part: Part<T>, delivery: Delivery, payload: T, headers: Job["headers"], signal: AbortSignal): Job<T> {
    const { id, idBytes, attempt, token } = delivery;
    const group = async () => (await this.#ask(part, part.verbs.look(idBytes)))?.group ?? null;
    return { id, idBytes, payload, attempt, queue: part.queue, token, signal, headers, group };
  }

  /** Waits for the work, at most as long as a stop or its timeout allow. */
  async #workOn(job: Job<T>, ending: AbortController): Promise<void> {
    const timeout = Number(job.headers.timeout ?? this.#terms.timeout);
    const { keepPlace } = this.#terms;
    let leave!: () => void;
    let endTimeout = () => {};
    const left = new Promise<never>((_, reject) => {
      const end = (because: Error, isLeft: boolean) => {
        // Before the work hears of it, and fails by that.
        if (isLeft) reject(because);
        ending.abort(because);
      };
      leave = () => end(new JobLostError("stopped"), true);
      if (timeout > 0) {
        const late = new JobTimeoutError(`the work took longer than ${timeout} ms`);
        endTimeout = after(timeout, () => end(late, !keepPlace));
      }
    });
    this.#leaving.add(leave);
    try {
      await Promise.race([this.#work(job), left]);
    } catch (error) {
      const { reason } = ending.signal;
      const isOwn = error instanceof Reject || error instanceof Retry;
      throw reason instanceof JobTimeoutError && !isOwn ? reason : error;
    } finally {
      endTimeout();
      this.#leaving.delete(leave);
    }
  }

  /** Gives back a job whose work failed. */
  async #release(part: Part<T>, one: Delivery, then: Verdict & { delay: number }, changed?: Buffer): Promise<void> {
    try {
      await this.#ask(part, part.verbs.release(then.delay, one, then, changed));
    } catch (error) {
      if (!(error instanceof QueueFullError || error instanceof TooLateError)) throw error;
      // The server has no room for other headers, or allows no such delay.
      await this.#ask(part, part.verbs.release(Math.min(then.delay, this.#terms.backoff.first), one, then));
    }
  }

  async #bury(part: Part<T>, delivery: Delivery, reason: string, changed?: Buffer): Promise<void> {
    let told = reason;
    const rejecting = this.#ask(part, part.verbs.reject(delivery, reason, changed)).catch((error) => {
      // The server has no room for other headers.
      if (!(error instanceof QueueFullError)) throw error;
      return this.#ask(part, part.verbs.reject(delivery, reason));
    });
    // False can mean that a first REJECT worked, but its reply was lost.
    if ((await rejecting.catch(withoutPolicy)) === null) {
      const { most } = this.#terms.backoff;
      await this.#ask(part, part.verbs.release(most, delivery, { reason }));
      told = `${reason}; it waits for ${most} ms, for the queue has no policy for dead letters`;
    }
    this.#tell("buried", delivery, told);
  }

  /** Retries for the duration of a lease: after that, the reply is useless. Only once when a stop has timed out. */
  #ask<A>({ server }: Part<T>, question: Question<A>): Promise<A> {
    return server.ask(
      question,
      this.#resending(Math.max(this.#terms.lease, 10_000), () => this.#left),
    );
  }

  /** Renews the current jobs of a key, three times per lease, however long that takes, until the worker has ended. */
  async #renew(place: Place<T>): Promise<void> {
    const { signal } = this.#ended;
    const third = this.#terms.lease / 3;
    for (let next = performance.now() + third; ; next = Math.max(next + third, performance.now())) {
      const wait = timed(Math.max(0, next - performance.now()));
      if (!(await sleep(wait, true, { signal }).catch(() => false))) return;
      const held = this.#held.of(place.part.verbs.key);
      for (let i = 0; i < held.length; i += BATCH) await this.#renewSome(place.part, held.slice(i, i + BATCH));
      await this.#setPolicy(place, (question) => place.part.server.ask(question, this.#briefly())).catch((error) =>
        this.#tell("crashed", error, "the policy of a queue"),
      );
    }
  }

  /** Resends until the next renewal. */
  #briefly(): Patience {
    return this.#resending(this.#terms.lease / 3, () => this.#ended.signal.aborted);
  }

  async #renewSome({ server, verbs }: Part<T>, some: readonly Delivery[]): Promise<void> {
    if (some.length === 0) return;
    const { lease } = this.#terms;
    try {
      const since = performance.now();
      const renewed = await server.ask(verbs.renew(lease, some), this.#briefly());
      for (const [job, why] of this.#held.renew(some, renewed, since, lease)) this.#tell("lost", job, why);
    } catch (error) {
      this.#tell("crashed", error, "a renewal");
    }
  }
}

/** Returns null for the error that dead letters go nowhere. */
function withoutPolicy(error: unknown): null {
  if (/^NORULE/.test((error as Error).message)) return null;
  throw error;
}

/** Returns the element of a delivery with these headers, or undefined if it has them. */
function withHeaders(delivery: Delivery, headers: Job["headers"]): Buffer | undefined {
  const { headers: before, element } = unwrap(delivery.element);
  if (JSON.stringify(before) === JSON.stringify(headers)) return undefined;
  return Buffer.from(wrap(headers, element));
}
