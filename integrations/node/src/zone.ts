// The clocks of a time zone.

const DAY = 86_400_000;

/** Converts between moments, in milliseconds since 1970, and what the clocks of a zone show, as if that were UTC. */
export class Zone {
  readonly #format: Intl.DateTimeFormat;

  /** Throws RangeError for a name that is not in the IANA database. */
  constructor(readonly name: string) {
    this.#format = new Intl.DateTimeFormat("en", { timeZone: name, timeZoneName: "longOffset" });
    const { timeZone } = this.#format.resolvedOptions();
    // Elsewhere, an offset such as +01:00 is no zone, and names are spelled in one way.
    const isMisspelled = timeZone !== name && timeZone.toLowerCase() === name.toLowerCase();
    if (isMisspelled || !/^[A-Z]/.test(name)) throw new RangeError(`no time zone has the name ${name}`);
  }

  /** Returns by how many milliseconds the clocks are ahead of UTC. */
  offset(moment: number): number {
    const [, sign = "+", ...parts] = /GMT(?:([+-])(\d+):(\d+)(?::(\d+))?)?$/.exec(this.#format.format(moment)) ?? [];
    const [hours, minutes, seconds] = parts.map((part = "0") => Number(part));
    return Number(`${sign}1`) * ((hours! * 60 + minutes!) * 60 + seconds!) * 1000;
  }

  /** Returns when the clocks first show this: after a gap, if they skip it. */
  moment(shown: number): number {
    const [before, after] = [this.offset(shown - DAY), this.offset(shown + DAY)];
    for (const offset of [before, after]) {
      if (this.offset(shown - offset) === offset) return shown - offset;
    }
    return this.change(shown - Math.max(before, after), shown - Math.min(before, after), before)!;
  }

  /** Returns when the clocks are first no longer ahead by `offset`, as they are after `from`. */
  change(from: number, to: number, offset: number): number | undefined {
    // No zone changes its clocks twice in a day.
    for (let low = from; low < to; ) {
      let high = Math.min(low + DAY, to);
      if (this.offset(high) === offset) {
        low = high;
        continue;
      }
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2);
        if (this.offset(middle) === offset) low = middle;
        else high = middle;
      }
      return high;
    }
    return undefined;
  }
}
