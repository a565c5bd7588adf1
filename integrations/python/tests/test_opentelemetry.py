"""Spans and metrics, with the exporters in memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, ClassVar

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.propagators.textmap import TextMapPropagator, default_getter, default_setter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBasedTraceIdRatio, Sampler
from opentelemetry.trace import SpanKind
from redis.exceptions import OutOfMemoryError
from servers import RealServer

from dehydrator_queue import Backoff, Hooks, Item, Job, Queue, QueueFull, Raw, Reject, Retry, Worker, aio
from dehydrator_queue.opentelemetry import OpenTelemetryHooks
from dehydrator_queue.testing import MemoryServer


class Telemetry:
    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.hooks = OpenTelemetryHooks(tracer_provider=self.provider, meter_provider=self.meters)
        self.tracer = self.provider.get_tracer("test")

    def spans(self, name: str = "") -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith(name)]

    def metrics(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def element(memory: MemoryServer, id: str) -> bytes:
    return memory.execute_command("DEHYDRATOR.LOOK", "jobs", id)


def test_a_job_is_one_trace_with_the_names_of_the_conventions(telemetry: Telemetry) -> None:
    memory = MemoryServer()
    jobs = Queue(memory, "jobs", hooks=telemetry.hooks)
    with telemetry.tracer.start_as_current_span("request") as request:
        jobs.put("mail", id="mail:17")
    inner: list[Any] = []

    def work(job: Job) -> None:
        inner.append(trace.get_current_span().get_span_context().span_id)
        assert job.payload == "mail"

    memory.drain(Worker(jobs, work, hooks=telemetry.hooks))
    (put,), (poll,), (process,), (settle,) = map(telemetry.spans, ("put", "poll", "process", "settle"))
    assert put.parent.span_id == request.get_span_context().span_id
    assert process.parent.span_id == put.context.span_id
    assert inner == [process.context.span_id]
    assert settle.parent.span_id == process.context.span_id
    assert {span.context.trace_id for span in (put, process, settle)} == {request.get_span_context().trace_id}
    assert [link.context.span_id for link in poll.links] == [put.context.span_id]
    kinds = [span.kind for span in (put, poll, process, settle)]
    assert kinds == [SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER, SpanKind.CLIENT]
    every = {"messaging.system": "dehydrator", "messaging.destination.name": "jobs"}
    for span, name, type, more in (
        (put, "put", "send", {"messaging.message.id": "mail:17"}),
        (poll, "poll", "receive", {"messaging.batch.message_count": 1}),
        (
            *(process, "process", "process"),
            {"messaging.message.id": "mail:17", "messaging.dehydrator.message.delivery_count": 1},
        ),
        (settle, "settle", "settle", {"messaging.message.id": "mail:17"}),
    ):
        told = {"messaging.operation.name": name, "messaging.operation.type": type}
        assert dict(span.attributes) == {**every, **told, **more}


def test_a_dead_letter_keeps_its_headers_if_there_is_no_room_for_others(telemetry: Telemetry) -> None:
    class Full(MemoryServer):
        def execute_command(self, *words: Any, **options: Any) -> Any:
            if words[0] == "DEHYDRATOR.REJECT" and "ELEMENT" in words:
                raise OutOfMemoryError("command not allowed when used memory > 'maxmemory'")
            return super().execute_command(*words, **options)

    def reject(job: Job) -> None:
        raise Reject("no such address")

    memory = Full()
    jobs = Queue(memory, "jobs", hooks=telemetry.hooks)
    jobs.put("mail")
    memory.drain(Worker(jobs, reject, hooks=telemetry.hooks))
    assert [(dead.payload, dead.reason) for dead in jobs.dead_letters()] == [("mail", "no such address")]


def test_each_attempt_links_to_the_one_before_also_after_a_revival(telemetry: Telemetry) -> None:
    memory = MemoryServer()
    jobs = Queue(memory, "jobs", hooks=telemetry.hooks)
    jobs.put("mail", id="mail:17")

    def work(job: Job) -> None:
        if job.attempt == 1 and not tried:
            tried.append(1)
            raise Retry(5)
        if len(tried) == 1:
            tried.append(2)
            raise Reject("no such address")

    tried: list[int] = []
    worker = Worker(jobs, work, hooks=telemetry.hooks, backoff=Backoff(jitter=0))
    memory.drain(worker)
    memory.advance(5)
    memory.drain(worker)
    assert [(dead.element, dead.reason) for dead in jobs.dead_letters()] == [(b'"mail"', "no such address")]
    jobs.revive()
    memory.drain(worker)
    (put,) = telemetry.spans("put")
    first, second, third = telemetry.spans("process")
    assert {span.parent.span_id for span in (first, second, third)} == {put.context.span_id}
    assert [len(span.links) for span in (first, second, third)] == [0, 1, 1]
    assert [span.links[0].context.span_id for span in (second, third)] == [
        first.context.span_id,
        second.context.span_id,
    ]
    assert [span.attributes.get("error.type") for span in (first, second, third)] == ["Retry", "Reject", None]
    (release,), (bury,), (settle,) = map(telemetry.spans, ("release", "bury", "settle"))
    ends = [release.parent.span_id, bury.parent.span_id, settle.parent.span_id]
    assert ends == [first.context.span_id, second.context.span_id, third.context.span_id]


def test_many_are_put_in_one_span(telemetry: Telemetry) -> None:
    memory = MemoryServer()
    jobs = Queue(memory, "jobs", hooks=telemetry.hooks)
    jobs.put_many(Item(n, id=f"n:{n}") for n in range(3))
    (put,) = telemetry.spans("put")
    assert put.attributes["messaging.batch.message_count"] == 3
    memory.drain(Worker(jobs, lambda job: None, concurrency=3, hooks=telemetry.hooks))
    assert {span.parent.span_id for span in telemetry.spans("process")} == {put.context.span_id}
    assert [one.payload for one in jobs] == []


def test_baggage_travels_too(telemetry: Telemetry) -> None:
    memory = MemoryServer()
    jobs = Queue(memory, "jobs", hooks=telemetry.hooks)
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    try:
        jobs.put("mail")
    finally:
        context.detach(token)
    found: list[Any] = []
    memory.drain(Worker(jobs, lambda job: found.append(baggage.get_baggage("tenant")), hooks=telemetry.hooks))
    assert found == ["acme"]


def test_the_envelope_is_there_only_with_a_context_and_read_by_all(telemetry: Telemetry) -> None:
    memory = MemoryServer()
    plain, traced = Queue(memory, "jobs"), Queue(memory, "jobs", hooks=telemetry.hooks)
    plain.put("mail", id="plain")
    assert element(memory, "plain") == b'"mail"'
    # Without an SDK there is no context.
    Queue(memory, "jobs", hooks=OpenTelemetryHooks()).put("mail", id="no SDK")
    assert element(memory, "no SDK") == b'"mail"'
    traced.put("mail", id="traced")
    assert element(memory, "traced").startswith(b'\x1e{"traceparent":"00-')
    assert plain.look("traced").payload == "mail"
    done: list[str] = []
    memory.drain(Worker(plain, lambda job: done.append(job.payload)))
    assert done == ["mail"] * 3


@pytest.mark.parametrize("payload", [b"\x1e{}\n17", b"\x1e{", b'\x1e{"a":"b"}\n', b"\x1e", b""])
def test_bytes_that_look_like_an_envelope_stay(payload: bytes) -> None:
    memory = MemoryServer()
    jobs = Queue(memory, "jobs", codec=Raw())
    jobs.put(payload, id="17")
    assert jobs.look("17").payload == payload
    assert [one.payload for one in jobs] == [payload]
    jobs.update("17", payload)
    done: list[bytes] = []
    memory.drain(Worker(jobs, lambda job: done.append(job.payload)))
    assert done == [payload]


def test_metrics_of_the_work_and_of_the_queue(server: RealServer, telemetry: Telemetry) -> None:
    with Queue(server.url, "jobs", hooks=telemetry.hooks) as jobs:
        worker = Worker(jobs, lambda job: worker.stop(), hooks=telemetry.hooks, block=0.1)
        telemetry.hooks.observe(jobs)
        jobs.put("now")
        jobs.put("later", delay=600)
        worker.run(signals=False)
        jobs.put("late")
        found = telemetry.metrics()
    told = {"messaging.system": "dehydrator", "messaging.destination.name": "jobs"}
    gauges = {name: points[0].value for name, points in found.items() if name.startswith("dehydrator.queue.")}
    assert 0 <= gauges.pop("dehydrator.queue.lateness") < 60
    assert gauges == {"dehydrator.queue.waiting": 2, "dehydrator.queue.due": 1, "dehydrator.queue.held": 0}
    assert dict(found["dehydrator.queue.due"][0].attributes) == told
    assert [point.value for point in found["messaging.client.sent.messages"]] == [3]
    assert [point.value for point in found["messaging.client.consumed.messages"]] == [1]
    assert [point.count for point in found["messaging.process.duration"]] == [1]
    by_name = {p.attributes["messaging.operation.name"]: p.count for p in found["messaging.client.operation.duration"]}
    assert by_name == {"put": 3, "poll": 1, "settle": 1}


async def test_with_asyncio_it_is_the_same(telemetry: Telemetry) -> None:
    memory = MemoryServer()
    jobs = aio.Queue(memory.aio, "jobs", hooks=telemetry.hooks)
    inner: list[int] = []

    async def work(job: Job) -> None:
        inner.append(trace.get_current_span().get_span_context().span_id)
        if job.attempt == 1:
            raise OSError("no answer")

    await jobs.put("mail")
    worker = aio.Worker(jobs, work, hooks=telemetry.hooks)
    await memory.aio.drain(worker)
    memory.advance(1)
    await memory.aio.drain(worker)
    (put,), (first, second) = telemetry.spans("put"), telemetry.spans("process")
    assert inner == [first.context.span_id, second.context.span_id]
    assert {first.parent.span_id, second.parent.span_id} == {put.context.span_id}
    assert [link.context.span_id for link in second.links] == [first.context.span_id]


def test_a_trace_that_is_not_sampled_makes_metrics_alone() -> None:
    telemetry, memory = Telemetry(ParentBasedTraceIdRatio(0)), MemoryServer()
    jobs = Queue(memory, "jobs", hooks=telemetry.hooks)
    jobs.put("mail", id="17")
    assert element(memory, "17").startswith(b'\x1e{"traceparent":"00-')

    def work(job: Job) -> None:
        contexts.append(trace.get_current_span().get_span_context())
        if job.attempt == 1:
            raise Retry(1)

    contexts: list[Any] = []
    worker = Worker(jobs, work, hooks=telemetry.hooks, backoff=Backoff(jitter=0))
    memory.drain(worker)
    memory.advance(1)
    memory.drain(worker)
    assert telemetry.spans() == []
    # The work still passes the decision on.
    assert len({one.trace_id for one in contexts}) == 1
    assert [one.trace_flags.sampled for one in contexts] == [False, False]
    counts = [point.count for point in telemetry.metrics()["messaging.process.duration"]]
    assert sorted(counts) == [1, 1]
    points = telemetry.metrics()["messaging.client.operation.duration"]
    assert {p.attributes["messaging.operation.name"]: p.count for p in points} == {
        **{"put": 1, "poll": 2, "release": 1, "settle": 1}
    }


def test_a_poll_links_to_what_is_sampled(telemetry: Telemetry) -> None:
    memory = MemoryServer()
    for n, headers in enumerate(
        ['"traceparent":"%s-01"', '"a":"b","traceparent":"%s-01"', '"traceparent":"%s-00"', ""]
    ):
        traceparent = f"00-{'ab' * 16}-{n + 1:016x}"
        text = f"\x1e{{{headers.replace('%s', traceparent)}}}\n17"
        memory.execute_command("DEHYDRATOR.PUSH", "jobs", 0, text, str(n))
    memory.execute_command(
        "DEHYDRATOR.PUSH", "jobs", 0, f'17\x1e{{"traceparent":"00-{"ab" * 16}-{9:016x}-01"}}\n', "17"
    )
    memory.drain(Worker(Queue(memory, "jobs"), lambda job: None, concurrency=5, hooks=telemetry.hooks))
    (poll,) = telemetry.spans("poll")
    assert [link.context.span_id for link in poll.links] == [1, 2]


class Other(TextMapPropagator):
    """Another format than W3C's."""

    fields: ClassVar[set[str]] = {"other"}

    def extract(self, carrier: Any, context: Any = None, getter: Any = default_getter) -> Any:
        return context

    def inject(self, carrier: Any, context: Any = None, setter: Any = default_setter) -> None:
        setter.set(carrier, "other", "17")


TRACEPARENT = f"00-{'ab' * 16}-{'cd' * 8}-01"


@pytest.mark.parametrize("propagator", [None, Other()])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"traceparent": TRACEPARENT},
        {"traceparent": TRACEPARENT[:-1] + "0"},
        {"traceparent": TRACEPARENT + "-more"},
        {"traceparent": "01" + TRACEPARENT[2:] + "-more"},
        {"traceparent": TRACEPARENT.upper()},
        {"traceparent": f"00-{'0' * 32}-{'cd' * 8}-01"},
        {"traceparent": f"00-{'ab' * 16}-{'0' * 16}-01"},
        {"traceparent": "", "baggage": "a=b"},
        {"traceparent": TRACEPARENT, "tracestate": "a=b", "baggage": "a=b"},
        {"other": "17"},
    ],
)
def test_the_parent_is_what_the_propagator_extracts(
    telemetry: Telemetry, headers: dict[str, str], propagator: TextMapPropagator | None
) -> None:
    before = propagate.get_global_textmap()
    propagate.set_global_textmap(propagator or before)
    try:
        expected = trace.get_current_span(propagate.extract(headers, context.Context())).get_span_context()
        with telemetry.hooks.working(Job("17", None, 1, "jobs", "", headers=dict(headers))):
            pass
    finally:
        propagate.set_global_textmap(before)
    (process,) = telemetry.spans("process")
    assert process.parent == (expected if expected.is_valid else None)
    if expected.is_valid:
        assert process.parent.trace_state == expected.trace_state
        assert process.parent.trace_flags == expected.trace_flags


def test_a_failed_put_is_marked(telemetry: Telemetry) -> None:
    memory = MemoryServer()
    memory.execute_command("DEHYDRATOR.LIMIT", "jobs", "LENGTH", 1)
    jobs = Queue(memory, "jobs", hooks=telemetry.hooks)
    jobs.put("one")
    with pytest.raises(QueueFull):
        jobs.put("two")
    assert [span.attributes.get("error.type") for span in telemetry.spans("put")] == [None, "QueueFull"]


def test_a_hook_that_fails_disturbs_nothing() -> None:
    class Broken(Hooks):
        crashes = 0

        def sending(self, queue: str, ids: Any) -> Any:
            raise RuntimeError("sending")

        def working(self, job: Job) -> Any:
            raise RuntimeError("working")

        def crashed(self, error: BaseException) -> None:
            self.crashes += 1

    memory, broken, done = MemoryServer(), Broken(), []
    jobs = Queue(memory, "jobs", hooks=broken)
    jobs.put("mail")
    memory.drain(Worker(jobs, lambda job: done.append(job.payload), hooks=broken))
    assert (done, broken.crashes) == (["mail"], 2)


def test_the_package_needs_no_opentelemetry() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None\n"
    program += "import dehydrator_queue.aio, dehydrator_queue.kombu\n"
    program += "from dehydrator_queue import Queue, Worker\nfrom dehydrator_queue.testing import MemoryServer\n"
    program += "memory = MemoryServer(); jobs = Queue(memory, 'jobs'); jobs.put(17, id='17')\n"
    program += "assert memory.execute_command('DEHYDRATOR.LOOK', 'jobs', '17') == b'17'\n"
    program += "memory.drain(Worker(jobs, lambda job: None)); assert len(jobs) == 0"
    subprocess.run([sys.executable, "-c", program], check=True)
