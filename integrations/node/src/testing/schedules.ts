// The schedules of a dehydrator in memory: while its clock is set forward, each occurrence comes at its moment.

import { needed, numberOf, Options, type Reply, refused } from "./arguments.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** For how many hours an occurrence is looked for. */
const HOURS = 24 * 366 * 8;

/** The names that a field knows, and its least and greatest value. */
const FIELDS = [
  { low: 0, high: 59, names: "" },
  { low: 0, high: 23, names: "" },
  { low: 1, high: 31, names: "" },
  { low: 1, high: 12, names: " JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC" },
  { low: 0, high: 7, names: "SUN MON TUE WED THU FRI SAT" },
];

const OPTIONS = "ZONE= FROM= UNTIL= TIMES= MISSED= OVERLAP= JITTER= DELIVERIES= WITHIN= GROUP=";

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
  const [plan = "", element = "", name, ...rest] = words;
  if (needed(name) === "") throw refused("ERR", "the name of a schedule is empty");
  const options = new Options(rest, OPTIONS);
  const [from, until] = [options.number("FROM"), options.number("UNTIL")];
  const isSameTime =
    before?.plan === plan && ["ZONE", "FROM"].every((one) => before.options.word(one) === options.word(one));
  const kept = { last: before?.last ?? null, stored: before?.stored ?? 0, missed: before?.missed ?? 0 };
  const schedule = { words: words.join("\0"), plan, element, options, isPaused: before?.isPaused ?? false, ...kept };
  const next = isSameTime ? before.next : first(plan, options.word("ZONE"), from, now);
  if (next === null || next > (until ?? Number.POSITIVE_INFINITY)) {
    throw refused("ERR", "the schedule never occurs: not from now on, or not before its end");
  }
  return { ...schedule, next };
}

function first(plan: string, zone: string | undefined, from: number | undefined, now: number): number | null {
  if (!isInterval(plan)) return nextOf(plan, zone, Math.max(now, from ?? 0) - 1);
  const ms = numberOf(plan, "plan", 1);
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
  const next = isInterval(it.plan) ? it.next + Number(it.plan) : nextOf(it.plan, it.options.word("ZONE"), it.next);
  const [until, times] = [it.options.number("UNTIL"), it.options.number("TIMES")];
  const isOver = next === null || next > (until ?? Number.POSITIVE_INFINITY) || it.stored >= (times ?? 2 ** 63);
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

/**
 * Returns the first moment after another at which the clocks of a zone show what a cron says. A time that clocks skip
 * does not occur, and one that they show twice does so twice: on those nights the server's occurrences are others.
 */
function nextOf(plan: string, zone: string | undefined, after: number): number | null {
  const fields = plan.trim().toUpperCase().split(/\s+/);
  if (fields.length !== FIELDS.length) throw refused("ERR", `plan '${plan}' is no cron of five fields`);
  const [minutes, hours, days, months, weekdays] = fields.map(valuesOf) as [
    number[],
    number[],
    number[],
    number[],
    number[],
  ];
  const needBoth = fields[2]!.startsWith("*") || fields[4]!.startsWith("*");
  const offsetOf = offsets(zone);
  let at = Math.floor(after / MINUTE) * MINUTE + MINUTE;
  for (let n = 0; n < HOURS; n += 1) {
    const shown = new Date(at + offsetOf(at));
    const some = [days.includes(shown.getUTCDate()), weekdays.includes(shown.getUTCDay())];
    const isDay = months.includes(shown.getUTCMonth() + 1) && (needBoth ? some.every(Boolean) : some.some(Boolean));
    const minute =
      isDay && hours.includes(shown.getUTCHours()) ? minutes.find((one) => one >= shown.getUTCMinutes()) : undefined;
    if (minute !== undefined) return at + (minute - shown.getUTCMinutes()) * MINUTE;
    at += HOUR - (Number(shown) % HOUR);
  }
  return null;
}

/** Returns the values of a field, in order. */
function valuesOf(field: string, at: number): number[] {
  const { low, high, names } = FIELDS[at]!;
  const number = (text: string) => (/^\d+$/.test(text) ? Number(text) : names.split(" ").indexOf(text));
  const found = field.split(",").flatMap((item) => {
    const [, star, one = "", other, step] = /^(?:(\*)|(\w+)(?:-(\w+))?)(?:\/(\d+))?$/.exec(item) ?? [];
    const begin = star === undefined ? number(one) : low;
    const end = star !== undefined || (other === undefined && step !== undefined) ? high : number(other ?? one);
    if (begin < low || end > high || end < begin || step === "0") {
      throw refused("ERR", `the server in memory knows no field '${field}' of a cron`);
    }
    const by = Number(step ?? 1);
    return Array.from({ length: Math.floor((end - begin) / by) + 1 }, (_, n) => begin + n * by);
  });
  return found.map((one) => (at === 4 ? one % 7 : one)).sort((one, other) => one - other);
}

/** Returns by how many milliseconds the clocks of a zone are ahead of UTC, at a moment. */
function offsets(zone = "UTC"): (moment: number) => number {
  const format = new Intl.DateTimeFormat("en", { timeZone: zone, timeZoneName: "longOffset" });
  return (moment) => {
    const [, sign = "+", ...parts] = /GMT(?:([+-])(\d+):(\d+)(?::(\d+))?)?$/.exec(format.format(moment)) ?? [];
    const [hours, minutes, seconds] = parts.map((part = "0") => Number(part));
    return Number(`${sign}1`) * ((hours! * 60 + minutes!) * 60 + seconds!) * 1000;
  };
}
