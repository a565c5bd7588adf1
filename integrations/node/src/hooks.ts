// The events of a worker: written to the console, and passed to overridden hooks.

import { debuglog } from "node:util";
import { type Headers, NO_HEADERS } from "./envelope.js";
import type { Delivery, Id, Job } from "./job.js";

const debug = debuglog("dehydrator");

/** Writes problems to the console, and the rest if NODE_DEBUG=dehydrator. Override what you need. */
export class Hooks {
  /** Surrounds a put, of several payloads if there are several ids; passes the headers of the jobs to `send`. */
  sending<A>(
    _queue: string,
    _ids: readonly (Id | undefined)[],
    send: (headers: Readonly<Headers>) => Promise<A>,
  ): Promise<A> {
    return send(NO_HEADERS);
  }

  /** Called with the jobs that a POLL of this duration replied. */
  received(_deliveries: readonly Delivery[], _ms: number): void {}

  /** Surrounds the work, whose errors pass through it. It may change the headers of the job. */
  working<A>(_job: Job, work: () => Promise<A>): Promise<A> {
    return work();
  }

  /** Surrounds the command that ends an attempt: `bury` makes a dead letter. */
  settling<A>(_job: Job, _how: "settle" | "release" | "bury", settle: () => Promise<A>): Promise<A> {
    return settle();
  }

  started(job: Job): void {
    debug("%s: %s begins, attempt %d", job.queue, job.id, job.attempt);
  }

  succeeded(job: Job, ms: number): void {
    debug("%s: %s is done in %d ms", job.queue, job.id, ms);
  }

  retried(job: Job, _ms: number, error: unknown, delay: number): void {
    const again = `attempt ${job.attempt}, again in ${Math.round(delay)} ms`;
    console.warn(`dehydrator: ${job.queue}: ${job.id} failed, ${again}: ${error}`);
  }

  /** Called for jobs that became dead letters here, but not for those that the server moved itself. */
  buried(delivery: Delivery, reason: string): void {
    console.error(`dehydrator: ${delivery.queue}: ${delivery.id} is a dead letter: ${reason}`);
  }

  /** Called for a job that was cancelled, or that another worker has by now. */
  lost(job: Job): void {
    console.warn(`dehydrator: ${job.queue}: ${job.id} was lost: cancelled, or its lease ran out`);
  }

  /** Called when the queue refused a job of a schedule, because it is full, for example. It is put again in a second. */
  refused(queue: string, schedule: string, reason: string): void {
    console.warn(`dehydrator: ${queue}: the job of schedule ${schedule} was refused, again in 1 s: ${reason}`);
  }

  /** Called when the worker starts, for a queue with schedules that it does not serve: the library is missing. */
  unserved(queue: string): void {
    console.warn(`dehydrator: ${queue} has schedules, which this worker does not serve: \`npm install croner\``);
  }

  /** Called each time before a command is resent. */
  interrupted(error: unknown): void {
    console.warn(`dehydrator: the server does not answer, asking again: ${error}`);
  }

  /** Called for errors outside of the work: by the server or by a hook; with what failed, for example a renewal. */
  crashed(error: unknown, what: string): void {
    console.error(`dehydrator: ${what} failed:`, error);
  }
}

/** The hooks that surround something, which is their last argument. */
type Surrounding = "sending" | "working" | "settling";
type Named = Exclude<keyof Hooks, Surrounding>;

/** Calls a hook, without waiting for its result. */
export type Tell = <Name extends Named>(name: Name, ...told: Parameters<Hooks[Name]>) => void;

/** Calls hooks, some of which are overridden. If one throws, `crashed` is called, and the worker continues. */
export class Guarded {
  readonly tell: Tell;
  readonly #hooks: Hooks;

  constructor(some: Partial<Hooks> = {}) {
    this.#hooks = some instanceof Hooks ? some : Object.assign(new Hooks(), some);
    this.tell = tellerOf(this.#hooks);
  }

  sending<A>(queue: string, ids: readonly (Id | undefined)[], send: (headers: Headers) => Promise<A>): Promise<A> {
    return this.#around("sending", (once) => this.#hooks.sending(queue, ids, once), send);
  }

  working<A>(job: Job, work: () => Promise<A>): Promise<A> {
    return this.#around("working", (once) => this.#hooks.working(job, () => once(NO_HEADERS)), work);
  }

  settling<A>(job: Job, how: "settle" | "release" | "bury", settle: () => Promise<A>): Promise<A> {
    return this.#around("settling", (once) => this.#hooks.settling(job, how, () => once(NO_HEADERS)), settle);
  }

  async #around<A>(
    name: Surrounding,
    hook: (once: (headers: Headers) => Promise<A>) => Promise<A>,
    run: (headers: Headers) => Promise<A>,
  ): Promise<A> {
    if (this.#hooks[name] === Hooks.prototype[name]) return run(NO_HEADERS);
    let running: Promise<A> | undefined;
    const once = (headers: Headers) => {
      running ??= run(headers);
      return running;
    };
    try {
      await hook(once);
    } catch (error) {
      // Errors of what it surrounds pass through it.
      const isPassed = await running?.then(
        () => false,
        (own) => own === error,
      );
      if (!isPassed) this.tell("crashed", error, `the hook ${name}`);
    }
    return running ?? run(NO_HEADERS);
  }
}

function tellerOf(hooks: Hooks): Tell {
  const own = new Hooks();
  const tell: Tell = async (name, ...told) => {
    try {
      // A hook can be asynchronous: its rejection would end the process.
      await Reflect.apply(hooks[name], hooks, told);
    } catch (error) {
      if (name !== "crashed") return tell("crashed", error, `the hook ${name}`);
      own.crashed(...(told as Parameters<Hooks["crashed"]>));
      own.crashed(error, "the hook crashed");
    }
  };
  return tell;
}
