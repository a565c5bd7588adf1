// usage: bullmq.js worker|sender

import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { note } from "./note.js";
import { delayOf, type Planned, planned } from "./plan.js";

const { BENCH_URL = "" } = process.env;
const connection = new Redis(BENCH_URL, { maxRetriesPerRequest: null });
const visibility = 10_000;

if (process.argv[2] === "sender") {
  const queue = new Queue<Planned>("bench", { connection });
  await queue.waitUntilReady();
  for (const some of planned()) {
    await queue.addBulk(
      some.map((one) => ({
        name: "j",
        data: one,
        // By default, finished jobs are kept forever. Ids of digits only are refused.
        opts: { jobId: `j${one.id}`, delay: delayOf(one), removeOnComplete: true, attempts: 50 },
      })),
    );
  }
  await queue.close();
  await connection.quit();
} else {
  const worker = new Worker<Planned>("bench", ({ data: { id, due } }) => note(id, due), {
    connection,
    concurrency: 20,
    lockDuration: visibility,
    // By default each 30 seconds; and a job is given up whose worker died twice.
    stalledInterval: visibility,
    maxStalledCount: 50,
  });
  worker.on("error", (error) => console.error(error));
}
