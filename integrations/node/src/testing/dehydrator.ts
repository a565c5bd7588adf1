// One dehydrator in memory: its elements, leases, limits and pauses. The time is an argument, in milliseconds.

import type { Schedule } from "./schedules.js";

export interface Entry {
  readonly id: string;
  element: string;
  ttl: number;
  deadline: number;
  /** The order among equal deadlines: that of pushes, leases and touches. Below 0 it was put first, the last one foremost. */
  sequence: number;
  deliveries: number;
  /** The token under which it is held. */
  token: string | null;
  /** When it was given to the one that holds it. */
  since: number | null;
  /** The deadline before that, or `since` if it was not due. */
  wasDue: number;
  /** Why it was given back the last time; empty if nobody said. */
  reason: string;
  /** When it is too late to be given out; 0: never. */
  until: number;
  /** The deliveries that it has of its own; 0: those of its key. */
  readonly most: number;
  /** Empty: none. */
  readonly group: string;
}

/** See DEHYDRATOR.LIMIT; 0 is none. */
export interface Caps {
  length: number;
  held: number;
  rate: number;
  per: number;
}

/** Returns whether it is due, and too late to be given out. */
export function isLate({ until, deadline }: Entry, now: number): boolean {
  return until > 0 && until <= now && deadline <= now;
}

/** Returns whether its lease has not ended. */
export function runs({ token, deadline }: Entry, now: number): boolean {
  return token !== null && deadline > now;
}

const NO_CAPS: Readonly<Caps> = { length: 0, held: 0, rate: 0, per: 0 };

export class Dehydrator {
  /** LENGTH and REMEMBER are obeyed; the others are only told. */
  readonly limits = { ...NO_CAPS, remember: 0 };
  readonly each: Caps = { ...NO_CAPS };
  readonly groups = new Map<string, Caps & { share: number }>();
  /** When pauses end, of groups, and of all, which has an empty name; Infinity: at RESUME. */
  readonly pauses = new Map<string, number>();
  /** How often an element is delivered before it is a dead letter; 0: without limit. */
  mostDeliveries = 0;
  /** The stream of dead letters, if there is a policy. */
  dead: string | null = null;
  /** The maximum length of that stream; 0: without limit. */
  deadLength = 0;
  /** Set if that stream may stay a little longer. */
  isApproximate = false;
  /** Remembered ids, and until when. */
  readonly remembered = new Map<string, number>();
  readonly schedules = new Map<string, Schedule>();
  readonly #entries = new Map<string, Entry>();
  /** In the order of delivery. */
  readonly #order: Entry[] = [];
  #sequence = 0;
  #firsts = 0;

  get length(): number {
    return this.#order.length;
  }

  /** The elements in the order of delivery. */
  get entries(): readonly Entry[] {
    return this.#order;
  }

  get(id: string): Entry | undefined {
    return this.#entries.get(id);
  }

  of(group: string): Entry[] {
    return this.#order.filter((entry) => entry.group === group);
  }

  held(token: string, id: string): Entry | undefined {
    const entry = this.#entries.get(id);
    return entry?.token === token ? entry : undefined;
  }

  isPaused(group: string, now: number): boolean {
    return (this.pauses.get(group) ?? 0) > now;
  }

  /** Returns the element that is given out next. */
  nextDue(now: number): Entry | undefined {
    if (this.isPaused("", now)) return undefined;
    const next = this.#order.find(({ group, deadline }) => deadline > now || !this.isPaused(group, now));
    return next !== undefined && next.deadline <= now ? next : undefined;
  }

  /** Returns the elements that are too late, in the order in which they became so. */
  late(now: number): Entry[] {
    const since = ({ until, deadline }: Entry) => Math.max(until, deadline);
    return this.#order.filter((entry) => isLate(entry, now)).sort((one, other) => since(one) - since(other));
  }

  push(
    id: string,
    element: string,
    [ttl, deadline]: readonly [ttl: number, deadline: number],
    { within, most, group }: { within: number; most: number; group: string },
  ): void {
    const before = this.#entries.get(id);
    if (before !== undefined) this.#order.splice(this.#place(before), 1);
    this.remembered.delete(id);
    const lease = { deliveries: 0, token: null, since: null, wasDue: 0, reason: "" };
    const until = within > 0 ? deadline + within : 0;
    const entry = { id, element, ttl, deadline, sequence: this.#next(), ...lease, until, most, group };
    this.#entries.set(id, entry);
    this.#order.splice(this.#place(entry), 0, entry);
  }

  remove(id: string): Entry | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    this.#entries.delete(id);
    this.#order.splice(this.#place(entry), 1);
    return entry;
  }

  /** Removes an element whose id is then remembered, if LIMIT says so. */
  finish(id: string, now: number): Entry | undefined {
    const entry = this.remove(id);
    if (entry !== undefined && this.limits.remember > 0) this.remembered.set(id, now + this.limits.remember);
    return entry;
  }

  /** Restarts the timer, and the time after which it is too late, unless a worker has it. */
  touch(entry: Entry, ttl: number, deadline: number): void {
    if (entry.until > 0 && entry.token === null) entry.until += deadline - entry.deadline;
    this.restart(entry, ttl, deadline);
  }

  /** Sets the deadline. A ttl of 0 gives the element back. */
  restart(entry: Entry, ttl: number, deadline: number): void {
    if (ttl === 0) entry.token = entry.since = null;
    this.#move(entry, ttl, deadline);
  }

  /** Gives the element back, before all others with this deadline. */
  putFirst(entry: Entry, deadline: number): void {
    entry.token = entry.since = null;
    this.#firsts -= 1;
    this.#move(entry, 0, deadline, this.#firsts);
  }

  lease(entry: Entry, ttl: number, now: number, token: string): void {
    const wasDue = Math.min(entry.deadline, now);
    Object.assign(entry, { token, since: now, wasDue, deliveries: Math.min(entry.deliveries + 1, 65_535) });
    this.#move(entry, ttl, now + ttl);
  }

  isDead(entry: Entry, now: number): boolean {
    if (isLate(entry, now)) return true;
    return this.mostDeliveries > 0 && entry.deliveries >= (entry.most || this.mostDeliveries);
  }

  /** Returns whether it has no settings, so that it is deleted when it is empty. */
  isUsual(now: number): boolean {
    const isLimited = [...Object.values(this.limits), ...Object.values(this.each)].some((limit) => limit > 0);
    const isPaused = [...this.pauses.keys()].some((group) => this.isPaused(group, now));
    return this.mostDeliveries + this.schedules.size + this.groups.size === 0 && !isPaused && !isLimited;
  }

  /** Returns whether LENGTH leaves no room for an id, after so many more. */
  isFull(id: string, added = 0): boolean {
    const { length } = this.limits;
    return length > 0 && this.length + added >= length && !this.#entries.has(id);
  }

  remembers(id: string, now: number): boolean {
    return (this.remembered.get(id) ?? 0) > now;
  }

  /** The limits of a group, with those of each that it has none of. */
  capsOf(group: string): Caps & { share: number } {
    const own = this.groups.get(group) ?? { ...NO_CAPS, share: 1 };
    const { rate, per } = own.rate > 0 ? own : this.each;
    return { ...own, length: own.length || this.each.length, held: own.held || this.each.held, rate, per };
  }

  #move(entry: Entry, ttl: number, deadline: number, sequence = this.#next()): void {
    this.#order.splice(this.#place(entry), 1);
    Object.assign(entry, { ttl, deadline, sequence });
    this.#order.splice(this.#place(entry), 0, entry);
  }

  /** Returns its place in the order. */
  #place({ deadline, sequence }: Entry): number {
    let [low, high] = [0, this.#order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const one = this.#order[middle]!;
      if (one.deadline < deadline || (one.deadline === deadline && one.sequence < sequence)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #next(): number {
    this.#sequence += 1;
    return this.#sequence;
  }
}
