// The work of each job, in any queue: it takes its time, and records outside of the queue that it ran.
//
// BENCH_NOTES is a folder, in which each process has a file of its own, a line for each job: `id due started`, in
// seconds. BENCH_WORK is how many seconds a job takes. So it is in integrations/bench too.

import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const { BENCH_NOTES = ".", BENCH_WORK = "0" } = process.env;
const work = Number(BENCH_WORK) * 1000;
let file: number | undefined;

export async function note(id: string, due: number): Promise<void> {
  const started = Date.now() / 1000;
  if (work > 0) await sleep(work);
  file ??= openSync(`${BENCH_NOTES}/${process.pid}`, "a");
  // One write for each job: a process that is killed leaves no half of a line.
  writeSync(file, `${id} ${due} ${started}\n`);
}
