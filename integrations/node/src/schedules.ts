// The schedules of a queue, which the server serves.

import { ReplyError, ScheduleError } from "./errors.js";
import type { Id, OwnTerms, Seen } from "./job.js";
import type { Part } from "./keys.js";
import { known, milliseconds, named, oneOf, unixMilliseconds, whole } from "./moment.js";
import { bytes, pairs, text } from "./reply.js";
import { OWN, ownWords, type Question, type Word } from "./verbs.js";

/** When a schedule occurs, by `cron` or at an `interval`, and the options of its jobs. */
export interface ScheduleOptions extends OwnTerms {
  /** The five fields of a crontab: `0 9 * * 1-5`. */
  cron?: string;
  /** The time zone of `cron`, such as `Europe/Berlin`; by default UTC. */
  zone?: string;
  /** How often it occurs, in milliseconds, from 1 on. */
  interval?: number;
  /** No occurrence is before this, and intervals count from here; by default from now. A Date, or milliseconds since 1970. */
  from?: Date | number;
  /** No occurrence is after this; by default it has no end. */
  until?: Date | number;
  /** How many jobs there are at most, from 1 on; by default without limit. */
  times?: number;
  /**
   * What becomes of occurrences while there was no server, or the queue was full: `one` job for the last of them, which
   * is the default, `all`, or `none`, if they are more than a minute late.
   */
  missed?: "one" | "all" | "none";
  /** `skip`: an occurrence is missed while the job of the last one waits or is done. The default is `allow`. */
  overlap?: "allow" | "skip";
  /** Each job is put up to so many milliseconds later, by default 0, so that not all schedules begin together. */
  jitter?: number;
}

/** What a schedule was made with; null where nobody said. */
type Told<K extends keyof ScheduleOptions> = {
  readonly [P in keyof Pick<ScheduleOptions, K>]-?: Exclude<ScheduleOptions[P], undefined> | null;
};

/** A schedule, as a reader sees it. */
export interface Schedule<T = unknown>
  extends Readonly<Pick<ScheduleOptions, "cron" | "zone" | "interval">>,
    Readonly<Required<Pick<ScheduleOptions, "missed" | "overlap" | "jitter">>>,
    Told<"times" | "within" | "attempts" | "timeout">,
    Pick<Seen<T>, "payload" | "error"> {
  /** As `every` named it. */
  readonly name: string;
  /** The name as bytes. */
  readonly nameBytes: Buffer;
  /** No occurrence is before this. */
  readonly from: Date | null;
  /** No occurrence is after this. */
  readonly until: Date | null;
  /** The group of its jobs. */
  readonly group: string | null;
  /** The next occurrence; null if it has ended, or is paused. */
  readonly next: Date | null;
  /** The occurrence whose job was put last. */
  readonly last: Date | null;
  /** By how many milliseconds that was late. */
  readonly late: number | null;
  /** How many jobs were put. */
  readonly stored: number;
  /** How many occurrences were missed. */
  readonly misses: number;
  /** Whether `pause` holds it. */
  readonly paused: boolean;
}

/** Lists, reads, pauses and removes the schedules of a queue, by their names. */
export class Schedules<T = unknown> {
  readonly #part: () => Part<T>;

  /** `part`: the key that has them. */
  constructor(part: () => Part<T>) {
    this.#part = part;
  }

  /** See `Queue.every`. */
  async every(name: Id, payload: T, options: ScheduleOptions): Promise<boolean> {
    known(options, `cron zone interval from until times missed overlap jitter ${OWN}`);
    const words = [planOf(options), this.#part().verbs.wrapped(payload, {}, options), nameOf(name)];
    return this.#ask("EVERY", [...words, ...optionWords(options)], (reply) => reply === 1).catch((error) => {
      throw error instanceof ReplyError && error.code === "ERR"
        ? new ScheduleError(error.message, { cause: error })
        : error;
    });
  }

  /** Reads a schedule; returns null if there is none. */
  async get(name: Id): Promise<Schedule<T> | null> {
    return this.#ask("SCHEDULES", [nameOf(name)], (reply) => this.#schedules(reply)[0] ?? null);
  }

  /** Yields the schedules, the next one first: as many as one reply of the server has. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Schedule<T>> {
    yield* await this.#ask("SCHEDULES", [], (reply) => this.#schedules(reply) as Schedule<T>[]);
  }

  /** Removes a schedule; returns whether it existed. Its jobs in the queue stay. */
  async remove(name: Id): Promise<boolean> {
    return this.#ask("UNSCHEDULE", [nameOf(name)], (reply) => reply === 1);
  }

  /** Makes a schedule skip its occurrences until `resume`; returns whether it exists. */
  async pause(name: Id): Promise<boolean> {
    return this.#ask("PAUSE", ["SCHEDULE", nameOf(name)], () => true).catch(isMissing);
  }

  /** Ends a pause; returns whether there was one. */
  async resume(name: Id): Promise<boolean> {
    return this.#ask("RESUME", ["SCHEDULE", nameOf(name)], (reply) => reply === 1).catch(isMissing);
  }

  /** Puts a job of a schedule now, also during a pause; returns its id, or null if there is no such schedule. */
  async run(name: Id): Promise<string | null> {
    const told = await this.#ask("SCHEDULES", [nameOf(name)], (reply) => (reply as unknown[])[0]);
    if (told === null || told === undefined) return null;
    const of = pairs(told);
    const words = [
      ["WITHIN", "within"],
      ["DELIVERIES", "deliveries-limit"],
      ["GROUP", "group"],
    ] as const;
    const terms = words.flatMap(([word, name]) => (of.get(name) ? [word, bytes(of.get(name))] : []));
    const id = Buffer.concat([nameOf(name), Buffer.from(`@${Date.now()}`)]);
    return this.#ask("PUSH", [0, bytes(of.get("element")), id, "NX", ...terms], () => text(id));
  }

  async #ask<A>(command: string, words: readonly Word[], read: Question<A>["read"]): Promise<A> {
    const { server, verbs } = this.#part();
    return server.ask(verbs.on(command, words, read));
  }

  #schedules(reply: unknown): (Schedule<T> | null)[] {
    return (reply as unknown[]).map((told) => (told === null ? null : this.#schedule(pairs(told))));
  }

  #schedule(told: Map<string, unknown>): Schedule<T> {
    const number = (name: string) => (told.get(name) === null ? null : Number(told.get(name)));
    const date = (name: string) => (number(name) === null ? null : new Date(number(name)!));
    const word = (name: string) => (told.get(name) === null ? null : text(told.get(name)));
    const plan = word("plan")!;
    const { payload, error, timeout = null } = this.#part().verbs.opened(told.get("element"));
    const when = /^\d+$/.test(plan) ? { interval: Number(plan) } : { cron: plan, zone: word("zone") ?? "UTC" };
    return {
      name: word("name")!,
      nameBytes: bytes(told.get("name")),
      payload,
      ...(error === undefined ? {} : { error }),
      ...when,
      from: date("from"),
      until: date("until"),
      times: number("times"),
      missed: word("if-missed")!.toLowerCase() as Schedule["missed"],
      overlap: word("if-overlap")!.toLowerCase() as Schedule["overlap"],
      jitter: number("jitter") ?? 0,
      within: number("within"),
      attempts: number("deliveries-limit") || null,
      timeout,
      group: word("group"),
      next: date("next"),
      last: date("last"),
      late: number("late"),
      stored: number("stored") ?? 0,
      misses: number("missed") ?? 0,
      paused: number("paused") === 1,
    };
  }
}

function planOf({ cron, zone, interval }: ScheduleOptions): Word {
  if ((cron === undefined) === (interval === undefined)) {
    throw new TypeError("a schedule has either a `cron` or an `interval`");
  }
  if (cron === undefined && zone !== undefined) throw new TypeError("only a `cron` has a `zone`");
  if (cron === undefined) return milliseconds(interval!, "interval", 1);
  // The server takes a number for an interval.
  if (/\s/.test(named(cron, "cron").trim())) return cron;
  throw new TypeError(`\`cron\` has five fields, and not ${cron}`);
}

function optionWords(options: ScheduleOptions): Word[] {
  const { zone, from, until, times, missed, overlap, jitter } = options;
  const words: Word[] = zone === undefined ? [] : ["ZONE", named(zone, "zone")];
  if (from !== undefined) words.push("FROM", unixMilliseconds(from, "from"));
  if (until !== undefined) words.push("UNTIL", unixMilliseconds(until, "until"));
  if (times !== undefined) words.push("TIMES", whole(times, "times", 1));
  if (missed !== undefined) words.push("MISSED", oneOf(missed, "missed", "one", "all", "none").toUpperCase());
  if (overlap !== undefined) words.push("OVERLAP", oneOf(overlap, "overlap", "allow", "skip").toUpperCase());
  if (jitter !== undefined) words.push("JITTER", milliseconds(jitter, "jitter"));
  return [...words, ...ownWords(options)];
}

/** Returns false for the error that there is no such schedule. */
function isMissing(error: unknown): boolean {
  if (String(error).includes("no such schedule")) return false;
  throw error;
}

function nameOf(name: Id): Buffer {
  return Buffer.from(named(name, "name") as string);
}
