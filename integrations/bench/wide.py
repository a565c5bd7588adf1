"""Measure queues of several keys: jobs a second over one, two and three primaries, lateness, connections.

usage: wide.py [--jobs 4000] [--runs 3] [--only threads,asyncio,events,ioredis,node-redis]

`make bench-wide` runs it, and prints the tables of the packages' pages. A cluster of three primaries without replicas
shares the machine with the program that puts and with one worker, which does nothing in its jobs. The primaries share
it, too, so what they could do on machines of their own is told from their processor time: that of the busiest counts.
`events` is the worker of threads, but woken by an event of each primary instead of a POLL that sleeps for each key.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# The tests' cluster.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python/tests"))
from dehydrator_queue import Queue
from servers import ROOT, wait_until
from topologies import Cluster

PYTHON = [sys.executable, str(ROOT / "integrations/bench/jobs/wide_worker.py")]
NODE = ["node", str(ROOT / "integrations/node/dist/bench/wide_worker.js")]
WORKERS = {
    "threads": [*PYTHON, "threads"],
    "asyncio": [*PYTHON, "asyncio"],
    "events": [*PYTHON, "events"],
    "ioredis": [*NODE, "ioredis"],
    "node-redis": [*NODE, "redis"],
}
CONCURRENCY = 20
#: Of the jobs whose lateness is measured, how many there are, and milliseconds between two.
LONELY, APART = 600, 10
#: For how many seconds the primaries are watched while they do nothing.
IDLE = 5


class Spent:
    """Counts the processor time of the primaries' main threads, without what an idle one takes meanwhile."""

    def __init__(self, cluster: Cluster) -> None:
        self._files = [Path(f"/proc/{node.process.pid}/schedstat") for node in cluster.nodes]
        self._idle = [0.0] * len(self._files)
        self.begin()
        time.sleep(IDLE)
        self._idle = [us / IDLE for us in self.us()]

    def _now(self) -> list[float]:
        return [int(file.read_text().split()[0]) / 1000 for file in self._files]

    def begin(self) -> None:
        self._began, self._before = time.monotonic(), self._now()

    def us(self) -> list[float]:
        """Returns what each has taken since the beginning, in microseconds."""
        seconds = time.monotonic() - self._began
        pairs = zip(self._now(), self._before, self._idle, strict=True)
        return [now - before - idle * seconds for now, before, idle in pairs]


def connections(cluster: Cluster) -> int:
    return sum(node.client.info("clients")["connected_clients"] for node in cluster.nodes)


@contextmanager
def working(how: str, cluster: Cluster, queue: Queue, told: dict[str, Any]) -> Iterator[None]:
    """Runs a worker; its figures are in `told` when it has ended."""
    for node in cluster.nodes:
        node.client.config_set("notify-keyspace-events", "Ed" if how == "events" else "")
    words = [*WORKERS[how], cluster.url, queue.name, str(CONCURRENCY)]
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        yield
        worker.terminate()
        told.update(json.loads(worker.communicate(timeout=60)[0]))
    finally:
        worker.kill()


def full(how: str, cluster: Cluster, spent: Spent, keys: int, jobs: int) -> tuple[float, float]:
    """Returns jobs a second: those that the busiest primary could do with its processor, and those that were done."""
    told: dict[str, Any] = {}
    with Queue(cluster.url, f"full-{how}-{keys}", keys=keys) as queue:
        queue.put(0.0, id="opens", delay=3600)
        queue.cancel("opens")
        spent.begin()
        for n in range(jobs):
            queue.put(0.0, id=str(n))
        with working(how, cluster, queue, told):
            wait_until(lambda: time.sleep(0.1) or not len(queue))
            busiest = max(spent.us())
        assert len(told["begun"]) == jobs
        return jobs / busiest * 1e6, jobs / (max(told["begun"]) - min(told["begun"])) * 1000


def throughput(how: str, cluster: Cluster, spent: Spent, jobs: int, runs: int) -> str:
    """Returns a row of the table: what the busiest could do, as a ratio to that of one primary, and what was done.

    The best of the runs counts: what else the machine does only adds.
    """
    cells, of_one = [how], 0.0
    for keys in (1, 2, 3):
        figures = [full(how, cluster, spent, keys, jobs) for _ in range(runs)]
        could, did = map(max, zip(*figures, strict=True))
        of_one = of_one or could
        cells.append(f"{could:,.0f} ({could / of_one:.1f}); {did:,.0f}")
    return f"| {' | '.join(cells)} |"


def lonely(how: str, cluster: Cluster, spent: Spent) -> tuple[list[float], float, int]:
    """Returns by how many milliseconds jobs are late that come one by one; the primaries' time for each, connections.

    The time, in microseconds, is that of all three.
    """
    told: dict[str, Any] = {}
    with Queue(cluster.url, f"lonely-{how}", keys=3) as queue:
        queue.put(0.0)
        before = connections(cluster)
        with working(how, cluster, queue, told):
            wait_until(lambda: not len(queue))
            time.sleep(1.5)
            began = time.time() + 2
            spent.begin()
            for n in range(LONELY):
                at = int((began + n * APART / 1000) * 1000)
                queue.put(at, id=str(n), at=at / 1000)
            wait_until(lambda: time.sleep(0.5) or not len(queue))
            taken = sum(spent.us())
            held = connections(cluster) - before
        late = [begun - due for begun, due in zip(told["begun"], told["due"], strict=True) if due]
        assert len(late) == LONELY
        return late, taken / LONELY, held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default=",".join(WORKERS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            spent = Spent(cluster)
            print(f"One worker with `concurrency` {CONCURRENCY}; the best of {asked.runs} runs.\n")
            print("| jobs a second of the busiest primary's processor time (ratio); done | one primary | two | three |")
            print("|---|---:|---:|---:|")
            for how in asked.only.split(","):
                print(throughput(how, cluster, spent, asked.jobs, asked.runs), flush=True)
            print(f"\n{LONELY} jobs, {APART} ms apart, in three keys on three primaries.\n")
            print("| deadline to worker, ms | p50 | p99 | max | primaries' time for each job, µs | connections |")
            print("|---|---:|---:|---:|---:|---:|")
            for how in asked.only.split(","):
                late, taken, held = lonely(how, cluster, spent)
                cuts = statistics.quantiles(late, n=100)
                told = f"{cuts[49]:.1f} | {cuts[98]:.1f} | {max(late):.1f} | {taken:.0f} | {held}"
                print(f"| {how} | {told} |", flush=True)
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
