"""Measure what tracing costs a worker: its processor time with and without, in alternating runs.

usage: tracing.py <port of a server with the module> [--jobs 2000] [--runs 9] [--rounds 0,50]

`make bench-tracing` runs it, and the same for Node. The work of a job is parsing and writing JSON in some
rounds. Spans are given in batches to an exporter that drops them. `all`, `tenth` and `none` are shares of the traces
that are sampled; `sdk` makes the spans and metrics of `all` by the API alone, so that the rest of `all` is ours. The
least of the runs counts: what else the machine does only adds.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable

from dehydrator_queue import Hooks, Queue, Worker

#: The shares of the traces that are sampled.
SAMPLED = {"off": 0.0, "all": 1.0, "sdk": 1.0, "tenth": 0.1, "none": 0.0}
DOCUMENT = json.dumps({"rows": [{"id": n, "name": f"row {n}", "price": n * 1.25} for n in range(40)]})


def hooks_of(how: str) -> tuple[Hooks, Callable[[], object]]:
    """Returns hooks, and what makes their spans be exported now."""
    if how == "off":
        return Hooks(), lambda: None
    from dehydrator_queue.opentelemetry import OpenTelemetryHooks
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    from tracing_alone import AloneHooks

    class Dropping(SpanExporter):
        def export(self, spans):
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(SAMPLED[how]))
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    meters = MeterProvider([InMemoryMetricReader()])
    kind = AloneHooks if how == "sdk" else OpenTelemetryHooks
    return kind(tracer_provider=provider, meter_provider=meters), provider.force_flush


def run_one(port: int, how: str, jobs: int, rounds: int) -> None:
    """Prints the processor time of a client and of a worker for each job, in microseconds."""
    logging.disable()
    hooks, flush = hooks_of(how)
    with Queue(f"redis://127.0.0.1:{port}", "tracing", hooks=hooks) as queue:
        queue.put({"n": -1}, id="connects")
        queue.cancel("connects")
        began = time.process_time()
        for n in range(jobs):
            queue.put({"n": n})
        flush()
        put = time.process_time() - began
        done = []

        def work(job) -> None:
            for _ in range(rounds):
                json.dumps(json.loads(DOCUMENT))
            done.append(job.id)
            if len(done) == jobs:
                worker.stop()

        worker = Worker(queue, work, concurrency=8, hooks=hooks, block=0.1)
        began = time.process_time()
        worker.run()
        flush()
        print(put / jobs * 1e6, (time.process_time() - began) / jobs * 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--rounds", default="0,50")
    parser.add_argument("--one", choices=SAMPLED)
    asked = parser.parse_args()
    if asked.one:
        run_one(asked.port, asked.one, asked.jobs, int(asked.rounds))
        return
    for rounds in map(int, asked.rounds.split(",")):
        jobs = max(200, asked.jobs // max(1, rounds // 5))
        took: dict[str, list[tuple[float, ...]]] = {how: [] for how in SAMPLED}
        for _ in range(asked.runs):
            for how, runs in took.items():
                words = [sys.executable, __file__, str(asked.port), "--one", how, "--jobs", str(jobs)]
                ended = subprocess.run([*words, "--rounds", str(rounds)], check=True, capture_output=True, text=True)
                runs.append(tuple(map(float, ended.stdout.split())))
        for n, who in enumerate(["put", "worker"]):
            least = {how: min(run[n] for run in runs) for how, runs in took.items()}
            off = least.pop("off")
            told = [f"{value - off:+.0f} µs ({value / off - 1:+.1%}) {how}" for how, value in least.items()]
            print(f"{who}: {off:.0f} µs of processor time for each job without; {'; '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
