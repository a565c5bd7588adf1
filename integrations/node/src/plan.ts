// What `Queue.every` was told about a schedule: when it occurs, and the options of its jobs.

import { Cron, cronLibrary } from "./cron.js";
import { milliseconds, unixMilliseconds } from "./moment.js";
import { Interval, type Occurrences } from "./occurrences.js";
import { LAST_MOMENT, NEW, proceed, type Rules, type State } from "./schedule.js";
import { type OwnTerms, ownWords, type Word } from "./verbs.js";

/** When a schedule occurs: by `cron`, or every so many `seconds`. Its jobs have `within`, `attempts` and `group`. */
export interface ScheduleOptions extends OwnTerms {
  /** The five fields of a crontab: `0 9 * * 1-5`. */
  cron?: string;
  /** The time zone of `cron`, such as `Europe/Berlin`; by default UTC. */
  zone?: string;
  seconds?: number;
  /** No occurrence is before this. A Date, or milliseconds since 1970. Intervals count from here. */
  starting?: Date | number;
  /** No occurrence is after this. */
  until?: Date | number;
  /** How many jobs there are at most. */
  times?: number;
  /**
   * What becomes of occurrences while no worker ran: `one` job for the last of them, which is the default, `all`, or
   * `none`, if they are more than a minute late.
   */
  missed?: Rules["missed"];
}

/** Durations and moments are in milliseconds. Strings are bytes, as Latin-1. */
interface Fields {
  readonly attempts: number | null;
  readonly cron: string | null;
  readonly group: string | null;
  readonly missed: Rules["missed"];
  readonly ms: number | null;
  readonly start: number | null;
  readonly times: number | null;
  readonly until: number | null;
  readonly within: number | null;
  readonly zone: string;
}

const DEFAULTS: Fields = {
  attempts: null,
  cron: null,
  group: null,
  missed: "one",
  ms: null,
  start: null,
  times: null,
  until: null,
  within: null,
  zone: "UTC",
};

const NAMES = Object.keys(DEFAULTS) as (keyof Fields)[];

export class Plan implements Rules {
  readonly missed: Rules["missed"];
  readonly until: number | null;
  readonly times: number | null;

  private constructor(readonly fields: Fields) {
    ({ missed: this.missed, until: this.until, times: this.times } = fields);
  }

  /** Throws RangeError for what makes no sense. */
  static of(options: ScheduleOptions): Plan {
    const { cron, zone, seconds, starting, until, times, missed = "one", attempts, within, group } = options;
    if ((cron === undefined) === (seconds === undefined)) {
      throw new RangeError("a schedule has either a `cron` or `seconds`");
    }
    if (cron === undefined && zone !== undefined) throw new RangeError("only a `cron` has a `zone`");
    if (!["one", "all", "none"].includes(missed)) throw new RangeError('`missed` is "one", "all" or "none"');
    if (times !== undefined && !(Number.isInteger(times) && times >= 1)) {
      throw new RangeError("`times` is a number from 1 on");
    }
    if (attempts !== undefined && !(Number.isInteger(attempts) && attempts >= 1 && attempts <= 65_535)) {
      throw new RangeError("`attempts` is from 1 to 65535");
    }
    if (within !== undefined && milliseconds(within) < 1) throw new RangeError("`within` is at least a millisecond");
    const named = group === undefined ? null : Buffer.from(group as string);
    if (named !== null && named.length > 1024) throw new RangeError("the name of a group has at most 1024 bytes");
    return new Plan({
      attempts: attempts ?? null,
      cron: cron === undefined ? null : cron.trim().split(/\s+/).join(" "),
      group: named === null ? null : named.toString("latin1"),
      missed,
      // Digits beyond a microsecond are rounding errors, as in 0.1 * 3.
      ms: seconds === undefined ? null : milliseconds(Math.round(seconds * 1e6) / 1e3),
      start: starting === undefined ? null : unixMilliseconds(starting),
      times: times ?? null,
      until: until === undefined ? null : Math.min(unixMilliseconds(until), LAST_MOMENT),
      within: within === undefined ? null : milliseconds(within),
      zone: zone ?? "UTC",
    });
  }

  /** Reads a line. The fields of a later version are refused, so that its schedules are left to that. */
  static decode(line: Buffer): Plan {
    const told = JSON.parse(line.toString("latin1")) as Partial<Fields>;
    const unknown = Object.keys(told).filter((name) => !NAMES.includes(name as keyof Fields));
    if (unknown.length > 0) throw new TypeError(`a later version made it, with ${unknown.join(", ")}`);
    return new Plan({ ...DEFAULTS, ...told });
  }

  /** Returns what is not default, in one line of JSON, whose fields are in order. */
  encode(): Buffer {
    const told = NAMES.map((name) => [name, this.fields[name]]).filter(
      ([name, value]) => value !== DEFAULTS[name as never],
    );
    return Buffer.from(JSON.stringify(Object.fromEntries(told)), "latin1");
  }

  /** Throws RangeError for a wrong cron text or zone. */
  async occurrences(): Promise<Occurrences> {
    const { cron, ms, zone } = this.fields;
    // Where schedules are made without the library, the workers would not serve them.
    const library = await cronLibrary();
    return cron === null ? new Interval(ms ?? 0) : new Cron(library, cron, zone);
  }

  /** Returns the state of a new schedule, whose first occurrence is not before now. */
  async begin(now: number): Promise<State> {
    const state = proceed(NEW, this, await this.#first(now));
    if (state.ended)
      throw new RangeError("the schedule never occurs: it has no occurrence from now on, or none until its end");
    return state;
  }

  async #first(now: number): Promise<number | null> {
    const [{ ms, start }, occurrences] = [this.fields, await this.occurrences()];
    if ((start ?? 0) > LAST_MOMENT) return null;
    if (ms === null) return occurrences.after(Math.max(now, start ?? 0) - 1);
    return start === null ? now + ms : start + Math.max(0, Math.ceil((now - start) / ms)) * ms;
  }

  /** Returns the state of a schedule whose plan was another one. */
  async succeed(before: Plan, state: State, now: number): Promise<State> {
    const isSameTime = (["cron", "zone", "ms", "start"] as const).every(
      (name) => this.fields[name] === before.fields[name],
    );
    if (state.ended || !isSameTime) return { ...(await this.begin(now)), paused: state.paused };
    return proceed(this.times === null ? { ...state, count: 0 } : state, this, state.next);
  }

  /** Returns the state without the occurrences until now. */
  async skip(state: State, now: number): Promise<State> {
    const occurrences = await this.occurrences();
    let skipped = state;
    while (skipped.next !== null && skipped.next <= now) {
      const due = occurrences.due(skipped.next, now);
      skipped = proceed(skipped, this, occurrences.after(due.at(due.count - 1)));
    }
    return skipped;
  }

  /** Returns the words of a PUSH after its key. */
  job(moment: number, id: Buffer, payload: Buffer): Word[] {
    return [0, payload, id, "NX", "AT", moment, ...ownWords(this.terms)];
  }

  /** The options of its jobs. */
  get terms(): OwnTerms {
    const { attempts, within, group } = this.fields;
    return {
      ...(within === null ? {} : { within }),
      ...(attempts === null ? {} : { attempts }),
      ...(group === null ? {} : { group: Buffer.from(group, "latin1") }),
    };
  }
}
