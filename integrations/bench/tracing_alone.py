"""The spans and metrics of OpenTelemetryHooks, by the calls of the API alone, as tracing.py compares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from dehydrator_queue import Hooks
from dehydrator_queue.job import Delivery, Job
from dehydrator_queue.opentelemetry import OpenTelemetryHooks
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags


def told(operation: str, type: str) -> dict[str, str]:
    return {
        "messaging.system": "dehydrator",
        "messaging.operation.name": operation,
        "messaging.operation.type": type,
        "messaging.destination.name": "tracing",
    }


PUT, POLL, PROCESS, SETTLE = (
    told("put", "send"),
    told("poll", "receive"),
    told("process", "process"),
    told("settle", "settle"),
)
MESSAGE = {"messaging.message.id": "7a6f0b6e-5c3c-4d0b-9d8e-3f2a1b0c9d8e"}
SPAN = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1))
MANY = {"messaging.batch.message_count": 8}
COUNT = {"messaging.dehydrator.message.delivery_count": 1}


class AloneHooks(OpenTelemetryHooks):
    """Begins and ends spans where nothing has to surround anything."""

    @contextmanager
    def sending(self, queue: str, ids: Sequence[str | bytes | None]) -> Iterator[Mapping[str, str]]:
        span = self._tracer.start_span("put tracing", kind=SpanKind.PRODUCER, attributes={**PUT, **MESSAGE})
        headers: dict[str, str] = {}
        token = contexts.attach(trace.set_span_in_context(span))
        inject(headers)
        yield headers
        contexts.detach(token)
        span.end()
        self._operation.record(0.001, PUT)

    def received(self, deliveries: Sequence[Delivery], seconds: float) -> None:
        here = SPAN
        links = [Link(here) for _ in deliveries]
        self._tracer.start_span("poll tracing", kind=SpanKind.CLIENT, attributes={**POLL, **MANY}, links=links).end()
        self._operation.record(0.001, POLL)

    def started(self, job: Job) -> None:
        parent = extract(job.headers, contexts.Context())
        attributes = {**PROCESS, **MESSAGE, **COUNT}
        span = self._tracer.start_span("process tracing", context=parent, kind=SpanKind.CONSUMER, attributes=attributes)
        job.context = trace.set_span_in_context(span, parent)
        contexts.detach(contexts.attach(job.context))
        span.end()
        self._process.record(0.001, PROCESS)

    def succeeded(self, job: Job, seconds: float) -> None:
        attributes = {**SETTLE, **MESSAGE}
        self._tracer.start_span(
            "settle tracing", context=job.context, kind=SpanKind.CLIENT, attributes=attributes
        ).end()
        self._operation.record(0.001, SETTLE)

    working = Hooks.working
    settling = Hooks.settling
