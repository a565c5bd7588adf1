"""Workers for tests: in threads of the test, and as processes, which a test kills."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dehydrator_queue import Backoff, Job, Queue, Worker, aio

QUICK = Backoff(first=0.05, most=0.1)
PROGRAM = Path(__file__).with_name("worker_program.py")

both = pytest.mark.parametrize("kind", ["threads", "asyncio"])


@contextmanager
def running(
    kind: str,
    url: str,
    work: Callable[[Job], Any],
    *,
    names: Sequence[str] = ("jobs",),
    keys: Any = None,
    count: int = 1,
    **terms: Any,
) -> Iterator[Any]:
    """Runs workers of threads, or of asyncio, in threads, until the block ends; yields the first. `work` may sleep."""
    terms = {"backoff": QUICK, "block": 0.5, **terms}
    failures: list[Exception] = []

    async def coroutine(job: Job) -> None:
        await asyncio.to_thread(work, job)

    async def run_async(worker: Any) -> None:
        await worker.run()
        for queue in worker._queues.values():
            await queue.close()

    def run(worker: Any) -> None:
        try:
            worker.run() if kind == "threads" else asyncio.run(run_async(worker))
        except Exception as error:
            failures.append(error)

    workers: list[Any] = []
    for _ in range(count):
        if kind == "threads":
            workers.append(Worker([Queue(url, name, keys=keys) for name in names], work, **terms))
        else:
            workers.append(aio.Worker([aio.Queue(url, name, keys=keys) for name in names], coroutine, **terms))
    threads = [threading.Thread(target=run, args=[worker]) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield workers[0]
    finally:
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join(240)
        assert not any(thread.is_alive() for thread in threads)
        assert not failures


Run = Callable[..., AbstractContextManager[Any]]
Starts = Callable[[int], "subprocess.Popen[bytes]"]


def programs(url: str, kind: str, concurrency: int = 4, **environment: str) -> Starts:
    """Returns what starts worker_program.py."""
    command = [sys.executable, str(PROGRAM), url, "jobs", kind, str(concurrency)]
    options: Any = {"stdout": subprocess.DEVNULL, "env": {**os.environ, **environment}, "start_new_session": True}
    return lambda _: subprocess.Popen(command, **options)


class Fleet:
    """Workers as processes, of which one is killed at times, with the processes that it has."""

    def __init__(self, starts: Starts, size: int) -> None:
        """`starts`: is called with a new number."""
        self._starts, self._size = starts, size
        self._workers = [starts(n) for n in range(size)]
        #: When each was killed, by the number of its process.
        self.killed: dict[int, float] = {}

    def kill_one(self) -> None:
        worker = self._workers.pop(random.randrange(self._size))
        self._kill(worker)
        self.killed[worker.pid] = time.time()
        self._workers.append(self._starts(self._size + len(self.killed)))

    @staticmethod
    def _kill(worker: subprocess.Popen[bytes]) -> None:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop(self) -> None:
        """Stops all of them. One that is asked before it has begun to listen ends by the signal."""
        for worker in self._workers:
            worker.send_signal(signal.SIGTERM)
        assert {worker.wait(240) for worker in self._workers} <= {0, -signal.SIGTERM}

    def close(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                self._kill(worker)
