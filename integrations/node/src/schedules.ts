// The schedules of a queue: what `Queue.every` makes, and what the workers serve.

import type { Delivery, Id } from "./job.js";
import type { Ask, Keys as KeysOfQueue } from "./keys.js";
import { Plan, type ScheduleOptions } from "./plan.js";
import { bytes, text } from "./reply.js";
import {
  type Change,
  decode,
  type Element,
  encode,
  type Keys,
  LAST_MOMENT,
  look,
  type Rules,
  type State,
  step,
  store,
} from "./schedule.js";
import { BATCH, type Question, ask as question, type Verbs, type Word } from "./verbs.js";

/** The maximum size of the payloads of one command. */
const BATCH_BYTES = 1 << 20;

/** A schedule, as a reader sees it. */
export interface Schedule<T = unknown> extends Readonly<ScheduleOptions> {
  readonly name: string;
  readonly nameBytes: Buffer;
  readonly payload: T;
  readonly starting?: Date;
  readonly until?: Date;
  readonly missed: Rules["missed"];
  readonly group?: string;
  /** The next occurrence; null if it has ended. */
  readonly next: Date | null;
  /** The occurrence whose job was put last, and by how many milliseconds that was late. */
  readonly last: Date | null;
  readonly late: number;
  /** How many occurrences were missed. */
  readonly misses: number;
  /** How many jobs were put, if `times` limits that. */
  readonly count: number;
  readonly paused: boolean;
  /** Whether `times` are used up, or `until` has passed. */
  readonly ended: boolean;
  /** Returns the next occurrences, which are skipped if it is paused. */
  upcoming(count?: number): Promise<Date[]>;
}

/**
 * Lists, reads, pauses and removes the schedules of a queue, by their names.
 *
 * Commands are resent as those of the queue, and take effect once.
 */
export class Schedules<T = unknown> {
  readonly #keys: Keys;
  readonly #verbs: Verbs<T>;
  readonly #queue: KeysOfQueue<T>;
  readonly #ask: Ask;

  constructor(
    /** The key of the schedules. */
    readonly key: string,
    queue: KeysOfQueue<T>,
  ) {
    const { verbs, server } = queue.home;
    this.#keys = [key, verbs.key];
    this.#verbs = verbs;
    this.#queue = queue;
    this.#ask = (question) => server.ask(question);
  }

  /** See `Queue.every`. */
  async every(name: Id, payload: T, options: ScheduleOptions): Promise<Schedule<T>> {
    const [id, plan] = [nameOf(name), Plan.of(options)];
    const made = { plan: plan.encode(), payload: bytes(this.#verbs.encode(payload)) };
    await plan.occurrences();
    for (;;) {
      const { now, element: before } = await this.#ask(look(this.key, id));
      const old = before === null ? null : decode(before);
      const isPlan = old?.plan.equals(made.plan);
      if (old !== null && isPlan && old.payload.equals(made.payload)) return this.#schedule(id, old);
      const state =
        old === null ? plan.begin(now) : isPlan ? old.state : plan.succeed(Plan.decode(old.plan), old.state, now);
      const after = { ...made, state: await state };
      if (await this.#store({ name: id, before, after, now })) return this.#schedule(id, after);
    }
  }

  async get(name: Id): Promise<Schedule<T> | null> {
    const id = nameOf(name);
    return this.#ask(
      question(["DEHYDRATOR.LOOK", this.key, id], (reply) =>
        reply === null ? null : this.#schedule(id, decode(bytes(reply))),
      ),
    );
  }

  /** Yields all schedules, in the order of their next occurrences, except for those beyond thirty days. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Schedule<T>> {
    for (let start: string | null = "-"; start !== null; ) {
      const words: Word[] = ["DEHYDRATOR.RANGE", this.key, start, "+", "COUNT", BATCH, "WITHELEMENTS"];
      const page: Question<[unknown, unknown[][]]> = question(words, (reply) => reply as never);
      const [next, rows]: [unknown, unknown[][]] = await this.#ask(page);
      for (const row of rows) yield this.#schedule(bytes(row[0]), decode(bytes(row.at(-1))));
      start = next === null ? null : text(next);
    }
  }

  /** Returns how many there are, with those that have ended. */
  size(): Promise<number> {
    return this.#ask(question(["DEHYDRATOR.LEN", this.key], Number));
  }

  /** Removes a schedule; returns whether it existed. Its jobs in the queue stay. */
  async remove(name: Id): Promise<boolean> {
    return this.#ask(question(["DEHYDRATOR.REM", this.key, nameOf(name)], (reply) => reply === 1));
  }

  /** Makes a schedule skip its occurrences until `resume`; returns whether it exists. */
  pause(name: Id): Promise<boolean> {
    return this.#change(name, (_, state) => ({ ...state, paused: true }));
  }

  /** Ends a pause; returns whether the schedule exists. */
  resume(name: Id): Promise<boolean> {
    return this.#change(name, async (plan, state, now) =>
      // As the workers do during a pause.
      state.paused ? { ...(await plan.skip(state, now)), paused: false } : state,
    );
  }

  /** Puts a job of a schedule now, also during a pause; returns its id, or null if there is no such schedule. */
  async run(name: Id): Promise<string | null> {
    const id = nameOf(name);
    const { now, element } = await this.#ask(look(this.key, id));
    if (element === null) return null;
    const { plan, payload } = decode(element);
    const job = jobId(id, now);
    const words = Plan.decode(plan).job(now, job, payload);
    return this.#queue.byId(job, ({ key }) => question(["DEHYDRATOR.PUSH", key, ...words], () => text(job)));
  }

  /** Puts the jobs of a schedule that a worker was given, and moves it on; returns the reason of a refusal. */
  async serve({ id: name, element: before, token }: Delivery, ask: Ask): Promise<string | undefined> {
    const old = decode(before);
    const plan = Plan.decode(old.plan);
    const occurrences = await plan.occurrences();
    const { now } = await ask(look(this.key, name));
    let most = Math.min(BATCH, Math.max(1, Math.floor(BATCH_BYTES / Math.max(1, old.payload.length))));
    for (;;) {
      const { state, jobs: moments } = step(old.state, occurrences, plan, now, most);
      const put = (ids: readonly Buffer[]) => {
        const jobs = moments.map((moment, n) => plan.job(moment, ids[n]!, old.payload));
        return store(this.#keys, { name, before, after: { ...old, state }, now, jobs, token });
      };
      const ids = moments.map((moment) => jobId(name, moment));
      const stored = await this.#queue.atHome(ids, put, ask);
      if (stored.fits === 0) return stored.refusal;
      most = stored.fits;
    }
  }

  /** Changes the state of a schedule; returns whether there is one. */
  async #change(
    name: Id,
    changed: (plan: Plan, state: State, now: number) => State | Promise<State>,
  ): Promise<boolean> {
    const id = nameOf(name);
    for (;;) {
      const { now, element: before } = await this.#ask(look(this.key, id));
      if (before === null) return false;
      const old = decode(before);
      const after = { ...old, state: await changed(Plan.decode(old.plan), old.state, now) };
      if (encode(after).equals(before) || (await this.#store({ name: id, before, after, now }))) return true;
    }
  }

  async #store(change: Change): Promise<boolean> {
    return (await this.#ask(store(this.#keys, change))).done;
  }

  #schedule(id: Buffer, { state, plan: line, payload }: Element): Schedule<T> {
    const plan = Plan.decode(line);
    const { group: _, ...terms } = plan.terms;
    const { cron, zone, ms, start, until, times, missed, group } = plan.fields;
    const date = (moment: number | null) => (moment === null ? null : new Date(moment));
    return {
      name: text(id),
      nameBytes: id,
      payload: this.#verbs.decode(payload),
      ...(cron === null ? {} : { cron, zone }),
      ...(ms === null ? {} : { seconds: ms / 1000 }),
      ...(start === null ? {} : { starting: new Date(start) }),
      ...(until === null ? {} : { until: new Date(until) }),
      ...(times === null ? {} : { times }),
      missed,
      ...terms,
      ...(group === null ? {} : { group: Buffer.from(group, "latin1").toString() }),
      next: date(state.next),
      last: date(state.last),
      late: state.late,
      misses: state.missed,
      count: state.count,
      paused: state.paused,
      ended: state.ended,
      upcoming: (count = 10) => upcoming(plan, state, count),
    };
  }
}

async function upcoming(plan: Plan, { next: first, count: put }: State, count: number): Promise<Date[]> {
  const { times, until } = plan;
  const occurrences = await plan.occurrences();
  const found: Date[] = [];
  const most = times === null ? count : Math.min(count, times - put);
  for (let next = first; next !== null && next <= (until ?? LAST_MOMENT) && found.length < most; ) {
    found.push(new Date(next));
    next = occurrences.after(next);
  }
  return found;
}

/** Returns the id of the job of an occurrence. */
function jobId(name: Buffer, moment: number): Buffer {
  return Buffer.concat([name, Buffer.from(`@${moment}`)]);
}

function nameOf(name: Id): Buffer {
  if (name.length === 0) throw new RangeError("the name of a schedule is not empty");
  return Buffer.from(name as string);
}
