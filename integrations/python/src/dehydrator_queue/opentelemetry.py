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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, MeterProvider, Observation
from opentelemetry.propagate import extract, get_global_textmap, inject
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TracerProvider

from dehydrator_queue.hooks import Hooks
from dehydrator_queue.job import Delivery, Job, id_text
from dehydrator_queue.queue.queue import Queue

#: The header with the `traceparent` of the attempt before this one, to which the next one links.
RETRY_OF = "retry-of"

_TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

#: The traceparent in an element: to parse all headers takes several times as long.
_PUT_BY = re.compile(b'\x1e{[^\\n]*"traceparent":"([^"]*)"')


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

    def observe(self, *queues: Queue[Any]) -> None:
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
        self, queues: Sequence[Queue[Any]], value: Callable[[dict[str, Any]], Any]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            for queue in queues:
                # While the server is away, the next collection asks again.
                info = queue._server.ask(queue._commands.info(), patience=0)
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

    def sending(self, queue: str, ids: Sequence[str | bytes | None]) -> AbstractContextManager[Mapping[str, str]]:
        told = self._attributes("put", "send", queue)
        if len(ids) == 1 and ids[0] is not None:
            which: dict[str, Any] = {"messaging.message.id": id_text(ids[0])}
        else:
            which = {"messaging.batch.message_count": len(ids)}
        span = self._tracer.start_span(f"put {queue}", kind=SpanKind.PRODUCER, attributes={**told, **which})
        return _Sending(self._sent, len(ids), span, trace.set_span_in_context(span), self._operation, told)

    def received(self, deliveries: Sequence[Delivery], seconds: float) -> None:
        queue = deliveries[0].key
        told = self._attributes("poll", "receive", queue)
        now = time.time_ns()
        span = self._tracer.start_span(
            f"poll {queue}",
            kind=SpanKind.CLIENT,
            attributes={**told, "messaging.batch.message_count": len(deliveries)},
            start_time=now - int(seconds * 1e9),
        )
        if span.is_recording():
            for one in deliveries:
                found = _PUT_BY.match(one.element)
                put = _span_context(found[1].decode()) if found else None
                # There is no span of a trace that is not sampled.
                if put is not None and put.trace_flags.sampled:
                    span.add_link(put)
        span.end(now)
        self._consumed.add(len(deliveries), told)
        self._operation.record(seconds, told)

    def working(self, job: Job) -> AbstractContextManager[None]:
        told = self._attributes("process", "process", job.queue)
        parent = _parent(job.headers)
        before = _span_context(job.headers.pop(RETRY_OF, None))
        span = self._tracer.start_span(
            f"process {job.queue}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes={
                **told,
                "messaging.message.id": job.id,
                "messaging.dehydrator.message.delivery_count": job.attempt,
            },
            links=[Link(before)] if before else None,
        )
        inner = trace.set_span_in_context(span, parent)
        job.context = inner if span.is_recording() else None
        return _Working(job, span, inner, self._process, told)

    def settling(self, job: Job, how: str) -> AbstractContextManager[None]:
        told = self._attributes(how, "settle", job.queue)
        span: Span = trace.INVALID_SPAN
        # A sampler that did not want the work does not want its end either.
        if job.context is not None:
            span = self._tracer.start_span(
                f"{how} {job.queue}",
                context=job.context,
                kind=SpanKind.CLIENT,
                attributes={**told, "messaging.message.id": job.id},
            )
        return _Timed(span, None, self._operation, told)


class _Timed(AbstractContextManager[Any]):
    """Ends a span, and records its duration. A generator would take several times as long."""

    def __init__(self, span: Span, inner: contexts.Context | None, duration: Histogram, told: dict[str, Any]) -> None:
        self._span = span
        self._inner = inner
        self._duration = duration
        self._told = told
        self._began = time.perf_counter()

    def __enter__(self) -> Any:
        if self._inner is not None:
            self._token = contexts.attach(self._inner)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._inner is not None:
            contexts.detach(self._token)
        if error is not None:
            self._told = {**self._told, **_failed(self._span, error)}
        self._span.end()
        self._duration.record(time.perf_counter() - self._began, self._told)


class _Sending(_Timed):
    def __init__(self, sent: Counter, count: int, *timed: Any) -> None:
        super().__init__(*timed)
        self._sent = sent
        self._count = count

    def __enter__(self) -> Mapping[str, str]:
        super().__enter__()
        headers: dict[str, str] = {}
        inject(headers)
        return headers

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        super().__exit__(kind, error, traceback)
        self._sent.add(self._count, self._told)


class _Working(_Timed):
    def __init__(self, job: Job, *timed: Any) -> None:
        super().__init__(*timed)
        self._job = job

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and self._span.is_recording():
            own = self._span.get_span_context()
            self._job.headers[RETRY_OF] = f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
        super().__exit__(kind, error, traceback)


def _failed(span: Span, error: BaseException) -> dict[str, str]:
    """Marks a span as failed, and returns the attribute that says why."""
    told = {"error.type": type(error).__qualname__}
    span.record_exception(error)
    span.set_attributes(told)
    span.set_status(Status(StatusCode.ERROR, str(error)))
    return told


def _parent(headers: Mapping[str, str]) -> contexts.Context:
    """Returns the context that the global propagator extracts, in a third of its time for W3C's alone."""
    if len(headers) == 1 and (put := _span_context(headers.get("traceparent"))) and _is_w3c(get_global_textmap()):
        return trace.set_span_in_context(trace.NonRecordingSpan(put), contexts.Context())
    return extract(headers, contexts.Context())


@lru_cache(maxsize=1)
def _is_w3c(propagator: TextMapPropagator) -> bool:
    return "traceparent" in propagator.fields


def _span_context(traceparent: str | None) -> SpanContext | None:
    found = _TRACEPARENT.fullmatch(traceparent or "")
    if found is None:
        return None
    trace_id, span_id, flags = found.groups()
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def _lateness(info: dict[str, Any]) -> float:
    late = info.get("oldest-due-ms")
    return 0.0 if late is None else float(late) / 1000
