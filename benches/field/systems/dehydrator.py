"""Dehydrator, by its package for Python."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dehydrator_queue import Item, Queue, Worker

from system import Client, payload
from systems.redis_server import RedisServer


class Jobs(Client):
    def __init__(self, url: str) -> None:
        self._queue = Queue(url, "jobs")

    def put(self, number: int, delay: float) -> str | None:
        return self._queue.put(payload(number), delay=delay, id=str(number))

    def put_many(self, numbers: range, delay: float) -> None:
        self._queue.put_many(Item(payload(number), id=str(number), delay=delay) for number in numbers)

    def cancel(self, job: str) -> None:
        self._queue.cancel(job)

    def work(self, done: Callable[[int], None], stopping: threading.Event) -> None:
        worker = Worker(self._queue, lambda job: done(int(job.payload)), block=1)
        threading.Thread(target=lambda: stopping.wait() and worker.stop(), daemon=True).start()
        worker.run(signals=False)

    def close(self) -> None:
        self._queue.close()


class Dehydrator(RedisServer):
    name = "Dehydrator"
    has_module = True

    def client(self) -> Client:
        return Jobs(self.url)
