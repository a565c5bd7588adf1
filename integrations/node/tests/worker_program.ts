// A worker as a program, for tests that kill it: notes in a file what it begins and does, as `done id attempt at pid`.
//
// usage: worker_program.js url queue ioredis|redis file

import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { type LibraryName, Queue, Worker } from "dehydrator-queue";

const [url = "", name = "", library, file = ""] = process.argv.slice(2);
const note = (what: string, { id, attempt }: { id: string; attempt: number }) =>
  appendFileSync(file, `${what} ${id} ${attempt} ${Date.now()} ${process.pid}\n`);

const jobs = new Queue<{ ms: number; fail: number }>(url, name, { library: library as LibraryName });
const worker = new Worker(
  jobs,
  async (job) => {
    note("begun", job);
    await sleep(job.payload.ms);
    const isFailing = job.attempt <= job.payload.fail;
    note(isFailing ? "failed" : "done", job);
    if (isFailing) throw new Error("it was to fail");
  },
  { concurrency: 4, lease: 8000, attempts: 50, block: 500, backoff: { first: 50, most: 200 } },
);
await worker.run();
jobs.close();
