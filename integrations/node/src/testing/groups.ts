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

/** Where an element is in the order of delivery. */
type Place = Pick<Grouped, "deadline" | "sequence">;

/** What LIMIT and PAUSE set for a group: its share, its limits, and the moment at which a pause ends; 0 is none. */
export type Settings = Readonly<typeof NONE>;
const NONE = { share: 1, length: 0, held: 0, rate: 0, per: 0, pause: 0 };

export class Groups<T extends Grouped> {
  /** The limits of each group that has none of its own. */
  each: Settings = NONE;
  readonly #settings = new Map<string, Settings>();
  /** What each group gave out whose rate is limited. */
  readonly #logs = new Map<string, Log>();
  /** The place from which on each group gives out something, without the others. */
  readonly #filed = new Map<string, Place>();
  /** The groups that have given out something or could have at the latest turn, and when each came to the back. */
  #round: { readonly group: string; readonly since: number }[] = [];
  /** The group whose turn has begun, and how many elements it has given out in it. */
  #turn = { group: "", given: 0 };
  /** When an element was last taken in a turn. */
  #latest = 0;
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
    this.each = settings;
    for (const one of [...this.#logs.keys(), ...this.#filed.keys()]) this.#adapt(one);
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

  /** The groups of the round, in order. */
  get round(): string[] {
    return this.#round.map(({ group }) => group);
  }

  /** Files a group by when it gives out something, after a change. In the round: it could at the latest turn. */
  settle(group: string): void {
    if (group === "") return;
    const [before, place] = [this.#filed.get(group), this.#opens(group)];
    if (place === undefined) this.#filed.delete(group);
    else this.#filed.set(group, place);
    if (place?.deadline === before?.deadline && place?.sequence === before?.sequence) return;
    if (place === undefined || place.deadline > this.#latest) {
      this.#leave(group);
    } else if (!this.round.includes(group)) {
      // One that waited and could keeps its place.
      const couldSince = before !== undefined && before.deadline <= this.#latest ? before.deadline : undefined;
      let at = this.#round.length;
      while (couldSince !== undefined && at > 0 && this.#round[at - 1]!.since >= couldSince) at -= 1;
      this.#round.splice(at, 0, { group, since: couldSince ?? this.#latest });
    }
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
    const { group } = this.#choose(this.#eligible(now));
    return group === undefined ? undefined : this.#nextOf(group);
  }

  /** Returns the element whose turn it is. It counts as given out. */
  take(now: number): T | undefined {
    const eligible = this.#eligible(now);
    const { group, drops } = this.#choose(eligible);
    if (group === undefined) return undefined;
    const [next, { rate, per, share }] = [this.#nextOf(group), this.limits(group)];
    if (isOfOthersAlone(eligible)) return next;
    if (drops) this.#leave("");
    this.#latest = now;
    const given = this.#turn.group === group ? this.#turn.given + 1 : 1;
    const since = this.#round.find((one) => one.group === group)?.since ?? eligible.get(group)!.deadline;
    this.#leave(group);
    if (given < share) {
      this.#turn = { group, given };
      this.#round.unshift({ group, since });
    } else {
      this.#round.push({ group, since: now });
    }
    if (rate > 0) {
      const log = this.#logs.get(group) ?? new Log();
      this.#logs.set(group, log);
      log.record(now, 1, per);
    }
    return next;
  }

  /** Returns the group whose turn it is, and whether the others leave the round, as nothing of theirs is due. */
  #choose(eligible: ReadonlyMap<string, Place>): { group: string | undefined; drops: boolean } {
    const { group: turn, given } = this.#turn;
    if (isOfOthersAlone(eligible)) return { group: eligible.has("") ? "" : undefined, drops: false };
    if (given > 0 && eligible.has(turn)) return { group: turn, drops: false };
    const [front, others] = [this.#round[0], eligible.get("")];
    const drops = front?.group === "" && (others === undefined || others.deadline > front.since);
    const inside = drops ? this.#round.slice(1) : this.#round;
    const [waiting] = [...eligible]
      .filter(([name]) => inside.every(({ group }) => group !== name))
      .sort(([, one], [, other]) => one.deadline - other.deadline || one.sequence - other.sequence);
    const [first] = inside;
    const isFirst = first !== undefined && (waiting === undefined || first.since < waiting[1].deadline);
    return { group: isFirst ? first.group : waiting?.[0], drops };
  }

  /** Returns the groups that give out something, with the places from which on they do. */
  #eligible(now: number): Map<string, Place> {
    const places = this.#names().map((group) => [group, this.#opens(group)!] as const);
    return new Map(places.filter(([, { deadline }]) => deadline <= now));
  }

  #leave(group: string): void {
    this.#round = this.#round.filter((one) => one.group !== group);
    if (this.#turn.group === group) this.#turn = { group: "", given: 0 };
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

  /** Returns from when on a group gives out something, and what decides among equal moments. */
  #opens(group: string): Place | undefined {
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

/** Returns whether no group gives out anything but the elements without one, which need no turns alone. */
function isOfOthersAlone(eligible: ReadonlyMap<string, Place>): boolean {
  return [...eligible.keys()].every((group) => group === "");
}
