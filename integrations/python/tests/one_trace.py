"""A trace from a web request through Celery, a retry, and a dead letter that is put back for a worker in Node.

usage: one_trace.py url folder

It is also the application of the Celery worker that it starts. All spans are appended to `folder/spans`, one a line.
The test in integrations/node/tests/one_trace.test.ts goes on from here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import celery
from opentelemetry import trace
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from servers import wait_until

from dehydrator_queue import Job, Queue, Reject, Worker
from dehydrator_queue.opentelemetry import OpenTelemetryHooks

if __name__ == "__main__":
    os.environ["URL"], os.environ["FOLDER"] = sys.argv[1:]
URL, FOLDER = os.environ["URL"], Path(os.environ["FOLDER"])

exporter = ConsoleSpanExporter(
    out=(FOLDER / "spans").open("a"), formatter=lambda span: span.to_json(indent=None) + "\n"
)
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
CeleryInstrumentor().instrument()
telemetry = OpenTelemetryHooks()

app = celery.Celery("one_trace", broker=f"{URL}/0")
app.conf.update(broker_transport="dehydrator_queue.kombu:Transport", worker_hijack_root_logger=False)
jobs = Queue(URL, "jobs", hooks=telemetry)


@app.task(bind=True, name="order")
def order(self, who: str) -> None:
    if self.request.retries == 0:
        raise self.retry(countdown=0.1)
    jobs.put({"mail": who}, id="mail:17")


def main() -> None:
    with trace.get_tracer("web").start_as_current_span("GET /order", kind=trace.SpanKind.SERVER):
        order.delay("anna")
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [sys.executable, "-m", "celery", "-A", "one_trace", "worker", "--pool", "solo", "--loglevel", "info"]
    with (FOLDER / "celery.log").open("w") as log:
        tasks = subprocess.Popen(words, cwd=here, env={**os.environ, "PYTHONPATH": path}, stdout=log, stderr=log)
    try:
        wait_until(lambda: len(jobs) == 1)
        # It has sent the spans of its second attempt when it has ended.
        tasks.terminate()
        tasks.wait(240)
    finally:
        tasks.kill()

    def reject(job: Job) -> None:
        worker.stop()
        raise Reject("no such address")

    worker = Worker(jobs, reject, hooks=telemetry, block=0.1)
    worker.run()
    assert [dead.reason for dead in jobs.dead_letters()] == ["no such address"]
    assert jobs.revive() == 1


if __name__ == "__main__":
    main()
