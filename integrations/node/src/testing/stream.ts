/** A stream of dead letters. */
export class Stream {
  entries: { id: string; fields: string[] }[] = [];
  #last = [0, 0];

  add(now: number, fields: string[]): void {
    const [ms = 0, sequence = 0] = this.#last;
    this.#last = now > ms ? [now, 0] : [ms, sequence + 1];
    this.entries.push({ id: this.#last.join("-"), fields });
  }

  drop(ids: readonly string[]): number {
    const before = this.entries.length;
    this.entries = this.entries.filter(({ id }) => !ids.includes(id));
    return before - this.entries.length;
  }
}
