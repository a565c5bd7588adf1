/** A stream of dead letters. */
export class Stream {
  entries: { id: string; ms: number; fields: string[] }[] = [];
  #last = { ms: 0, sequence: 0 };

  add(now: number, ...fields: string[]): string {
    const { ms, sequence } = this.#last;
    this.#last = now > ms ? { ms: now, sequence: 0 } : { ms, sequence: sequence + 1 };
    const id = `${this.#last.ms}-${this.#last.sequence}`;
    this.entries.push({ id, ms: this.#last.ms, fields });
    return id;
  }
}
