// A worker as a program, for tests that kill it: notes each job that is done in a list of the same server.
//
// usage: worker_program.js url queue ioredis|redis

import { setTimeout as sleep } from "node:timers/promises";
import { type LibraryName, Queue, Worker } from "dehydrator-queue";
import { Redis } from "ioredis";

const [url = "", name = "", library] = process.argv.slice(2);
const store = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
store.on("error", () => {});

const jobs = new Queue<{ ms: number; fail: number }>(url, name, { library: library as LibraryName });
const worker = new Worker(
  jobs,
  async ({ id, attempt, payload: { ms, fail } }) => {
    await sleep(ms);
    if (attempt <= fail) throw new Error("it was to fail");
    await store.rpush("done", `${id} ${attempt} ${Date.now()}`);
  },
  { concurrency: 4, lease: 4000, attempts: 50, block: 500, backoff: { first: 50, most: 200 } },
);
await worker.run();
jobs.close();
store.disconnect();
