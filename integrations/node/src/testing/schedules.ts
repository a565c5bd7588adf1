// The schedules of a dehydrator in memory. While its clock is set forward, each occurrence of an interval comes at its
// moment; a cron, whose calendar the server knows, has none.

import { Options, type Reply, refused } from "./arguments.js";

export interface Schedule {
  /** What EVERY said. */
  readonly words: string;
  readonly plan: string;
  readonly element: string;
  readonly options: Options;
  next: number | null;
  last: number | null;
  stored: number;
  missed: number;
  isPaused: boolean;
}

/** Reads EVERY's words; keeps what goes on of a schedule that there was. */
export function scheduleOf(words: readonly string[], now: number, before: Schedule | undefined): Schedule {
  const [plan = "", element = "", , ...rest] = words;
  const options = new Options(rest);
  const [from, until] = [options.number("FROM"), options.number("UNTIL")];
  const isSameTime =
    before?.plan === plan && ["ZONE", "FROM"].every((one) => before.options.word(one) === options.word(one));
  const kept = { last: before?.last ?? null, stored: before?.stored ?? 0, missed: before?.missed ?? 0 };
  const schedule = { words: words.join("\0"), plan, element, options, isPaused: before?.isPaused ?? false, ...kept };
  const next = isSameTime ? before.next : first(plan, from, now);
  if ((next ?? 0) > (until ?? Number.POSITIVE_INFINITY)) {
    throw refused("ERR", "the schedule never occurs: not from now on, or not before its end");
  }
  return { ...schedule, next };
}

function first(plan: string, from: number | undefined, now: number): number | null {
  if (!isInterval(plan)) {
    if (plan.trim().split(/\s+/).length === 5) return null;
    throw refused("ERR", `plan '${plan}' is neither a number of milliseconds nor a cron of five fields`);
  }
  const ms = Number(plan);
  if (ms === 0) throw refused("ERR", "plan '0' is not a whole number from 1 on");
  return from === undefined ? now + ms : from + Math.max(0, Math.ceil((now - from) / ms)) * ms;
}

function isInterval(plan: string): boolean {
  return /^\d+$/.test(plan);
}

/** Moves a schedule on behind an occurrence, which was stored or not. */
export function moveOn(it: Schedule, isStored: boolean): void {
  if (it.next === null) return;
  if (isStored) {
    it.last = it.next;
    it.stored += 1;
  } else if (!it.isPaused) {
    it.missed += 1;
  }
  const next = it.next + Number(it.plan);
  const [until, times] = [it.options.number("UNTIL"), it.options.number("TIMES")];
  const isOver = next > (until ?? Number.POSITIVE_INFINITY) || it.stored >= (times ?? 2 ** 63);
  it.next = isOver ? null : next;
}

/** Returns the reply of SCHEDULES for one. */
export function rowOf(name: string, it: Schedule): Reply {
  const { plan, element, last, options } = it;
  const next = it.isPaused ? null : it.next;
  const zone = isInterval(plan) ? null : (options.word("ZONE") ?? "UTC");
  const jitter = options.number("JITTER") ?? 0;
  const { most, within, group } = options.terms;
  const own = { "deliveries-limit": most, within: within || null, group: group || null };
  return Object.entries({
    ...{ name, plan, zone, element, next, "next-stored-at": next, last, late: last === null ? null : 0 },
    ...{ stored: it.stored, missed: it.missed, paused: it.isPaused ? 1 : 0 },
    ...{ from: options.number("FROM") ?? null, until: options.number("UNTIL") ?? null },
    ...{ times: options.number("TIMES") ?? null, "if-missed": options.word("MISSED") ?? "ONE" },
    ...{ "if-overlap": options.word("OVERLAP") ?? "ALLOW", jitter, ...own },
  }).flat();
}
