// The occurrences of a cron text in a time zone, as Debian's cron runs its jobs, and as cronsim for Python has them.

import { DehydratorError } from "./errors.js";
import type { Due, Occurrences } from "./occurrences.js";
import { Zone } from "./zone.js";

/** The greatest value and the number of values in each field: minute, hour, day of the month, month, day of the week. */
const FIELDS = [
  { last: 59, size: 60 },
  { last: 23, size: 24 },
  { last: 31, size: 31 },
  { last: 12, size: 12 },
  { last: 7, size: 7 },
];

const VALUE = "\\d+|[A-Z]{3}";
const RANGE = new RegExp(`^(\\*|${VALUE})(?:-(${VALUE}))?(?:/(\\d+))?$`);
const SPECIAL = new RegExp(`^(LW?|\\d+L|(${VALUE})#[1-5])$`);

/** How many occurrences are listed at most at once. */
const MOST_DUE = 2000;

/** The used part of the library croner, which knows the calendar. */
export interface CronLibrary {
  Cron: new (text: string, options: { utcOffset: number; mode: "5-part"; domAndDow: boolean }) => Dates;
}

interface Dates {
  nextRun(after: Date): Date | null;
}

export async function cronLibrary(): Promise<CronLibrary> {
  try {
    return await import("croner");
  } catch (cause) {
    throw new DehydratorError("schedules need croner: `npm install croner`", { cause });
  }
}

export function hasCron(): Promise<boolean> {
  return cronLibrary().then(
    () => true,
    () => false,
  );
}

export class Cron implements Occurrences {
  readonly #dates: Dates;
  readonly #zone: Zone;
  readonly #isFixed: boolean;

  /** Throws RangeError for a text that is no cron, and for a zone that does not exist. */
  constructor({ Cron }: CronLibrary, text: string, zone: string) {
    const fields = text.trim().toUpperCase().split(/\s+/);
    // As in Debian: a day has to match both fields of days if either begins with a star, and otherwise one of them.
    const domAndDow = [fields[2], fields[4]].some((field) => field?.startsWith("*"));
    try {
      if (fields.length !== FIELDS.length) throw new RangeError(`it has ${fields.length} fields`);
      const spelled = fields.map((field, at) =>
        field
          .split(",")
          .map((item) => spell(item, at))
          .join(","),
      );
      this.#dates = new Cron(spelled.join(" "), { utcOffset: 0, mode: "5-part", domAndDow });
    } catch (cause) {
      throw new RangeError(`no cron text: "${text}": ${(cause as Error).message}`, { cause });
    }
    this.#zone = new Zone(zone);
    this.#isFixed = !fields[0]!.startsWith("*") && !fields[1]!.startsWith("*");
  }

  /** Returns the first occurrence after a moment, in milliseconds since 1970, or null if there is none. */
  after(moment: number): number | null {
    return this.#isFixed ? this.#fixed(moment) : this.#running(moment);
  }

  due(first: number, last: number): Due {
    const found = [first];
    for (let next = this.after(first); next !== null && next <= last; next = this.after(next)) {
      if (found.push(next) === MOST_DUE) break;
    }
    return { count: found.length, at: (n) => found[n]! };
  }

  /** A time of day that the clocks skip comes right after the gap, and one that they show twice comes the first time. */
  #fixed(moment: number): number | null {
    for (let shown: number | null = moment + this.#zone.offset(moment); ; ) {
      shown = this.#shownAfter(shown);
      if (shown === null) return null;
      const found = this.#zone.moment(shown);
      if (found > moment) return found;
    }
  }

  /** Jobs of each hour or minute run whenever the clocks show such a time. */
  #running(moment: number): number | null {
    for (let [from, offset] = [moment, this.#zone.offset(moment)]; ; ) {
      const shown = this.#shownAfter(from + offset);
      if (shown === null) return null;
      const change = this.#zone.change(from, shown - offset, offset);
      if (change === undefined) return shown - offset;
      [from, offset] = [change - 1, this.#zone.offset(change)];
    }
  }

  #shownAfter(shown: number): number | null {
    const next = this.#dates.nextRun(new Date(shown));
    return next === null ? null : Number(next);
  }
}

/** Returns an item of a field, such as `5/15`, as the library spells it. */
function spell(item: string, field: number): string {
  if (SPECIAL.test(item)) return item;
  const [, first, last, step] = RANGE.exec(item) ?? [];
  if (first === undefined) throw new RangeError(`"${item}"`);
  if (step === undefined) return item;
  const { last: end, size } = FIELDS[field]!;
  const range = first === "*" ? "*" : `${first}-${last ?? end}`;
  // A greater step than there are values is refused by the library.
  return `${range}/${Math.min(Number(step), size)}`;
}
