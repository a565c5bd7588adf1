// The events of a worker: logged, and passed to overridden hooks.

import { debuglog } from "node:util";
import { type Headers, NO_HEADERS } from "./envelope.js";
import { DehydratorError, type JobLostError, JobTimeoutError, Reject, Retry } from "./errors.js";
import type { Delivery, Id, Job } from "./job.js";
import { having, known } from "./moment.js";

const debug = debuglog("dehydrator");

/** Where to log: the console, or pino, winston and the like. */
export interface Logger {
  /** Called for jobs that begin and succeed. */
  debug(line: string): void;
  /** Called when a worker begins and ends. */
  info(line: string): void;
  /** Called for failed attempts, lost jobs, and a server that is away. */
  warn(line: string): void;
  /** Called for dead letters, and errors outside of the work. */
  error(line: string): void;
}

/** Standard error; the rest only if NODE_DEBUG=dehydrator. */
const CONSOLE: Logger = {
  debug: (line) => debug(line),
  info: (line) => console.warn(line),
  warn: (line) => console.warn(line),
  error: (line) => console.error(line),
};

/** Logs. Override what you need. */
export class Hooks {
  /** Where the hooks log that nobody overrides. */
  logger: Logger = CONSOLE;

  /** Surrounds a put, of several payloads if there are several ids; passes the headers of the jobs to `send`. */
  sending<A>(_queue: string, _ids: readonly Id[], send: (headers: Readonly<Headers>) => Promise<A>): Promise<A> {
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

  /** Called when the worker begins to take jobs. */
  begun(queues: readonly string[], concurrency: number): void {
    this.#log("info", `a worker of ${queues.join(", ")} has started, for ${concurrency} jobs at a time`);
  }

  /** Called at the start, if the policy of the queue says other `attempts` than this worker asks for: the fewer hold. */
  overruled(queue: string, attempts: number, asked: number): void {
    this.#log("warn", `queue ${queue} has attempts=${attempts} in the server; this worker asks for ${asked}`);
  }

  /** Called when the worker has stopped. */
  ended(queues: readonly string[]): void {
    this.#log("info", `the worker of ${queues.join(", ")} has stopped`);
  }

  /** Called before the work. */
  started(job: Job): void {
    this.#log("debug", `${job.queue}: ${job.id} begins, attempt ${job.attempt}`);
  }

  /** Called when the job is settled, whose work took so many milliseconds. */
  succeeded(job: Job, ms: number): void {
    this.#log("debug", `${job.queue}: ${job.id} is done in ${Math.round(ms)} ms`);
  }

  /** Called when an attempt has failed, after so many milliseconds, and the next one is in `delay` milliseconds. */
  retried(job: Job, _ms: number, error: unknown, delay: number): void {
    const again = `attempt ${job.attempt}, again in ${Math.round(delay)} ms`;
    this.#log("warn", `${job.queue}: ${job.id} failed, ${again}: ${reasonOf(error)}`);
  }

  /** Called for jobs that became dead letters here, but not for those that the server moved itself. */
  buried(delivery: Delivery, reason: string): void {
    this.#log("error", `${delivery.queue}: ${delivery.id} is a dead letter: ${reason}`);
  }

  /** Called for a job that was cancelled, that another worker has by now, or that a stop gave back. */
  lost(job: Job, why: JobLostError): void {
    const how = why.why === "stopped" ? "given back, uncounted" : "lost";
    this.#log("warn", `${job.queue}: ${job.id} was ${how}: ${why.message}`);
  }

  /** Called each time before a command is resent. */
  interrupted(error: unknown): void {
    this.#log("warn", `the server does not answer, asking again: ${error}`);
  }

  /** Called for errors outside of the work: by the server or by a hook; with what failed, for example a renewal. */
  crashed(error: unknown, what: string): void {
    this.#log("error", `${what} failed: ${error instanceof DehydratorError ? error : stackOf(error)}`);
  }

  #log(level: keyof Logger, line: string): void {
    this.logger[level](`dehydrator: ${line}`);
  }
}

/** Returns why an attempt failed: the error, then its stack, unless that tells nothing. */
export function reasonOf(error: unknown): string {
  if (error instanceof Reject) return error.message || "rejected";
  return error instanceof Retry || error instanceof JobTimeoutError ? `${error}` : stackOf(error);
}

/** Returns what was thrown as text, with its stack: whatever it is, and whatever its methods do. */
export function stackOf(error: unknown): string {
  try {
    const [text, stack] = [`${error}`, (error as Error | null)?.stack];
    // What precedes the frames tells the name of another class, or a message that has changed.
    const at = typeof stack === "string" ? stack.indexOf("\n    at ") : -1;
    return at < 0 ? text : `${text}${stack!.slice(at)}`;
  } catch {
    return `what was thrown is no text: ${typeof error}`;
  }
}

const NAMES = ["logger", ...Object.getOwnPropertyNames(Hooks.prototype).slice(1)].join(" ");

/** The hooks that surround something, which is their last argument. */
type Surrounding = "sending" | "working" | "settling";
type Named = Exclude<keyof Hooks, Surrounding | "logger">;

/** Calls a hook, without waiting for its result. */
export type Tell = <Name extends Named>(name: Name, ...told: Parameters<Hooks[Name]>) => void;

/** Calls hooks, some of which are overridden. If one throws, `crashed` is called, and the worker continues. */
export class Guarded {
  readonly tell: Tell;
  readonly #hooks: Hooks;

  constructor(some: Partial<Hooks> = {}, logger?: Logger) {
    // One of a class may have more.
    if (!some || [Object.prototype, String.prototype].includes(Object.getPrototypeOf(some)))
      known(some, NAMES, "hooks");
    this.#hooks = some instanceof Hooks ? some : Object.assign(new Hooks(), some);
    if (logger !== undefined) this.#hooks.logger = having(logger, "logger", "debug", "info", "warn", "error");
    this.tell = tellerOf(this.#hooks);
  }

  sending<A>(queue: string, ids: readonly Id[], send: (headers: Headers) => Promise<A>): Promise<A> {
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
  own.logger = hooks.logger;
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
