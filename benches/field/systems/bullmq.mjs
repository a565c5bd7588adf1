// A program that uses BullMQ for systems/bullmq.py. systems/node_program.py has its requests.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { Queue, Worker } = createRequire(`${process.cwd()}/`)("bullmq");

const connection = { host: "127.0.0.1", port: Number(process.argv[2]) };
const queue = new Queue("jobs", { connection });
// The server is killed in one of the trials.
queue.on("error", () => {});
// Finished jobs are removed, as with the other systems.
const options = (number, delay) => ({ jobId: `job-${number}`, delay, removeOnComplete: true });

async function put([[number, of, delay], ...more]) {
  if (more.length === 0) return queue.add("job", { of }, options(number, delay));
  const jobs = [[number, of, delay], ...more];
  return queue.addBulk(jobs.map(([number, of, delay]) => ({ name: "job", data: { of }, opts: options(number, delay) })));
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.work) {
    const worker = new Worker("jobs", async (job) => console.log(job.data.of), { connection });
    worker.on("error", () => {});
  } else {
    await (request.put ? put(request.put) : queue.remove(`job-${request.cancel}`));
    console.log("done");
  }
}
process.exit();
