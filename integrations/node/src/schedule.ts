// A schedule in the server: an element of three parts, and the two scripts that read and change it.
//
// The parts, separated by newlines: the state, a line of JSON that changes with each occurrence; the plan, a line that
// tells when it occurs; and the payload of its jobs. In Python they are the same, byte by byte, and so are the scripts.

import type { Occurrences } from "./occurrences.js";
import { bytes, text } from "./reply.js";
import { ask, type Question, type Word } from "./verbs.js";

/** Returns the server's time and the element of a schedule. */
export const LOOK = "return {redis.call('TIME'), redis.call('DEHYDRATOR.LOOK', KEYS[1], ARGV[1])}";

/**
 * Stores a new element of a schedule if the old one is unchanged, and pushes jobs, all or none: NX would not refuse a
 * job of an earlier try that is done by now. With a token, the schedule is held, and given back if nothing is stored.
 */
export const STORE = `
local name, token, before, after, deadline = unpack(ARGV, 1, 5)
local function release(ms)
    return token == '' or redis.call('DEHYDRATOR.RELEASE', KEYS[1], ms, token, name, 'UNCOUNTED')[1] == 1
end
if (redis.call('DEHYDRATOR.LOOK', KEYS[1], name) or '') ~= before then
    release(0)
    return {0}
end
local pushed, fits, at, refused = {}, 0, 6, nil
while ARGV[at] and not refused do
    local job = {unpack(ARGV, at + 1, at + ARGV[at])}
    local key = KEYS[fits + 2] or KEYS[2]
    local reply = redis.pcall('DEHYDRATOR.PUSH', key, unpack(job))
    refused = reply and reply.err
    if reply and not refused then pushed[#pushed + 1] = {key, job[3]} end
    if not refused then fits = fits + 1 end
    at = at + 1 + ARGV[at]
end
local function undo()
    for _, job in ipairs(pushed) do redis.call('DEHYDRATOR.REM', unpack(job)) end
end
if not refused then
    if not release(1000) then
        undo()
        return {0}
    end
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    repeat
        local moment = string.format('%.0f', deadline)
        local reply = redis.pcall('DEHYDRATOR.PUSH', KEYS[1], 0, after, name, 'REPLACE', 'AT', moment)
        if not reply.err then return {1} end
        refused, fits = reply.err, 0
        deadline = now + math.floor((deadline - now) / 2)
    until string.sub(refused, 1, 6) ~= 'LIMIT ' or deadline <= now
end
undo()
if token == '' then return redis.error_reply(refused) end
if fits == 0 then release(1000) end
return {-1, fits, refused}
`;

/** A worker looks at a schedule after this time at the latest: `dehydrator.max-ttl` may refuse more. */
const LONGEST_WAIT = 30 * 86_400_000;

/** The moment after which nothing occurs: the beginning of the year 9999, the last one that Python has. */
export const LAST_MOMENT = 253_370_764_800_000;

/** With `missed: "none"`, an occurrence is put if it is at most so late. */
const MOST_LATE = 60_000;

/** The moments are in milliseconds since 1970. */
export interface State {
  /** The next occurrence; null if it has ended. */
  readonly next: number | null;
  /** The occurrence whose job was put last, and by how many milliseconds that was late. */
  readonly last: number | null;
  readonly late: number;
  /** How many occurrences were missed. */
  readonly missed: number;
  /** How many jobs were put, if that is limited. */
  readonly count: number;
  readonly paused: boolean;
  readonly ended: boolean;
}

/** What holds of the occurrences of a schedule. */
export interface Rules {
  /** What becomes of missed occurrences: one job for the last, all, or none. */
  readonly missed: "one" | "all" | "none";
  /** The last moment at which it may occur. */
  readonly until: number | null;
  /** How many jobs it puts at most. */
  readonly times: number | null;
}

export const NEW: State = { next: null, last: null, late: 0, missed: 0, count: 0, paused: false, ended: false };

export interface Element {
  readonly state: State;
  readonly plan: Buffer;
  readonly payload: Buffer;
}

export function encode({ state, plan, payload }: Element): Buffer {
  const told = Object.keys(NEW).map((name) => [name, state[name as keyof State]]);
  const line = JSON.stringify(Object.fromEntries(told.filter(([, value]) => value)));
  return Buffer.concat([Buffer.from(`${line}\n`), plan, Buffer.from("\n"), payload]);
}

export function decode(element: Buffer): Element {
  const end = element.indexOf("\n");
  const planEnd = element.indexOf("\n", end + 1);
  if (end < 0 || planEnd < 0) throw new TypeError("it is no schedule");
  const told = JSON.parse(element.toString("utf8", 0, end)) as Record<string, unknown>;
  // The further fields of a later version are left out.
  const known = Object.entries(told).filter(([name]) => name in NEW);
  const state = { ...NEW, ...Object.fromEntries(known) };
  return { state, plan: element.subarray(end + 1, planEnd), payload: element.subarray(planEnd + 1) };
}

/** Returns the moment at which a worker has to look at it. */
export function deadlineOf({ next }: State, now: number): number {
  return Math.min(next ?? Number.POSITIVE_INFINITY, now + LONGEST_WAIT);
}

/** Returns the state with its next occurrence, or ended if that is null, too late, or one too many. */
export function proceed(state: State, { until, times }: Rules, next: number | null): State {
  const isOver = next === null || next > (until ?? LAST_MOMENT) || (times !== null && state.count >= times);
  return { ...state, next: isOver ? null : next, ended: isOver };
}

/**
 * Returns the state after the occurrences that are due, and those of them for which jobs are put, at most `most`.
 *
 * If there is more to do, its next occurrence is not after `now`.
 */
export function step(
  state: State,
  occurrences: Occurrences,
  rules: Rules,
  now: number,
  most: number,
): { state: State; jobs: number[] } {
  if (state.next === null || state.next > now) return { state, jobs: [] };
  const { missed, until, times } = rules;
  const due = occurrences.due(state.next, Math.min(now, until ?? now));
  const last = due.at(due.count - 1);
  let following = occurrences.after(last);
  if (state.paused) return { state: proceed(state, rules, following), jobs: [] };
  let [seen, jobs] = [due.count, [] as number[]];
  if (missed === "all") {
    const count = Math.min(seen, most, times === null ? most : times - state.count);
    jobs = Array.from({ length: count }, (_, n) => due.at(n));
    if (count < seen) [seen, following] = [count, due.at(count)];
  } else if ((proceed(state, rules, following).next ?? Number.POSITIVE_INFINITY) > now) {
    // All that are due have been seen, so this is the last one.
    if (missed === "one" || now - last <= MOST_LATE) jobs = [last];
  }
  let after: State = { ...state, missed: state.missed + seen - jobs.length };
  const put = jobs.at(-1);
  if (put !== undefined) {
    after = {
      ...after,
      last: put,
      late: Math.max(0, now - put),
      count: times === null ? 0 : state.count + jobs.length,
    };
  }
  return { state: proceed(after, rules, following), jobs };
}

/** Reads the server's time, in milliseconds, and the element of a schedule, or null. */
export function look(key: string, name: Buffer): Question<{ now: number; element: Buffer | null }> {
  return ask(["EVAL", LOOK, 1, key, name], (reply) => {
    const [time, element] = reply as [unknown[], unknown];
    const [seconds, microseconds] = time.map((part) => Number(text(part)));
    const now = seconds! * 1000 + Math.floor(microseconds! / 1000);
    return { now, element: element === null ? null : bytes(element) };
  });
}

/** The reply of STORE. */
export interface Stored {
  /** False: the schedule has changed meanwhile, or somebody else has it. */
  readonly done: boolean;
  /** Why a job was refused; nothing was stored. */
  readonly refusal?: string;
  /** How many of the jobs, the first ones, would have been accepted. */
  readonly fits: number;
}

/** The keys of the schedules and of their queue. */
export type Keys = readonly [schedules: string, queue: string];

/** A change of a schedule, and for each job that it puts the words of a PUSH after its key. */
export interface Change {
  readonly name: Buffer;
  /** Null: there was none. */
  readonly before: Buffer | null;
  readonly after: Element;
  readonly now: number;
  readonly jobs?: readonly (readonly Word[])[];
  readonly token?: string;
}

/** Stores a schedule's element, and jobs, if it is unchanged, and held under the token, if any. */
export function store(keys: Keys, { name, before, after, now, jobs = [], token = "" }: Change): Question<Stored> {
  const words = [name, token, before ?? "", encode(after), deadlineOf(after.state, now)];
  return ask(["EVAL", STORE, 2, ...keys, ...words, ...jobs.flatMap((job) => [job.length, ...job])], (reply) => {
    const [done, fits = 0, refusal] = reply as [number, number?, unknown?];
    return done < 0 ? { done: false, fits, refusal: text(refusal) } : { done: done === 1, fits };
  });
}
