"""Traces and metrics of a queue and its workers, by OpenTelemetry.

    telemetry = OpenTelemetryHooks()
    jobs = Queue(url, "jobs", hooks=telemetry)
    Worker(jobs, send, hooks=telemetry)
    telemetry.observe(jobs)

The names are those of the semantic conventions for messaging. The context of a trace travels in the headers of the job,
in the format of the global propagator: W3C, unless the program sets another.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TracerProvider

from dehydrator_queue.envelope import unwrap
from dehydrator_queue.hooks import Hooks
from dehydrator_queue.job import Delivery, Job, id_text
from dehydrator_queue.queue import Queue

#: The header with the `traceparent` of the attempt before this one, to which the next one links.
RETRY_OF = "retry-of"

_TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class OpenTelemetryHooks(Hooks):
    """Logs, and makes spans and metrics.

    Spans: `put`, `poll`, `process`, and `settle`, `release` or `bury`. A `process` is a child of its `put`, also after
    a dead letter was revived, and links to the attempt before it.
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        """The providers are by default the global ones."""
        self._tracer = trace.get_tracer("dehydrator_queue", tracer_provider=tracer_provider)
        self._meter = meter = metrics.get_meter("dehydrator_queue", meter_provider=meter_provider)
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Jobs that were put")
        self._consumed = meter.create_counter("messaging.client.consumed.messages", "{message}", "Jobs that were taken")
        self._operation = meter.create_histogram("messaging.client.operation.duration", "s", "Duration of commands")
        self._process = meter.create_histogram("messaging.process.duration", "s", "Duration of the work")
        #: The attributes of spans and metrics, by operation and queue.
        self._told: dict[tuple[str, str], dict[str, Any]] = {}

    def observe(self, *queues: Queue) -> None:
        """Adds gauges of these queues, read with DEHYDRATOR.INFO at each collection. One process needs to do so.

        A queue of a framework is `Queue(url, key)`: Celery's key is `dehydrator:celery`, for example.
        """
        for name, unit, told, value in (
            ("waiting", "{job}", "Jobs that no worker holds", lambda info: info["length"] - info["leased"]),
            ("due", "{job}", "Jobs that are due", lambda info: info["due"]),
            ("held", "{job}", "Jobs that workers hold", lambda info: info["leased"]),
            ("lateness", "s", "For how long the oldest due job could have been taken", _lateness),
        ):
            callback = self._observer(queues, value)
            self._meter.create_observable_gauge(f"dehydrator.queue.{name}", [callback], unit, told)

    def _observer(
        self, queues: Sequence[Queue], value: Callable[[dict[str, Any]], Any]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            for queue in queues:
                # While the server is away, the next collection asks again.
                info = queue.server.ask(queue.verbs.info(), patience=0)
                told = {"messaging.system": "dehydrator", "messaging.destination.name": queue.name}
                yield Observation(value(info), told)

        return observe

    def _attributes(self, operation: str, type: str, queue: str) -> dict[str, Any]:
        found = self._told.get((operation, queue))
        if found is None:
            found = self._told[operation, queue] = {
                "messaging.system": "dehydrator",
                "messaging.operation.name": operation,
                "messaging.operation.type": type,
                "messaging.destination.name": queue,
            }
        return found

    @contextmanager
    def sending(self, queue: str, ids: Sequence[str | bytes | None]) -> Iterator[Mapping[str, str]]:
        told = self._attributes("put", "send", queue)
        if len(ids) == 1 and ids[0] is not None:
            which: dict[str, Any] = {"messaging.message.id": id_text(ids[0])}
        else:
            which = {"messaging.batch.message_count": len(ids)}
        began = time.perf_counter()
        span = self._tracer.start_span(f"put {queue}", kind=SpanKind.PRODUCER, attributes={**told, **which})
        error: dict[str, str] = {}
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                headers: dict[str, str] = {}
                inject(headers)
                yield headers
        except BaseException as raised:
            error = _failed(span, raised)
            raise
        finally:
            span.end()
            self._sent.add(len(ids), {**told, **error})
            self._operation.record(time.perf_counter() - began, {**told, **error})

    def received(self, deliveries: Sequence[Delivery], seconds: float) -> None:
        queue = deliveries[0].key
        told = self._attributes("poll", "receive", queue)
        parents = (unwrap(one.element)[0].get("traceparent") for one in deliveries)
        links = [link for parent in parents if (link := _link(parent)) is not None]
        now = time.time_ns()
        self._tracer.start_span(
            f"poll {queue}",
            kind=SpanKind.CLIENT,
            attributes={**told, "messaging.batch.message_count": len(deliveries)},
            links=links,
            start_time=now - int(seconds * 1e9),
        ).end(now)
        self._consumed.add(len(deliveries), told)
        self._operation.record(seconds, told)

    @contextmanager
    def working(self, job: Job) -> Iterator[None]:
        told = self._attributes("process", "process", job.queue)
        parent = extract(job.headers, contexts.Context())
        before = job.headers.pop(RETRY_OF, None)
        link = _link(before)
        began = time.perf_counter()
        span = self._tracer.start_span(
            f"process {job.queue}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes={
                **told,
                "messaging.message.id": job.id,
                "messaging.dehydrator.message.delivery_count": job.attempt,
            },
            links=[link] if link else None,
        )
        job.context = trace.set_span_in_context(span, parent)
        token = contexts.attach(job.context)
        error: dict[str, str] = {}
        try:
            yield
        except BaseException as raised:
            error = _failed(span, raised)
            if span.is_recording():
                own = span.get_span_context()
                job.headers[RETRY_OF] = f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
            raise
        finally:
            contexts.detach(token)
            span.end()
            self._process.record(time.perf_counter() - began, {**told, **error})

    @contextmanager
    def settling(self, job: Job, how: str) -> Iterator[None]:
        told = self._attributes(how, "settle", job.queue)
        began = time.perf_counter()
        span = self._tracer.start_span(
            f"{how} {job.queue}",
            context=job.context,
            kind=SpanKind.CLIENT,
            attributes={**told, "messaging.message.id": job.id},
        )
        error: dict[str, str] = {}
        try:
            yield
        except BaseException as raised:
            error = _failed(span, raised)
            raise
        finally:
            span.end()
            self._operation.record(time.perf_counter() - began, {**told, **error})


def _failed(span: Span, error: BaseException) -> dict[str, str]:
    """Marks a span as failed, and returns the attribute that says why."""
    told = {"error.type": type(error).__qualname__}
    span.record_exception(error)
    span.set_attributes(told)
    span.set_status(Status(StatusCode.ERROR, str(error)))
    return told


def _link(traceparent: str | None) -> Link | None:
    # The propagator would take five times as long, for each job.
    found = _TRACEPARENT.match(traceparent or "")
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    return Link(SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags)))


def _lateness(info: dict[str, Any]) -> float:
    late = info.get("oldest-due-ms")
    return 0.0 if late is None else float(late) / 1000
