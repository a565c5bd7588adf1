// usage: dehydrator.js worker|sender

import { Queue, Worker } from "dehydrator-queue";
import { note } from "./note.js";
import { delayOf, type Planned, planned } from "./plan.js";

const { BENCH_URL = "" } = process.env;
const jobs = new Queue<Planned>(BENCH_URL, "bench", { library: "ioredis" });

if (process.argv[2] === "sender") {
  // Delays begin when the server hears of them: not before there is a connection.
  await jobs.check();
  for (const some of planned()) {
    await jobs.putMany(some.map((one) => ({ payload: one, id: `j${one.id}`, delay: delayOf(one) })));
  }
} else {
  const options = { concurrency: 20, lease: 10_000, attempts: 50 };
  await new Worker(jobs, ({ payload: { id, due } }) => note(id, due), options).run();
}
jobs.close();
