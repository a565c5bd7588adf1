"""A worker for wide.py: when it ends, it prints when its jobs began, and when they were due, in milliseconds.

usage: wide_worker.py threads | asyncio | events <url> <queue> <concurrency>
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time

import redis
from dehydrator_queue import Job, Queue, Worker
from dehydrator_queue.aio import Queue as AsyncQueue
from dehydrator_queue.aio import Worker as AsyncWorker
from dehydrator_queue.job import Delivery
from dehydrator_queue.wide.pollers import Pollers
from dehydrator_queue.worker import worker

DUE = "__keyevent@0__:dehydrator.due"

how, url, name, concurrency = sys.argv[1:]
begun: list[tuple[float, float]] = []


def work(job: Job) -> None:
    begun.append((time.time() * 1000, job.payload))


async def coroutine(job: Job) -> None:
    work(job)


class EventPollers(Pollers):
    """Takes jobs when the primary of a key reports that it has some. Failovers are not its matter."""

    def __init__(self, *terms) -> None:
        super().__init__(*terms)
        self._due: dict[str, threading.Event] = {}
        for node in self._server.client.made().get_primaries():
            threading.Thread(target=self._listen, args=(node.host, node.port), daemon=True).start()

    def _listen(self, host: str, port: int) -> None:
        with redis.Redis(host, port, decode_responses=True).pubsub() as events:
            events.subscribe(DUE)
            for message in events.listen():
                self._due.setdefault(message["data"] if message["type"] == "message" else "", threading.Event()).set()

    def _poll(self, key: str, count: int, block_ms: int | None) -> list[Delivery]:
        if block_ms is None:
            return super()._poll(key, count, None)
        due = self._due.setdefault(key, threading.Event())
        if not due.wait(block_ms / 1000):
            return []
        due.clear()
        return super()._poll(key, count, None)


async def run() -> None:
    async with AsyncQueue(url, name, keys=3) as queue:
        await AsyncWorker(queue, coroutine, concurrency=int(concurrency), block=1).run()


if how == "asyncio":
    asyncio.run(run())
else:
    if how == "events":
        worker.Pollers = EventPollers
    Worker(Queue(url, name, keys=3), work, concurrency=int(concurrency), block=1).run()
print(json.dumps(dict(zip(("begun", "due"), zip(*begun, strict=True), strict=True))))
