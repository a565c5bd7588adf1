// The spans and metrics of OpenTelemetryHooks, by the calls of the API alone, as tracing.ts compares them.

import {
  type Context,
  context,
  type Histogram,
  metrics,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { type Delivery, Hooks, type Job } from "dehydrator-queue";
import type { OpenTelemetryOptions } from "dehydrator-queue/opentelemetry";

const told = (operation: string, type: string) => ({
  "messaging.system": "dehydrator",
  "messaging.operation.name": operation,
  "messaging.operation.type": type,
  "messaging.destination.name": "tracing",
});
const PUT = told("put", "send");
const POLL = told("poll", "receive");
const PROCESS = told("process", "process");
const SETTLE = told("settle", "settle");
const MESSAGE = { "messaging.message.id": "7a6f0b6e-5c3c-4d0b-9d8e-3f2a1b0c9d8e" };
const LINK = { context: { traceId: "1".repeat(32), spanId: "1".repeat(16), traceFlags: 1, isRemote: true } };

/** Begins and ends spans where nothing has to surround anything. */
export class AloneHooks extends Hooks {
  readonly #tracer: Tracer;
  readonly #operation: Histogram;
  readonly #process: Histogram;

  constructor({ tracerProvider, meterProvider }: OpenTelemetryOptions) {
    super();
    this.#tracer = (tracerProvider ?? trace).getTracer("alone");
    const meter = (meterProvider ?? metrics).getMeter("alone");
    this.#operation = meter.createHistogram("messaging.client.operation.duration", { unit: "s" });
    this.#process = meter.createHistogram("messaging.process.duration", { unit: "s" });
  }

  override sending<A>(_queue: string, _ids: unknown, send: (headers: Record<string, string>) => Promise<A>) {
    const span = this.#tracer.startSpan("put tracing", { kind: SpanKind.PRODUCER, attributes: { ...PUT, ...MESSAGE } });
    const inner = trace.setSpan(context.active(), span);
    const headers: Record<string, string> = {};
    propagation.inject(inner, headers);
    span.end();
    this.#operation.record(0.001, PUT);
    return context.with(inner, () => send(headers));
  }

  override received(deliveries: readonly Delivery[]): void {
    const attributes = { ...POLL, "messaging.batch.message_count": deliveries.length };
    const links = deliveries.map(() => LINK);
    this.#tracer.startSpan("poll tracing", { kind: SpanKind.CLIENT, attributes, links }, ROOT_CONTEXT).end();
    this.#operation.record(0.001, POLL);
  }

  override working<A>(job: Job, work: () => Promise<A>): Promise<A> {
    const parent = propagation.extract(ROOT_CONTEXT, job.headers);
    const attributes = { ...PROCESS, ...MESSAGE, "messaging.dehydrator.message.delivery_count": 1 };
    const span = this.#tracer.startSpan("process tracing", { kind: SpanKind.CONSUMER, attributes }, parent);
    job.context = trace.setSpan(parent, span);
    span.end();
    this.#process.record(0.001, PROCESS);
    return context.with(job.context as Context, work);
  }

  override succeeded(job: Job): void {
    const attributes = { ...SETTLE, ...MESSAGE };
    this.#tracer
      .startSpan("settle tracing", { kind: SpanKind.CLIENT, attributes }, job.context as Context | undefined)
      .end();
    this.#operation.record(0.001, SETTLE);
  }
}
