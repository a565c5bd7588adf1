"""The measurements, each with a new server."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from system import Client, System
from waiting import wait_until

HOUR = 3600.0
#: Seconds after which jobs are due that a worker then takes one after the other.
SOON = 10
#: Seconds that a killed server is away, and for which a trial waits for jobs.
AWAY, PATIENCE = 1.0, 60.0


def costs(system: System, jobs: int, generator: random.Random) -> dict[str, float]:
    """Returns the microseconds of the server's CPU for each job: put with a delay, cancelled, taken and settled."""
    client = system.client()
    found = {}
    with spent(system, jobs, found, "put"):
        waiting = [client.put(number, HOUR) for number in range(jobs)]
    generator.shuffle(waiting)
    if system.can_cancel:
        with spent(system, jobs, found, "cancel"):
            for job in waiting:
                client.cancel(job)
    client.put_many(range(jobs), SOON)
    with spent(system, jobs, found, "take"):
        time.sleep(SOON)
        with Worker(system) as worker:
            wait_until(lambda: len(worker.done) >= jobs, 600, "all jobs are done")
    client.close()
    return found


@contextmanager
def spent(system: System, jobs: int, found: dict[str, float], name: str) -> Iterator[None]:
    before = system.processor_seconds()
    yield
    found[name] = (system.processor_seconds() - before) / jobs * 1e6


def waiting(system: System, jobs: int) -> dict[str, float]:
    """Returns the bytes that a waiting job takes, in memory and on disk."""
    client = system.client()
    client.put_many(range(1), HOUR)
    memory, disk = system.memory(), system.disk()
    client.put_many(range(1, jobs), 2 * HOUR)
    # What is written once a second is on disk.
    time.sleep(3)
    client.close()
    return {"memory": (system.memory() - memory) / jobs, "disk": (system.disk() - disk) / jobs}


def lateness(system: System, jobs: int, generator: random.Random) -> dict[str, float]:
    """Returns how late jobs are with a worker that waits for them, in milliseconds, and how many are early."""
    with Worker(system) as worker:
        due = put(system.client(), delays(jobs, 5, 25, generator))
        wait_until(lambda: len(worker.done) >= jobs, 25 + PATIENCE, "all jobs are done")
    late = sorted((at - due[number]) * 1000 for number, at in worker.done)
    return {
        "p50": statistics.median(late),
        "p99": late[len(late) * 99 // 100],
        # The clocks of both are the same, but a deadline is rounded to a millisecond.
        "early": sum(by < -1 for by in late),
    }


def killed(system: System, jobs: int, generator: random.Random) -> dict[str, float]:
    """Kills the server in the middle. Returns how many jobs were never done, and how many more than once."""
    with Worker(system) as worker:
        put(system.client(), delays(jobs, 5, 15, generator))
        wait_until(lambda: len(worker.done) >= jobs / 2, PATIENCE, "half of the jobs are done")
        system.kill()
        time.sleep(AWAY)
        system.start()
        with suppress(TimeoutError):
            wait_until(lambda: len({number for number, _ in worker.done}) >= jobs, PATIENCE, "all jobs are done")
        # What is done a second time.
        time.sleep(5)
    times = Counter(number for number, _ in worker.done)
    return {"lost": jobs - len(times), "twice": sum(count > 1 for count in times.values())}


def delays(jobs: int, first: float, last: float, generator: random.Random) -> list[float]:
    return [generator.uniform(first, last) for _ in range(jobs)]


def put(client: Client, seconds: list[float]) -> list[float]:
    """Puts jobs. Returns when each is due."""
    due = []
    for number, delay in enumerate(seconds):
        due.append(time.time() + delay)
        client.put(number, delay)
    client.close()
    return due


class Worker:
    """A thread that does all jobs, and connects again if its connection breaks."""

    def __init__(self, system: System) -> None:
        self._system = system
        #: The number of each job that was done, and when.
        self.done: list[tuple[int, float]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stopping.is_set():
            # Each library has errors of its own.
            with suppress(Exception):
                client = self._system.client()
                client.work(lambda number: self.done.append((number, time.time())), self._stopping)
                client.close()
            self._stopping.wait(0.1)

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(30)
