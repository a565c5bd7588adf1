// Compares this package with BullMQ: the same jobs, on the same machine, one after the other.
//
// usage: run.js [--quick] [--server redis-server] [--module libdehydrator.so] [--folder folder] [--wait seconds]
//               [--only scenario]
//
//     --quick     a tenth of the jobs, to check that it runs
//
// Writes results.json, in the format of integrations/bench, and prints tables.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CONTENDERS } from "./contenders.js";
import { calm } from "./machine.js";
import { type Result, type Scenario, trial } from "./trial.js";

const root = new URL("../../../../", import.meta.url).pathname;
const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    server: { type: "string", default: "redis-server" },
    module: { type: "string", default: join(root, "target/release/libdehydrator.so") },
    folder: { type: "string", default: join(root, "target/bench-node") },
    wait: { type: "string", default: "60" },
    only: { type: "string" },
  },
});

const tenth = values.quick ? 10 : 1;
const now = { first: 0, last: 0, work: 0 };
const SCENARIOS: Record<string, Scenario> = {
  speed: { name: "speed", load: { ...now, jobs: 100_000 / tenth, concurrency: 50 }, workers: 1, after: true },
  quiet: {
    name: "quiet",
    load: { jobs: 20_000 / tenth, first: 8, last: 8 + 60 / tenth, work: 0, concurrency: 20 },
    workers: 2,
  },
  workers: {
    name: "workers killed",
    load: { jobs: 1500 / tenth, first: 7, last: 7 + 15 / (values.quick ? 3 : 1), work: 0.1, concurrency: 20 },
    workers: 2,
    kills: 2.5,
  },
  million: {
    name: "million",
    load: { jobs: 1_000_000 / tenth, first: 3600, last: 7200, work: 0, concurrency: 20 },
    workers: 1,
    idle: true,
  },
};

const results: Record<string, Result> = {};
mkdirSync(values.folder, { recursive: true });
for (const [scenario, what] of Object.entries(SCENARIOS)) {
  if (values.only !== undefined && values.only !== scenario) continue;
  for (const [name, contender] of Object.entries(CONTENDERS)) {
    await calm(Number(values.wait));
    const began = performance.now();
    const result = await trial(contender, what, {
      binary: values.server,
      module: values.module,
      folder: values.folder,
    });
    results[`${name} ${scenario}`] = result;
    writeFileSync(join(values.folder, "results.json"), `${JSON.stringify(results, null, 1)}\n`);
    console.log(`${name} ${scenario} took ${((performance.now() - began) / 1000).toFixed(0)} s: ${line(result)}`);
  }
}

function line(result: Result): string {
  const { outcome, load } = result;
  const micro = (seconds: number) => ((seconds / load.jobs) * 1e6).toFixed(1);
  const ms = (seconds: number) => (seconds * 1000).toFixed(1);
  const mb = (bytes: number) => (bytes / (1 << 20)).toFixed(0);
  return [
    `sent ${Math.round(load.jobs / result.sending)}/s${result.sent_late ? " TOO LATE" : ""}`,
    `worked ${Math.round(load.jobs / result.working)}/s`,
    `server ${micro(result.server_seconds_sending)} + ${micro(result.server_seconds - result.server_seconds_sending)} us`,
    `worker ${micro(result.worker_seconds)} us`,
    `late p50 ${ms(outcome.p50)} p99 ${ms(outcome.p99)} most ${ms(outcome.most)} ms, ${outcome.early} early`,
    `${outcome.executions} executions, ${outcome.once} once, ${outcome.twice} twice, ${outcome.more} more`,
    `${outcome.never} never, ${result.killed} killed`,
    `worker ${mb(result.rest_greatest)} to ${mb(result.peak_greatest)} MB`,
    `server ${result.server_bytes.toFixed(0)} bytes each`,
    `others took ${(result.others * 100).toFixed(0)} %${result.others > 0.1 ? " TOO MUCH" : ""}`,
  ].join("; ");
}
