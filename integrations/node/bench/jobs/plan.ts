// The jobs to send: BENCH_PLAN is a file with a line for each job, `id due`, in seconds.

import { readFileSync } from "node:fs";

export interface Planned {
  id: string;
  due: number;
}

/** How many are sent in one command, by either. */
export const BATCH = 1000;

export function* planned(): Generator<Planned[]> {
  const lines = readFileSync(process.env.BENCH_PLAN ?? "", "utf8")
    .trimEnd()
    .split("\n");
  for (let i = 0; i < lines.length; i += BATCH) {
    yield lines.slice(i, i + BATCH).map((line) => {
      const [id = "", due] = line.split(" ");
      return { id, due: Number(due) };
    });
  }
}

/** In milliseconds, from now on. */
export function delayOf({ due }: Planned): number {
  return Math.max(0, Math.ceil(due * 1000 - Date.now()));
}
