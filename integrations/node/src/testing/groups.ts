// The groups of a dehydrator in memory, which give out their due elements in turns.

/** What an element's place in the order of its group follows from. */
interface Grouped {
  readonly group: string;
  readonly deadline: number;
  readonly sequence: number;
}

export class Groups<T extends Grouped> {
  /** How many elements a group gives out in its turn, if that is not 1. */
  readonly shares = new Map<string, number>();
  /** The groups that have something due. The first one gives out the next element. */
  #round: string[] = [];
  /** How many elements the first one has given out in this turn. */
  #given = 0;
  /** When somebody last took an element, or tried to. */
  #looked = 0;
  /** How many elements are in a group, without those that have none. */
  #grouped = 0;

  /** Whether elements are given out in turns, and not in the order of all. */
  get areUsed(): boolean {
    return this.#grouped > 0 || this.shares.size > 0;
  }

  /** Counts an element that has come, or gone. */
  count({ group }: T, change: 1 | -1): void {
    if (group !== "") this.#grouped += change;
  }

  /** Takes groups out of the round that have nothing due any more. `entries`: all elements, in the order of delivery. */
  settle(entries: readonly T[]): void {
    if (this.#round.length === 0) return;
    const [first] = this.#round;
    const due = firstOfEach(entries, this.#looked);
    this.#round = this.#round.filter((group) => due.has(group));
    if (this.#round[0] !== first) this.#given = 0;
  }

  /** Returns the element whose turn it is. */
  next(entries: readonly T[], now: number): T | undefined {
    const [group] = this.#round;
    return entries.find((entry) => entry.deadline <= now && (group === undefined || entry.group === group));
  }

  /** Lets those that have become due into the round, and returns the element whose turn it is. It counts as given out. */
  take(entries: readonly T[], now: number): T | undefined {
    this.#looked = now;
    const waiting = [...firstOfEach(entries, now).keys()].filter((group) => !this.#round.includes(group));
    this.#round.push(...waiting);
    const next = this.next(entries, now);
    if (next === undefined) return undefined;
    this.#given += 1;
    if (this.#given >= (this.shares.get(next.group) ?? 1)) {
      this.#given = 0;
      this.#round.push(this.#round.shift()!);
    }
    return next;
  }
}

/** Returns the first element of each group that has something due, in the order of delivery. */
function firstOfEach<T extends Grouped>(entries: readonly T[], now: number): Map<string, T> {
  const firsts = new Map<string, T>();
  for (const entry of entries) {
    if (entry.deadline > now) break;
    if (!firsts.has(entry.group)) firsts.set(entry.group, entry);
  }
  return firsts;
}
