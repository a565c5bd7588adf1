/**
 * Traces and metrics of a queue and its workers, by OpenTelemetry.
 *
 *     const hooks = new OpenTelemetryHooks();
 *     const jobs = new Queue(url, "jobs", { hooks });
 *     new Worker(jobs, send, { hooks });
 *     hooks.observe(jobs);
 *
 * The names are those of the semantic conventions for messaging. The context of a trace travels in the headers of the
 * job, in the format of the global propagator: W3C, unless the program sets another.
 */

import {
  type Attributes,
  type Context,
  type Counter,
  context,
  type Histogram,
  INVALID_SPAN_CONTEXT,
  type Link,
  type Meter,
  type MeterProvider,
  metrics,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { type Headers, unwrap } from "./envelope.js";
import { Hooks } from "./hooks.js";
import type { Delivery, Id, Job } from "./job.js";
import type { Queue } from "./queue.js";

/** The header with the `traceparent` of the attempt before this one, to which the next one links. */
const RETRY_OF = "retry-of";

const NO_SPAN = trace.wrapSpanContext(INVALID_SPAN_CONTEXT);

/** Where spans and metrics go. */
export interface OpenTelemetryOptions {
  /** By default the global one. */
  tracerProvider?: TracerProvider;
  /** By default the global one. */
  meterProvider?: MeterProvider;
}

/**
 * Logs, and makes spans and metrics.
 *
 * Spans: `put`, `poll`, `process`, and `settle`, `release` or `bury`. A `process` is a child of its `put`, also after a
 * dead letter was revived, and links to the attempt before it.
 */
export class OpenTelemetryHooks extends Hooks {
  readonly #tracer: Tracer;
  readonly #meter: Meter;
  readonly #sent: Counter;
  readonly #consumed: Counter;
  readonly #operation: Histogram;
  readonly #process: Histogram;
  /** The attributes of spans and metrics, by operation and queue. */
  readonly #told = new Map<string, Attributes>();

  constructor({ tracerProvider, meterProvider }: OpenTelemetryOptions = {}) {
    super();
    this.#tracer = (tracerProvider ?? trace).getTracer("dehydrator-queue");
    const meter = (meterProvider ?? metrics).getMeter("dehydrator-queue");
    this.#meter = meter;
    this.#sent = meter.createCounter("messaging.client.sent.messages", { unit: "{message}" });
    this.#consumed = meter.createCounter("messaging.client.consumed.messages", { unit: "{message}" });
    this.#operation = meter.createHistogram("messaging.client.operation.duration", { unit: "s" });
    this.#process = meter.createHistogram("messaging.process.duration", { unit: "s" });
  }

  /**
   * Adds gauges of these queues, read with DEHYDRATOR.INFO at each collection. One process needs to do so.
   *
   * A queue of a framework is `new Queue(url, key)`: Celery's key is `dehydrator:celery`, for example.
   */
  // biome-ignore lint/suspicious/noExplicitAny: queues of any payload
  observe(...queues: Queue<any>[]): void {
    const gauge = (name: string, unit: string, description: string) =>
      this.#meter.createObservableGauge(`dehydrator.queue.${name}`, { unit, description });
    const waiting = gauge("waiting", "{job}", "Jobs that no worker holds");
    const due = gauge("due", "{job}", "Jobs that are due");
    const held = gauge("held", "{job}", "Jobs that workers hold");
    const lateness = gauge("lateness", "s", "For how long the oldest due job could have been taken");
    this.#meter.addBatchObservableCallback(
      async (observer) => {
        for (const queue of queues) {
          const told = { "messaging.system": "dehydrator", "messaging.destination.name": queue.name };
          // While the server is away, the next collection asks again.
          const info = await queue.info({}, { patience: 0 });
          const number = (name: string) => Number(info[name] ?? 0);
          observer.observe(waiting, number("length") - number("leased"), told);
          observer.observe(due, number("due"), told);
          observer.observe(held, number("leased"), told);
          observer.observe(lateness, number("oldest-due-ms") / 1000, told);
        }
      },
      [waiting, due, held, lateness],
    );
  }

  override async sending<A>(
    queue: string,
    ids: readonly (Id | undefined)[],
    send: (headers: Headers) => Promise<A>,
  ): Promise<A> {
    const [id] = ids;
    const which: Attributes =
      ids.length === 1 && id !== undefined
        ? { "messaging.message.id": typeof id === "string" ? id : Buffer.from(id).toString() }
        : { "messaging.batch.message_count": ids.length };
    const told = this.#attributes("put", "send", queue);
    const attributes = { ...told, ...which };
    const span = this.#tracer.startSpan(`put ${queue}`, { kind: SpanKind.PRODUCER, attributes });
    const inner = trace.setSpan(context.active(), span);
    const headers: Headers = {};
    propagation.inject(inner, headers);
    return this.#timed(
      span,
      told,
      this.#operation,
      inner,
      () => send(headers),
      (all) => this.#sent.add(ids.length, all),
    );
  }

  override received(deliveries: readonly Delivery[], ms: number): void {
    const queue = deliveries[0]!.queue;
    const told = this.#attributes("poll", "receive", queue);
    const options = {
      kind: SpanKind.CLIENT,
      attributes: { ...told, "messaging.batch.message_count": deliveries.length },
      startTime: Date.now() - ms,
    };
    const span = this.#tracer.startSpan(`poll ${queue}`, options, ROOT_CONTEXT);
    if (span.isRecording()) {
      for (const { element } of deliveries) {
        const put = linkOf(unwrap(element).headers.traceparent);
        // There is no span of a trace that is not sampled.
        if (put !== undefined && isSampled(put.context)) span.addLink(put);
      }
    }
    span.end();
    this.#consumed.add(deliveries.length, told);
    this.#operation.record(ms / 1000, told);
  }

  override working<A>(job: Job, work: () => Promise<A>): Promise<A> {
    const told = this.#attributes("process", "process", job.queue);
    const parent = propagation.extract(ROOT_CONTEXT, job.headers);
    const before = linkOf(job.headers[RETRY_OF]);
    delete job.headers[RETRY_OF];
    const options = {
      kind: SpanKind.CONSUMER,
      attributes: {
        ...told,
        "messaging.message.id": job.id,
        "messaging.dehydrator.message.delivery_count": job.attempt,
      },
      links: before === undefined ? [] : [before],
    };
    const span = this.#tracer.startSpan(`process ${job.queue}`, options, parent);
    const inner = trace.setSpan(parent, span);
    const isRecording = span.isRecording();
    job.context = inner;
    return this.#timed(span, told, this.#process, inner, work, (all) => {
      if (isRecording && "error.type" in all) job.headers[RETRY_OF] = traceparentOf(span);
    });
  }

  override settling<A>(job: Job, how: "settle" | "release" | "bury", settle: () => Promise<A>): Promise<A> {
    const told = this.#attributes(how, "settle", job.queue);
    const outer = (job.context as Context | undefined) ?? context.active();
    let span = NO_SPAN;
    // A sampler that did not want the work does not want its end either.
    if (isSampled(trace.getSpanContext(outer))) {
      const options = { kind: SpanKind.CLIENT, attributes: { ...told, "messaging.message.id": job.id } };
      span = this.#tracer.startSpan(`${how} ${job.queue}`, options, outer);
    }
    return this.#timed(span, told, this.#operation, outer, settle);
  }

  #attributes(operation: string, type: string, queue: string): Attributes {
    const key = `${operation} ${queue}`;
    let told = this.#told.get(key);
    if (told === undefined) {
      told = {
        "messaging.system": "dehydrator",
        "messaging.operation.name": operation,
        "messaging.operation.type": type,
        "messaging.destination.name": queue,
      };
      this.#told.set(key, told);
    }
    return told;
  }

  /** Runs something in a context, and ends its span. */
  async #timed<A>(
    span: Span,
    told: Attributes,
    duration: Histogram,
    inner: Context,
    run: () => Promise<A>,
    ended?: (all: Attributes) => void,
  ): Promise<A> {
    const began = performance.now();
    let all = told;
    try {
      return await context.with(inner, run);
    } catch (error) {
      const failed = { "error.type": error instanceof Error ? error.name : typeof error };
      span.recordException(error as Error);
      span.setAttributes(failed).setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
      all = { ...told, ...failed };
      throw error;
    } finally {
      span.end();
      duration.record((performance.now() - began) / 1000, all);
      ended?.(all);
    }
  }
}

function isSampled(span: SpanContext | undefined): boolean {
  return span !== undefined && (span.traceFlags & TraceFlags.SAMPLED) !== 0;
}

function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
}

function linkOf(traceparent: string | undefined): Link | undefined {
  const [, traceId, spanId, flags] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(traceparent ?? "") ?? [];
  if (traceId === undefined || spanId === undefined) return undefined;
  return { context: { traceId, spanId, traceFlags: Number.parseInt(flags ?? "0", 16), isRemote: true } };
}
