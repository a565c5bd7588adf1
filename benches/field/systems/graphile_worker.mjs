// A program that uses Graphile Worker for systems/graphile_worker.py. systems/node_program.py has its requests.
import { createInterface } from "node:readline";
import { Logger, makeWorkerUtils, run } from "graphile-worker";

const connectionString = process.argv[2];
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ connectionString, logger });
if (process.argv[3] === "--migrate") {
  await utils.migrate();
  process.exit();
}

const spec = ([number, payload, delay]) => ({
  identifier: "job",
  payload,
  runAt: new Date(Date.now() + delay),
  jobKey: `job-${number}`,
});

async function put(jobs) {
  if (jobs.length > 1) return utils.addJobs(jobs.map(spec));
  const { identifier, payload, runAt, jobKey } = spec(jobs[0]);
  return utils.addJob(identifier, payload, { runAt, jobKey });
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.work) {
    const taskList = { job: async (payload) => console.log(payload) };
    await run({ connectionString, logger, taskList, concurrency: 1, noHandleSignals: true });
  } else {
    await (request.put
      ? put(request.put)
      : utils.withPgClient((client) => client.query("SELECT graphile_worker.remove_job($1)", [`job-${request.cancel}`])));
    console.log("done");
  }
}
process.exit();
