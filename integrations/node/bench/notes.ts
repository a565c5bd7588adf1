// The records of the jobs: which ran, when, and how often.

import { closeSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";

/** Seconds. Deadlines travel in milliseconds. */
const TOLERANCE = 0.001;

/** As integrations/bench has it; times in seconds. */
export interface Outcome {
  jobs: number;
  executions: number;
  once: number;
  twice: number;
  more: number;
  never: number;
  early: number;
  p50: number;
  p99: number;
  most: number;
  earliest: number;
}

/** Reads the files of a folder incrementally. */
export class Notes {
  readonly #files = new Map<string, { at: number; rest: string }>();
  #forgotten = new Set<string>();
  readonly counts = new Map<string, number>();
  readonly #late = new Map<string, number>();
  readonly #buffer = Buffer.alloc(1 << 20);
  executions = 0;
  early = 0;
  /** When the first and the last began. */
  first = Number.POSITIVE_INFINITY;
  last = 0;

  constructor(private readonly folder: string) {}

  /** Returns how many are new. */
  read(): number {
    const before = this.executions;
    for (const name of readdirSync(this.folder)) {
      const seen = this.#files.get(name) ?? { at: 0, rest: "" };
      const file = openSync(join(this.folder, name), "r");
      for (;;) {
        const count = readSync(file, this.#buffer, 0, this.#buffer.length, seen.at);
        if (count === 0) break;
        seen.at += count;
        const lines = (seen.rest + this.#buffer.toString("latin1", 0, count)).split("\n");
        seen.rest = lines.pop() ?? "";
        for (const line of lines) this.#note(line.split(" "));
      }
      closeSync(file);
      this.#files.set(name, seen);
    }
    return this.executions - before;
  }

  #note([id = "", due, started]: string[]): void {
    if (this.#forgotten.has(id)) return;
    const late = Number(started) - Number(due);
    this.executions += 1;
    this.counts.set(id, (this.counts.get(id) ?? 0) + 1);
    if (late < -TOLERANCE) this.early += 1;
    this.#late.set(id, Math.min(late, this.#late.get(id) ?? late));
    this.first = Math.min(this.first, Number(started));
    this.last = Math.max(this.last, Number(started));
  }

  /** Starts over, without the jobs that were read so far. */
  forget(): void {
    this.#forgotten = new Set(this.counts.keys());
    this.counts.clear();
    this.#late.clear();
    this.executions = 0;
    this.early = 0;
    this.first = Number.POSITIVE_INFINITY;
    this.last = 0;
  }

  outcome(jobs: number): Outcome {
    const late = Float64Array.from(this.#late.values()).sort();
    const often = [...this.counts.values()];
    return {
      jobs,
      executions: this.executions,
      once: often.filter((n) => n === 1).length,
      twice: often.filter((n) => n === 2).length,
      more: often.filter((n) => n > 2).length,
      never: jobs - this.counts.size,
      early: this.early,
      p50: late[Math.floor(late.length / 2)] ?? Number.NaN,
      p99: late[Math.min(late.length - 1, Math.floor(late.length * 0.99))] ?? Number.NaN,
      most: late.at(-1) ?? Number.NaN,
      earliest: late[0] ?? Number.NaN,
    };
  }
}
