// A worker for integrations/bench/wide.py: when it ends, it prints when its jobs began, and when they were due, in
// milliseconds.
//
// usage: wide_worker.js ioredis|redis <url> <queue> <concurrency>

import { type LibraryName, Queue, Worker } from "dehydrator-queue";

const [library, url = "", name = "", concurrency] = process.argv.slice(2);
const jobs = new Queue<number>(url, name, { library: library as LibraryName, keys: 3 });
const [begun, due]: [number[], number[]] = [[], []];
const work = ({ payload }: { payload: number }) => {
  begun.push(performance.timeOrigin + performance.now());
  due.push(payload);
};
await new Worker(jobs, work, { concurrency: Number(concurrency), block: 1000 }).run();
jobs.close();
console.log(JSON.stringify({ begun, due }));
