// One dehydrator in memory: its elements, leases, limits and pause. The time is an argument, in milliseconds.

import { Groups } from "./groups.js";
import { Log } from "./rate.js";

/** The options WITHIN and DELIVERIES of an element; 0 is none. */
export interface Bounds {
  /** The moment from which on it is too late to be given out. */
  until: number;
  readonly deliveries: number;
}

/** From here on the end of an element is stored as its distance from the deadline. */
const DISTANCES = 2 ** 47;

/** Returns when an element is too late, as a server stores it: a moment or a distance. */
function endWithin(deadline: number, ms: number): number {
  return deadline + ms < DISTANCES ? deadline + ms : DISTANCES + Math.min(ms, DISTANCES - 1);
}

/** Returns the moment from which on an element is too late, if there is one. */
export function endOf({ deadline, bounds: { until } }: Entry): number | null {
  return until >= DISTANCES ? deadline + until - DISTANCES : until || null;
}

/** Returns the bounds of an element with this deadline. */
export function boundsOf(deadline: number, within: number | undefined, deliveries = 0): Bounds {
  const until = within === undefined ? 0 : endWithin(deadline, within);
  return { until, deliveries };
}

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
  readonly bounds: Bounds;
  /** Empty: none. */
  readonly group: string;
}

/** Returns whether it is due, and too late to be given out. */
export function isLate({ bounds: { until }, deadline }: Entry, now: number): boolean {
  return until > 0 && until <= now && deadline <= now;
}

/** Returns whether its lease has not ended. */
export function runs({ token, deadline }: Entry, now: number): boolean {
  return token !== null && deadline > now;
}

function isBefore(one: Entry, other: Entry): boolean {
  return one.deadline < other.deadline || (one.deadline === other.deadline && one.sequence < other.sequence);
}

/** Bytes are strings of Latin-1, here and in the files beside this one. */
export class Dehydrator {
  /** See DEHYDRATOR.LIMIT; 0 is none. */
  readonly limits = { length: 0, held: 0, rate: 0, per: 0, remember: 0 };
  /** The moment at which a pause ends; Infinity: at RESUME. */
  pause = 0;
  /** How often an element is delivered before it is a dead letter; 0: without limit. */
  mostDeliveries = 0;
  /** The stream of dead letters; null: they are dropped. */
  dead: string | null = null;
  /** The maximum length of that stream; 0: without limit. */
  deadLength = 0;
  /** The words of ONDUE. */
  /** Set if a stream of dead letters may stay a little longer than `deadLength`. */
  isApproximate = false;
  /** Remembered ids, and until when. */
  readonly remembered = new Map<string, number>();
  readonly #entries = new Map<string, Entry>();
  /** In the order of delivery. */
  readonly #order: Entry[] = [];
  readonly groups = new Groups<Entry>(this.#order);
  #sequence = 0;
  #firsts = 0;
  readonly #log = new Log();

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

  /** Pauses all, or a group. Returns when the pause ended that was before. */
  setPause(group: string | undefined, until: number): number {
    const before = group === undefined ? this.pause : this.groups.settings(group).pause;
    if (group === undefined) this.pause = until;
    else this.groups.set(group, { ...this.groups.settings(group), pause: until });
    return before;
  }

  held(token: string, id: string): Entry | undefined {
    const entry = this.#entries.get(id);
    return entry?.token === token ? entry : undefined;
  }

  /** Returns the element that is given out next. */
  nextDue(now: number): Entry | undefined {
    if (this.groups.areUsed) return this.groups.next(now);
    const first = this.#order[0];
    return first !== undefined && first.deadline <= now ? first : undefined;
  }

  /** Returns the element that is given out next, which counts as given out. */
  takeTurn(now: number): Entry | undefined {
    return this.groups.areUsed ? this.groups.take(now) : this.nextDue(now);
  }

  /** The moment from which on an element is given out, if nothing but its group holds it back; Infinity: never. */
  get opens(): number {
    return this.groups.areUsed ? this.groups.opensFirst : (this.#order[0]?.deadline ?? Number.POSITIVE_INFINITY);
  }

  /** Returns the elements that are too late, in the order in which they became so. */
  late(now: number): Entry[] {
    const since = ({ bounds, deadline }: Entry) => Math.max(bounds.until, deadline);
    return this.#order.filter((entry) => isLate(entry, now)).sort((one, other) => since(one) - since(other));
  }

  push(id: string, element: string, ttl: number, deadline: number, bounds: Bounds, group: string): void {
    const before = this.#entries.get(id);
    if (before !== undefined) this.#takeOut(before);
    this.remembered.delete(id);
    const timer = { ttl, deadline, sequence: this.#next() };
    const lease = { token: null, since: null, wasDue: 0, reason: "" };
    const entry = { id, element, ...timer, deliveries: 0, ...lease, bounds, group };
    this.#entries.set(id, entry);
    this.#order.splice(this.#place(entry), 0, entry);
    this.groups.count(entry, 1);
    for (const changed of [group, before?.group ?? group]) this.groups.settle(changed);
  }

  remove(id: string): Entry | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    this.#entries.delete(id);
    this.#takeOut(entry);
    this.groups.settle(entry.group);
    return entry;
  }

  /** Removes an element whose id is then remembered, if LIMIT says so. */
  finish(id: string, now: number): Entry | undefined {
    const entry = this.remove(id);
    if (entry !== undefined && this.limits.remember > 0) this.remembered.set(id, now + this.limits.remember);
    return entry;
  }

  /** Moves the moment from which on an element is too late by as much as its deadline, unless a worker has it. */
  postpone({ bounds, deadline, token }: Entry, later: number): void {
    if (bounds.until === 0 || token !== null) return;
    const ms = bounds.until - (bounds.until >= DISTANCES ? DISTANCES : deadline);
    bounds.until = Math.max(endWithin(later, ms), 1);
  }

  /** Restarts the timer. Where running leases are counted, an expired one does not begin again. */
  touch(entry: Entry, ttl: number, deadline: number, now: number): void {
    const areCounted = this.limits.held > 0 || this.groups.limits(entry.group).held > 0;
    const ends = entry.token !== null && areCounted && entry.deadline <= now && deadline > now;
    this.postpone(entry, deadline);
    this.restart(entry, ends ? 0 : ttl, deadline);
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

  lease(entry: Entry, ttl: number, deadline: number, token: string): void {
    entry.token = token;
    entry.since = deadline - ttl;
    entry.wasDue = Math.min(entry.deadline, entry.since);
    this.#move(entry, ttl, deadline);
    entry.deliveries = Math.min(entry.deliveries + 1, 65_535);
  }

  isDead(entry: Entry, now: number): boolean {
    if (isLate(entry, now)) return true;
    return this.mostDeliveries > 0 && entry.deliveries >= (entry.bounds.deliveries || this.mostDeliveries);
  }

  /** Returns whether it has no settings, so that it is deleted when it is empty. */
  isUsual(now: number): boolean {
    const isLimited = Object.values(this.limits).some((limit) => limit > 0);
    return this.mostDeliveries === 0 && this.pause === 0 && !isLimited && this.groups.areUsual(now);
  }

  /** Returns whether a limit leaves no room for an id, after `added` ids and `moved` ids more in its group. */
  isFull(id: string, group: string, added = 0, moved = 0): boolean {
    const { length } = this.limits;
    const before = this.#entries.get(id);
    if (before === undefined && length > 0 && this.length + added >= length) return true;
    const most = before?.group === group ? 0 : this.groups.limits(group).length;
    return most > 0 && this.groups.of(group).length + moved >= most;
  }

  /** Returns whether a lease that has ended may begin again. */
  mayHold({ group }: Entry, now: number): boolean {
    return this.heldRoom(now) > 0 && this.groups.hasRoom(group, now);
  }

  remembers(id: string, now: number): boolean {
    return (this.remembered.get(id) ?? 0) > now;
  }

  running(now: number): Entry[] {
    return this.#order.filter((entry) => runs(entry, now));
  }

  heldRoom(now: number): number {
    const { held } = this.limits;
    return held > 0 ? Math.max(0, held - this.running(now).length) : Number.POSITIVE_INFINITY;
  }

  rateRoom(now: number): number {
    const { rate, per } = this.limits;
    return rate > 0 ? this.#log.room(now, rate, per) : Number.POSITIVE_INFINITY;
  }

  /** Returns how many elements can be given out now. */
  room(now: number): number {
    return Math.min(this.heldRoom(now), this.rateRoom(now));
  }

  /** Returns the moment at which an element can be given out: 0 if that is now. */
  roomFrom(now: number): number {
    // The limit may have been lowered below the running leases.
    const held = this.heldRoom(now) === 0 ? this.running(now).at(-this.limits.held)!.deadline : 0;
    const { rate, per } = this.limits;
    return this.rateRoom(now) > 0 ? held : Math.max(held, this.#log.next(rate, per));
  }

  give(now: number, count: number): void {
    if (this.limits.rate > 0) this.#log.record(now, count, this.limits.per);
  }

  setRate(rate: number, per: number): void {
    this.limits.rate = rate;
    this.limits.per = per;
    this.#log.adapt(per);
  }

  #move(entry: Entry, ttl: number, deadline: number, sequence = this.#next()): void {
    this.#order.splice(this.#place(entry), 1);
    Object.assign(entry, { ttl, deadline, sequence });
    this.#order.splice(this.#place(entry), 0, entry);
    this.groups.settle(entry.group);
  }

  #takeOut(entry: Entry): void {
    this.#order.splice(this.#place(entry), 1);
    this.groups.count(entry, -1);
  }

  /** Returns its place in the order. */
  #place(entry: Entry): number {
    let [low, high] = [0, this.#order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(this.#order[middle]!, entry)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #next(): number {
    this.#sequence += 1;
    return this.#sequence;
  }
}
