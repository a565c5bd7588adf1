// Two priorities and a pause: urgent jobs come first, and none run while the mailer is repaired.
import { Queue, Worker } from "dehydrator-queue";

const url = process.env.REDIS_URL ?? "redis://127.0.0.1:6379";
const high = new Queue<string>(url, "{mail}:high");
const low = new Queue<string>(url, "{mail}:low");
const queues = [high, low];

for (const queue of queues) await queue.pause();
const worker = new Worker(queues, (job) => console.log(`${job.queue}: ${job.payload}`), { block: 500 });
const ended = worker.run();
await low.put("newsletter 17");
await low.put("newsletter 18", { delay: 300 });
await high.put("password of anna");
console.log("repaired");
for (const queue of queues) await queue.resume();

await ended; // which is when the process is asked to end
for (const queue of queues) queue.close();
