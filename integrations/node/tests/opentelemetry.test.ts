// Spans and metrics, with the exporters in memory.

import assert from "node:assert/strict";
import { before, type TestContext, test } from "node:test";
import { context, propagation, type SpanContext, SpanKind, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BasicTracerProvider,
  InMemorySpanExporter,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { Hooks, type Job, Queue, Reject, Retry, raw, Worker, type WorkerOptions } from "dehydrator-queue";
import { OpenTelemetryHooks } from "dehydrator-queue/opentelemetry";
import { MemoryServer } from "dehydrator-queue/testing";
import { RealServer } from "./servers.js";

before(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const propagators = [new W3CTraceContextPropagator(), new W3CBaggagePropagator()];
  propagation.setGlobalPropagator(new CompositePropagator({ propagators }));
});

class Quiet extends OpenTelemetryHooks {
  override retried(): void {}
  override buried(): void {}
}

function telemetryOf(t: TestContext, sampler: Sampler = new AlwaysOnSampler()) {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ sampler, spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: measured, exportIntervalMillis: 1e6 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  t.after(() => meterProvider.shutdown());
  return {
    hooks: new Quiet({ tracerProvider, meterProvider }),
    tracer: tracerProvider.getTracer("test"),
    spans: (name: string): ReadableSpan[] => exporter.getFinishedSpans().filter((span) => span.name.startsWith(name)),
    metrics: async () => {
      await reader.forceFlush();
      const scopes = measured
        .getMetrics()
        .at(-1)!
        .scopeMetrics.flatMap((scope) => scope.metrics);
      return new Map(scopes.map(({ descriptor, dataPoints }) => [descriptor.name, dataPoints]));
    },
  };
}

const id = (span: ReadableSpan | undefined) => span!.spanContext().spanId;
const parent = (span: ReadableSpan | undefined) => span!.parentSpanContext?.spanId;
const links = (span: ReadableSpan | undefined) => span!.links.map((link) => link.context.spanId);

function given(
  t: TestContext,
  work: (job: Job<string>) => unknown = () => {},
  { sampler, ...options }: WorkerOptions & { sampler?: Sampler } = {},
) {
  const telemetry = telemetryOf(t, sampler);
  const memory = new MemoryServer();
  const jobs = new Queue<string>(memory, "jobs", { hooks: telemetry.hooks });
  const worker = new Worker(jobs, work, { hooks: telemetry.hooks, backoff: { jitter: 0 }, ...options });
  return { ...telemetry, memory, jobs, worker };
}

test("a job is one trace, with the names of the conventions", async (t) => {
  const inner: unknown[] = [];
  const { memory, jobs, worker, tracer, spans } = given(t, () =>
    inner.push(trace.getActiveSpan()?.spanContext().spanId),
  );
  const request = tracer.startSpan("request");
  await context.with(trace.setSpan(context.active(), request), () => jobs.put("mail", { id: "mail:17" }));
  await memory.drain(worker);
  const [put, poll, process, settle] = ["put", "poll", "process", "settle"].map((name) => spans(name)[0]);
  assert.equal(parent(put), request.spanContext().spanId);
  assert.equal(parent(process), id(put));
  assert.deepEqual(inner, [id(process)]);
  assert.equal(parent(settle), id(process));
  for (const span of [put, process, settle]) assert.equal(span!.spanContext().traceId, request.spanContext().traceId);
  assert.deepEqual(links(poll), [id(put)]);
  const every = { "messaging.system": "dehydrator", "messaging.destination.name": "jobs" };
  const message = { "messaging.message.id": "mail:17" };
  for (const [span, name, type, kind, more] of [
    [put, "put", "send", SpanKind.PRODUCER, message],
    [poll, "poll", "receive", SpanKind.CLIENT, { "messaging.batch.message_count": 1 }],
    [
      process,
      "process",
      "process",
      SpanKind.CONSUMER,
      { ...message, "messaging.dehydrator.message.delivery_count": 1 },
    ],
    [settle, "settle", "settle", SpanKind.CLIENT, message],
  ] as const) {
    const told = { "messaging.operation.name": name, "messaging.operation.type": type };
    assert.deepEqual(span!.attributes, { ...every, ...told, ...more });
    assert.equal(span!.kind, kind);
  }
});

test("each attempt links to the one before, also after a revival", async (t) => {
  let tried = 0;
  const { memory, jobs, worker, spans } = given(t, () => {
    tried += 1;
    if (tried === 1) throw new Retry(5000);
    if (tried === 2) throw new Reject("no such address");
  });
  await jobs.put("mail");
  await memory.drain(worker);
  memory.advance(5000);
  await memory.drain(worker);
  const [dead] = await jobs.deadLetters();
  assert.deepEqual([String(dead?.element), dead?.reason], ['"mail"', "no such address"]);
  await jobs.revive();
  await memory.drain(worker);
  const [put] = spans("put");
  const attempts = spans("process");
  assert.deepEqual(attempts.map(parent), [id(put), id(put), id(put)]);
  assert.deepEqual(attempts.map(links), [[], [id(attempts[0])], [id(attempts[1])]]);
  assert.deepEqual(
    attempts.map((span) => span.attributes["error.type"]),
    ["Retry", "Reject", undefined],
  );
  const ends = ["release", "bury", "settle"].flatMap(spans);
  assert.deepEqual(ends.map(parent), attempts.map(id));
});

test("many are put in one span", async (t) => {
  const { memory, jobs, worker, spans } = given(t, () => {}, { concurrency: 3 });
  await jobs.putMany(["a", "b", "c"].map((payload) => ({ payload, id: payload })));
  const [put] = spans("put");
  assert.equal(put!.attributes["messaging.batch.message_count"], 3);
  await memory.drain(worker);
  assert.deepEqual(new Set(spans("process").map(parent)), new Set([id(put)]));
});

test("a trace that is not sampled makes metrics alone", async (t) => {
  const contexts: (SpanContext | undefined)[] = [];
  const work = (job: Job<string>) => {
    contexts.push(trace.getActiveSpan()?.spanContext());
    if (job.attempt === 1) throw new Retry(1000);
  };
  const sampler = new ParentBasedSampler({ root: new AlwaysOffSampler() });
  const { memory, jobs, worker, spans, metrics } = given(t, work, { sampler });
  await jobs.put("mail", { id: "17" });
  assert.ok(String(await memory.call("DEHYDRATOR.LOOK", "jobs", "17")).startsWith('\x1e{"traceparent":"00-'));
  await memory.drain(worker);
  memory.advance(1000);
  await memory.drain(worker);
  assert.deepEqual(spans(""), []);
  // The work still passes the decision on.
  assert.equal(new Set(contexts.map((one) => one?.traceId)).size, 1);
  assert.deepEqual(
    contexts.map((one) => one?.traceFlags),
    [0, 0],
  );
  const found = await metrics();
  const counts = (name: string) =>
    found
      .get(name)!
      .map(({ attributes, value }) => [attributes["messaging.operation.name"], (value as { count: number }).count]);
  assert.deepEqual(counts("messaging.process.duration"), [
    ["process", 1],
    ["process", 1],
  ]);
  assert.deepEqual(Object.fromEntries(counts("messaging.client.operation.duration")), {
    put: 1,
    poll: 2,
    release: 1,
    settle: 1,
  });
});

test("a poll links to what is sampled", async (t) => {
  const { memory, jobs, worker, spans } = given(t, () => {}, { concurrency: 4 });
  const traceparent = (n: number, flags: string) => `00-${"ab".repeat(16)}-${String(n).padStart(16, "0")}-${flags}`;
  for (const [id, before] of [
    ["1", { traceparent: traceparent(1, "01") }],
    ["2", { a: "b", traceparent: traceparent(2, "01") }],
    ["3", { traceparent: traceparent(3, "00") }],
    ["4", {}],
  ] as const)
    await memory.call("DEHYDRATOR.PUSH", "jobs", "0", `\x1e${JSON.stringify(before)}\n"mail"`, id);
  assert.equal(await jobs.size(), 4);
  await memory.drain(worker);
  assert.deepEqual(
    links(spans("poll")[0]),
    ["1", "2"].map((n) => n.padStart(16, "0")),
  );
});

test("baggage travels too", async (t) => {
  const found: unknown[] = [];
  const { memory, jobs, worker } = given(t, () =>
    found.push(propagation.getActiveBaggage()?.getEntry("tenant")?.value),
  );
  const baggage = propagation.createBaggage({ tenant: { value: "acme" } });
  await context.with(propagation.setBaggage(context.active(), baggage), () => jobs.put("mail"));
  await memory.drain(worker);
  assert.deepEqual(found, ["acme"]);
});

test("the envelope is there only with a context, and read by all", async (t) => {
  const { memory, jobs } = given(t);
  const element = async (id: string) => String(await memory.call("DEHYDRATOR.LOOK", "jobs", id));
  const plain = new Queue<string>(memory, "jobs");
  await plain.put("mail", { id: "plain" });
  assert.equal(await element("plain"), '"mail"');
  // Without an SDK there is no context.
  await new Queue(memory, "jobs", { hooks: new OpenTelemetryHooks() }).put("mail", { id: "no SDK" });
  assert.equal(await element("no SDK"), '"mail"');
  await jobs.put("mail", { id: "traced" });
  assert.ok((await element("traced")).startsWith('\x1e{"traceparent":"00-'));
  assert.equal((await plain.look("traced"))?.payload, "mail");
  const done: string[] = [];
  await memory.drain(new Worker(plain, (job) => done.push(job.payload)));
  assert.deepEqual(done, ["mail", "mail", "mail"]);
});

test("bytes that look like an envelope stay", async () => {
  for (const text of ["\x1e{}\n17", "\x1e{", '\x1e{"a":"b"}\n', "\x1e", ""]) {
    const memory = new MemoryServer();
    const jobs = new Queue(memory, "jobs", { codec: raw() });
    await jobs.put(Buffer.from(text), { id: "17" });
    assert.equal(String((await jobs.look("17"))?.payload), text);
    await jobs.update("17", Buffer.from(text));
    const done: string[] = [];
    await memory.drain(new Worker(jobs, (job) => done.push(String(job.payload))));
    assert.deepEqual(done, [text]);
  }
});

test("metrics of the work and of the queue", async (t) => {
  const server = await RealServer.start();
  t.after(() => server.close());
  const { hooks, metrics } = telemetryOf(t);
  const jobs = new Queue<string>(server.url, "jobs", { hooks });
  t.after(() => jobs.close());
  const worker: Worker<string> = new Worker(jobs, () => worker.stop(), { hooks, block: 100 });
  hooks.observe(jobs);
  await jobs.put("now");
  await jobs.put("later", { delay: 600_000 });
  await worker.run({ signals: false });
  await jobs.put("late");
  const found = await metrics();
  const value = (name: string) => found.get(name)?.map((point) => point.value);
  assert.deepEqual(
    ["waiting", "due", "held"].map((name) => value(`dehydrator.queue.${name}`)),
    [[2], [1], [0]],
  );
  assert.ok(Number(value("dehydrator.queue.lateness")) < 60);
  assert.deepEqual(value("messaging.client.sent.messages"), [3]);
  assert.deepEqual(value("messaging.client.consumed.messages"), [1]);
  const counts = found
    .get("messaging.client.operation.duration")!
    .map(({ attributes, value }) => [attributes["messaging.operation.name"], (value as { count: number }).count]);
  assert.deepEqual(Object.fromEntries(counts), { put: 3, poll: 1, settle: 1 });
  assert.equal((found.get("messaging.process.duration")![0]!.value as { count: number }).count, 1);
});

test("a hook that fails disturbs nothing", async () => {
  const crashes: string[] = [];
  class Broken extends Hooks {
    override sending(): never {
      throw new Error("sending");
    }
    override working(): Promise<never> {
      return Promise.reject(new Error("working"));
    }
    override async settling<A>(_job: Job, _how: string, settle: () => Promise<A>): Promise<A> {
      await settle();
      throw new Error("settling");
    }
    override crashed(_error: unknown, what: string): void {
      crashes.push(what);
    }
  }
  const [memory, hooks, done] = [new MemoryServer(), new Broken(), [] as string[]];
  const jobs = new Queue<string>(memory, "jobs", { hooks });
  await jobs.put("mail");
  await memory.drain(new Worker(jobs, (job) => done.push(job.payload), { hooks }));
  assert.deepEqual(done, ["mail"]);
  assert.deepEqual(crashes, ["the hook sending", "the hook working", "the hook settling"]);
});
