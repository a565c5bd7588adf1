// One trace from a web request through Celery, a retry, a dead letter and its revival into a worker here.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { context, propagation } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Queue, Worker } from "dehydrator-queue";
import { OpenTelemetryHooks } from "dehydrator-queue/opentelemetry";
import { RealServer } from "./servers.js";

const ROOT = new URL("../../../../", import.meta.url).pathname;
const PYTHON = join(ROOT, "target/integrations/venv/bin/python");

interface Span {
  name: string;
  kind: string;
  trace: string;
  id: string;
  parent: string | undefined;
  links: string[];
  error: unknown;
}

interface FromPython {
  name: string;
  kind: string;
  context: { trace_id: string; span_id: string };
  parent_id: string | null;
  links: { context: { span_id: string } }[];
  attributes: Record<string, unknown>;
}

function spansOfPython(file: string): Span[] {
  const lines = readFileSync(file, "utf8").trim().split("\n");
  return lines
    .map((line) => JSON.parse(line) as FromPython)
    .map(({ name, kind, context, parent_id, links, attributes }) => ({
      name,
      kind: kind.replace("SpanKind.", ""),
      trace: context.trace_id.slice(2),
      id: context.span_id.slice(2),
      parent: parent_id?.slice(2),
      links: links.map((link) => link.context.span_id.slice(2)),
      error: attributes["error.type"],
    }));
}

test("a trace goes from a web request through Celery, a retry and a dead letter into a worker here", async (t) => {
  assert.ok(existsSync(PYTHON), "scripts/integrations-python.sh makes the Python that this needs");
  const server = await RealServer.start();
  t.after(() => server.close());
  const folder = mkdtempSync(join(tmpdir(), "dehydrator-trace-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const program = join(ROOT, "integrations/python/tests/one_trace.py");
  const PYTHONPATH = join(ROOT, "integrations/python/src");
  try {
    const env = { ...process.env, PYTHONPATH };
    await promisify(execFile)(PYTHON, [program, server.url, folder], { env, timeout: 600_000 });
  } catch (error) {
    const log = join(folder, "celery.log");
    throw new Error(existsSync(log) ? readFileSync(log, "utf8").slice(-3000) : "it did not start", { cause: error });
  }

  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const hooks = new OpenTelemetryHooks({ tracerProvider });
  const jobs = new Queue<{ mail: string }>(server.url, "jobs", { hooks });
  t.after(() => jobs.close());
  const done: string[] = [];
  const worker: Worker<{ mail: string }> = new Worker(
    jobs,
    (job) => {
      done.push(job.payload.mail);
      worker.stop();
    },
    { hooks, block: 100 },
  );
  await worker.run({ signals: false });
  assert.deepEqual(done, ["anna"]);

  const here = exporter.getFinishedSpans().map(
    (span): Span => ({
      name: span.name,
      kind: ["INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"][span.kind]!,
      trace: span.spanContext().traceId,
      id: span.spanContext().spanId,
      parent: span.parentSpanContext?.spanId,
      links: span.links.map((link) => link.context.spanId),
      error: span.attributes["error.type"],
    }),
  );
  const there = spansOfPython(join(folder, "spans"));
  const only = (spans: Span[], name: string, parent: string | undefined): Span => {
    const found = spans.filter((span) => span.name === name && span.parent === parent);
    assert.equal(found.length, 1, `${name} of ${parent}: ${JSON.stringify(spans, null, 1)}`);
    return found[0]!;
  };
  const request = only(there, "GET /order", undefined);
  const sent = only(there, "apply_async/order", request.id);
  const first = only(there, "run/order", sent.id);
  const resent = only(there, "apply_async/order", first.id);
  const second = only(there, "run/order", resent.id);
  const put = only(there, "put jobs", second.id);
  const rejected = only(there, "process jobs", put.id);
  const buried = only(there, "bury jobs", rejected.id);
  const revived = only(here, "process jobs", put.id);
  const settled = only(here, "settle jobs", revived.id);
  const chain = [request, sent, first, resent, second, put, rejected, buried, revived, settled];
  const kinds = chain.map((span) => span.kind).join(" ");
  assert.equal(kinds, "SERVER PRODUCER CONSUMER PRODUCER CONSUMER PRODUCER CONSUMER CLIENT CONSUMER CLIENT");
  assert.deepEqual(new Set(chain.map((span) => span.trace)), new Set([request.trace]));
  assert.equal(rejected.error, "Reject");
  assert.ok(revived.links.every((link) => link === rejected.id));
  // A POLL belongs to no one job: it links to those that it got.
  const polls = [...there, ...here].filter((span) => !chain.includes(span));
  assert.deepEqual(
    polls.map((span) => [span.name, span.links]),
    [
      ["poll jobs", [put.id]],
      ["poll jobs", [put.id]],
    ],
  );
});
