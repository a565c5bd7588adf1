// Measures what tracing costs a worker: its processor time with and without, in alternating runs.
//
// usage: tracing.js <port of a server with the module> [--jobs 20000] [--runs 9] [--rounds 0,50]
//
// The same as integrations/bench/tracing.py; `make bench-tracing` runs both. `context` has no spans, but a context manager,
// as a program has that traces anything: in Node 20, it makes each promise take longer.

import { execFileSync } from "node:child_process";
import { parseArgs } from "node:util";
import { context, propagation } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
} from "@opentelemetry/sdk-trace-base";
import { Hooks, Queue, Worker } from "dehydrator-queue";
import { OpenTelemetryHooks } from "dehydrator-queue/opentelemetry";
import { AloneHooks } from "./tracing_alone.js";

/** The shares of the traces that are sampled. */
const SAMPLED = { off: 0, context: 0, all: 1, sdk: 1, tenth: 0.1, none: 0 };
type How = keyof typeof SAMPLED;
const HOWS = Object.keys(SAMPLED) as How[];
const ROWS = Array.from({ length: 40 }, (_, n) => ({ id: n, name: `row ${n}`, price: n * 1.25 }));
const DOCUMENT = JSON.stringify({ rows: ROWS });
/** The jobs before those that are measured, in which Node compiles what it runs. */
const WARM = 4000;

/** Returns hooks, and what exports their spans now. */
function hooksOf(how: How): { hooks: Hooks; flush: () => Promise<void> } {
  const without = { hooks: new Hooks(), flush: async () => {} };
  if (how === "off") return without;
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  if (how === "context") return without;
  const propagators = [new W3CTraceContextPropagator(), new W3CBaggagePropagator()];
  propagation.setGlobalPropagator(new CompositePropagator({ propagators }));
  const dropping = new BatchSpanProcessor({
    export: (_spans, done) => done({ code: 0 }),
    shutdown: async () => {},
  });
  const tracerProvider = new BasicTracerProvider({
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(SAMPLED[how]) }),
    spanProcessors: [dropping],
  });
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1e6 });
  const providers = { tracerProvider, meterProvider: new MeterProvider({ readers: [reader] }) };
  const hooks = how === "sdk" ? new AloneHooks(providers) : new OpenTelemetryHooks(providers);
  return { hooks, flush: () => dropping.forceFlush() };
}

/** Returns the processor time in microseconds. */
function spent(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** Prints the processor time of a client and of a worker for each job, in microseconds. */
async function runOne(port: number, how: How, jobs: number, rounds: number): Promise<void> {
  const { hooks, flush } = hooksOf(how);
  const queue = new Queue<{ n: number }>(`redis://127.0.0.1:${port}`, "tracing", { hooks });
  const times: [number, number][] = [];
  for (const count of [WARM, jobs]) {
    let began = spent();
    for (let n = 0; n < count; n += 1) await queue.put({ n });
    await flush();
    const put = spent() - began;
    let done = 0;
    const work = () => {
      for (let n = 0; n < rounds; n += 1) JSON.stringify(JSON.parse(DOCUMENT));
      done += 1;
      if (done === count) worker.stop();
    };
    const worker = new Worker(queue, work, { concurrency: 8, hooks, block: 100 });
    began = spent();
    await worker.run({ signals: false });
    await flush();
    times.push([put / count, (spent() - began) / count]);
  }
  queue.close();
  console.log(times.at(-1)!.join(" "));
  process.exit();
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: "string", default: "20000" },
    runs: { type: "string", default: "9" },
    rounds: { type: "string", default: "0,50" },
    one: { type: "string" },
  },
});
const port = Number(positionals[0]);
if (values.one !== undefined) await runOne(port, values.one as How, Number(values.jobs), Number(values.rounds));
for (const rounds of values.rounds.split(",").map(Number)) {
  const jobs = Math.max(200, Math.round(Number(values.jobs) / Math.max(1, rounds / 5)));
  const took = new Map(HOWS.map((how) => [how, [] as number[][]]));
  for (let run = 0; run < Number(values.runs); run += 1) {
    for (const [how, runs] of took) {
      const words = [process.argv[1]!, String(port), "--one", how, "--jobs", String(jobs), "--rounds", String(rounds)];
      runs.push(execFileSync(process.execPath, words, { encoding: "utf8" }).split(" ").map(Number));
    }
  }
  for (const [n, who] of ["put", "worker"].entries()) {
    const of = (how: How) => Math.min(...took.get(how)!.map((run) => run[n]!));
    const off = of("off");
    const told = HOWS.slice(1).map((how) => {
      const more = of(how) - off;
      const sign = more < 0 ? "" : "+";
      return `${sign}${more.toFixed(0)} µs (${sign}${((more / off) * 100).toFixed(1)}%) ${how}`;
    });
    console.log(`${who}: ${off.toFixed(0)} µs of processor time for each job without; ${told.join("; ")}`);
  }
}
