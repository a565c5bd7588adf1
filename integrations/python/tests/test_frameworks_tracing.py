"""The context of a trace passes through the brokers, by the frameworks' own middleware and ours."""

from __future__ import annotations

import dramatiq
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from servers import RealServer, wait_until
from taskiq.middlewares.opentelemetry_middleware import OpenTelemetryMiddleware as TaskiqMiddleware
from test_taskiq import until, working

from dehydrator_queue.dramatiq import DehydratorBroker as DramatiqBroker
from dehydrator_queue.dramatiq.opentelemetry import OpenTelemetryMiddleware
from dehydrator_queue.opentelemetry import OpenTelemetryHooks
from dehydrator_queue.taskiq import DehydratorBroker as TaskiqBroker


class Spans:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def ended(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())


@pytest.fixture
def spans() -> Spans:
    return Spans()


async def test_a_task_of_taskiq_is_in_the_trace_that_sent_it(server: RealServer, spans: Spans) -> None:
    broker = TaskiqBroker(server.url).with_middlewares(TaskiqMiddleware(tracer_provider=spans.provider))

    @broker.task
    async def note() -> None:
        pass

    with spans.provider.get_tracer("web").start_as_current_span("request") as request:
        await note.kiq()
    async with working(broker):
        await until(lambda: any(span.name.startswith("execute") for span in spans.ended()))
    assert {span.context.trace_id for span in spans.ended()} == {request.get_span_context().trace_id}


def test_a_message_of_dramatiq_is_in_the_trace_that_sent_it(server: RealServer, spans: Spans) -> None:
    broker = DramatiqBroker(url=server.url)
    broker.add_middleware(OpenTelemetryMiddleware(OpenTelemetryHooks(tracer_provider=spans.provider)))
    dramatiq.set_broker(broker)

    @dramatiq.actor(max_retries=1, min_backoff=1, max_backoff=1)
    def note() -> None:
        raise OSError("no answer")

    with spans.provider.get_tracer("web").start_as_current_span("request") as request:
        note.send()
    worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=1)
    worker.start()
    try:
        wait_until(lambda: server.client.xlen("dramatiq:default:dead"))
    finally:
        worker.stop()
        broker.close()
    put, first, second = (span for span in spans.ended() if span.name != "request")
    assert [put.name, first.name, second.name] == ["put default", "process default", "process default"]
    assert put.parent.span_id == request.get_span_context().span_id
    assert [first.parent.span_id, second.parent.span_id] == [put.context.span_id] * 2
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert [span.attributes["error.type"] for span in (first, second)] == ["OSError"] * 2
