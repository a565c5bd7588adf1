// The groups of a dehydrator in memory, which give out their due elements in turns.

import { Log } from "./rate.js";

/** What an element's place in the order of its group follows from. */
export interface Grouped {
  /** Empty: none. The elements without a group are one more, for which only a share can be set. */
  readonly group: string;
  readonly deadline: number;
  readonly sequence: number;
  /** The token under which it is held. */
  readonly token: string | null;
}

/** What LIMIT and PAUSE set for a group: its share, its limits, and the moment at which a pause ends; 0 is none. */
export type Settings = Readonly<typeof NONE>;
const NONE = { share: 1, length: 0, held: 0, rate: 0, per: 0, pause: 0 };

export class Groups<T extends Grouped> {
  /** The limits of each group that has none of its own. */
  each: Settings = NONE;
  readonly #settings = new Map<string, Settings>();
  /** What each group gave out whose rate is limited. */
  readonly #logs = new Map<string, Log>();
  /** The groups that give out something. The first one gives out the next element. */
  #round: string[] = [];
  /** How many elements the first one has given out in this turn. */
  #given = 0;
  /** When somebody last took an element, or tried to. */
  #looked = 0;
  /** How many elements are in a group, without those that have none. */
  #grouped = 0;
  readonly #entries: readonly T[];

  /** `entries`: all elements, always in the order of delivery. */
  constructor(entries: readonly T[]) {
    this.#entries = entries;
  }

  /** Whether elements are given out in turns, and not in the order of all. */
  get areUsed(): boolean {
    return this.#grouped > 0 || this.#settings.size > 0 || !isNone(this.each);
  }

  /** Returns whether nothing is set, but for pauses that are over. */
  areUsual(now: number): boolean {
    const isOver = (it: Settings) => it.pause <= now && isNone({ ...it, pause: 0 });
    return isNone(this.each) && [...this.#settings.values()].every(isOver);
  }

  settings(group: string): Settings {
    return this.#settings.get(group) ?? NONE;
  }

  /** Sets what holds for a group, or for each that has none of its own. */
  set(group: string | undefined, settings: Settings): void {
    if (group !== undefined) {
      if (isNone(settings)) this.#settings.delete(group);
      else this.#settings.set(group, settings);
      this.#adapt(group);
      return;
    }
    const before = this.each;
    this.each = settings;
    if (before.rate === settings.rate && before.per === settings.per) return;
    for (const one of [...this.#logs.keys()]) this.#adapt(one);
  }

  /** Adapts what a group gave out to a limit that may have changed. */
  #adapt(group: string): void {
    const { rate, per } = this.limits(group);
    if (rate > 0) this.#logs.get(group)?.adapt(per);
    else this.#logs.delete(group);
    this.settle(group);
  }

  /** Returns the settings of a group, with the limits of each for those that it has none of. */
  limits(group: string): Settings {
    const [own, each] = [this.settings(group), this.each];
    if (group === "") return own;
    const { rate, per } = own.rate > 0 ? own : each;
    return { ...own, length: own.length || each.length, held: own.held || each.held, rate, per };
  }

  /** Returns the elements of a group. */
  of(group: string): T[] {
    return this.#entries.filter((entry) => entry.group === group);
  }

  /** Counts an element that has come, or gone. */
  count({ group }: T, change: 1 | -1): void {
    if (group !== "") this.#grouped += change;
  }

  /** Takes a group out of the round if it gives out nothing any more. The others leave it at the next look. */
  settle(group: string): void {
    if (group !== "" && this.#round.includes(group) && !this.#isOpen(group, this.#looked)) this.#leave(group);
  }

  /** Returns whether the limit of a group lets one more lease begin. */
  hasRoom(group: string, now: number): boolean {
    const last = this.#excess(group).at(-1);
    return last === undefined || last.deadline <= now;
  }

  /** Returns what TOUCH moves to a deadline: elements that have another, and no lease that runs. */
  atRest(group: string, [from, until]: readonly [number, number], now: number): T[] {
    const moved = this.of(group).filter(({ deadline }) => deadline < from || deadline > until);
    return moved.filter(({ token, deadline }) => token === null || deadline <= now);
  }

  /** Returns the moment from which on an element is given out; Infinity: there is none. */
  get opensFirst(): number {
    return Math.min(...this.#names().map((group) => this.#opens(group)!.deadline));
  }

  /** Returns the element whose turn it is. */
  next(now: number): T | undefined {
    const inRound = this.#round.find((group) => this.#stays(group, now) && this.#isOpen(group, now));
    const group = inRound ?? this.#waiting(now)[0];
    return group === undefined ? undefined : this.#nextOf(group);
  }

  /** Returns the element whose turn it is. It counts as given out. */
  take(now: number): T | undefined {
    // The others alone need no turns.
    if ([...this.#round, ...this.#waiting(now)].every((group) => group === "")) return this.next(now);
    if (this.#round.includes("") && !this.#stays("", now)) this.#leave("");
    this.#looked = now;
    while (this.#round.length > 0 && !this.#isOpen(this.#round[0]!, now)) this.#leave(this.#round[0]!);
    this.#round.push(...this.#waiting(now));
    const [group] = this.#round;
    if (group === undefined) return undefined;
    const [next, { rate, per, share }] = [this.#nextOf(group), this.limits(group)];
    if (rate > 0) {
      const log = this.#logs.get(group) ?? new Log();
      this.#logs.set(group, log);
      log.record(now, 1, per);
    }
    this.#given += 1;
    if (this.#given >= share) {
      this.#given = 0;
      this.#round.push(this.#round.shift()!);
    }
    return next;
  }

  #leave(group: string): void {
    if (this.#round[0] === group) this.#given = 0;
    this.#round = this.#round.filter((other) => other !== group);
  }

  #names(): string[] {
    return [...new Set(this.#entries.map(({ group }) => group))];
  }

  #first(group: string): T | undefined {
    return this.#entries.find((entry) => entry.group === group);
  }

  /** Returns the element that a group gives out: if it holds as many as it may, one of those. */
  #nextOf(group: string): T | undefined {
    return this.#excess(group)[0] ?? this.#first(group);
  }

  /** Returns the groups that give out something and are not in the round, or leave it and come again, in order. */
  #waiting(now: number): string[] {
    const waiting = this.#names().filter((group) => !this.#round.includes(group) || !this.#stays(group, now));
    const places = waiting
      .map((group) => ({ group, ...this.#opens(group)! }))
      .filter(({ deadline }) => deadline <= now);
    places.sort((one, other) => one.deadline - other.deadline || one.sequence - other.sequence);
    return places.map(({ group }) => group);
  }

  /** Returns whether a group of the round is not that of the others, which had nothing due at the last look. */
  #stays(group: string, now: number): boolean {
    return group !== "" || this.#isOpen(group, Math.min(now, this.#looked));
  }

  #isOpen(group: string, now: number): boolean {
    const opens = this.#opens(group);
    return opens !== undefined && opens.deadline <= now;
  }

  /** Returns from when on a group gives out something, and what decides among equal moments. */
  #opens(group: string): { deadline: number; sequence: number } | undefined {
    const place = this.#excess(group).at(-1) ?? this.#first(group);
    if (place === undefined) return undefined;
    const { rate, per, pause } = this.limits(group);
    const from = this.#logs.get(group)?.next(rate, per) ?? 0;
    return { deadline: Math.max(place.deadline, pause, from), sequence: place.sequence };
  }

  /** Returns the leases that have to end before another begins. */
  #excess(group: string): T[] {
    const most = this.limits(group).held;
    if (most === 0) return [];
    const held = this.of(group).filter(({ token }) => token !== null);
    return held.slice(0, Math.max(0, held.length + 1 - most));
  }
}

function isNone({ share, ...others }: Settings): boolean {
  return share === 1 && Object.values(others).every((limit) => limit === 0);
}
