"""Dramatiq, taskiq and RQ during a failover, and the jobs of a killed worker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import dramatiq
import pytest
import redis
import rq
import rq_jobs
from address import Address
from servers import RealServer, wait_until
from test_taskiq import working as taskiq_working
from topologies import Pair

from dehydrator_queue.dramatiq import DehydratorBroker as DramatiqBroker
from dehydrator_queue.rq import Queue
from dehydrator_queue.taskiq import DehydratorBroker as TaskiqBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SIZE = 300


@contextmanager
def failing_over(pair: Pair, done: Callable[[], int]) -> Iterator[str]:
    """Yields an address; FAILOVER is asked for behind it when a third is done, and again at two thirds."""
    address = Address(pair.primary)

    def change() -> None:
        for part in (1, 2):
            wait_until(lambda part=part: done() > SIZE * part // 3)
            pair.fail_over(address)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        yield address.url
        changing.join(240)
        assert not changing.is_alive()
    finally:
        address.close()


def check(done: list[tuple[int, float]]) -> None:
    assert Counter(n for n, _ in done) == Counter(range(SIZE))
    assert min(late for _, late in done) >= -0.001


def test_dramatiq_goes_on_after_a_failover(pair: Pair) -> None:
    done: list[tuple[int, float]] = []

    with failing_over(pair, lambda: len(done)) as url:
        broker = DramatiqBroker(url=url)
        dramatiq.set_broker(broker)

        @dramatiq.actor
        def note(n: int, due: float) -> None:
            done.append((n, time.time() - due))

        for n in range(SIZE):
            note.send_with_options(args=(n, time.time() + n / 50), delay=20 * n)
        worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=4)
        worker.start()
        broker.join("default", timeout=240_000)
        worker.stop()
        broker.close()
    check(done)


async def test_taskiq_goes_on_after_a_failover(pair: Pair) -> None:
    done: list[tuple[int, float]] = []

    with failing_over(pair, lambda: len(done)) as url:
        broker = TaskiqBroker(url)

        @broker.task
        async def note(n: int, due: float) -> None:
            done.append((n, time.time() - due))

        for n in range(SIZE):
            await note.kicker().with_labels(delay_seconds=n / 50).kiq(n, time.time() + n / 50)
        async with taskiq_working(broker):
            while await asyncio.to_thread(pair.primary.client.execute_command, "DEHYDRATOR.LEN", broker.queue_name):
                await asyncio.sleep(0.1)
    check(done)


TASKIQ_WORKER = """
import asyncio, sys, time
from dehydrator_queue.taskiq import DehydratorBroker
from taskiq.api import run_receiver_task
broker = DehydratorBroker(sys.argv[1], lease=1)
@broker.task(task_name="note")
async def note():
    print("begun", flush=True)
    await asyncio.sleep(60)
asyncio.run(run_receiver_task(broker, run_startup=True))
"""


async def test_what_a_killed_worker_of_taskiq_had_comes_again(server: RealServer) -> None:
    broker, done = TaskiqBroker(server.url), []

    @broker.task(task_name="note")
    async def note() -> None:
        done.append(1)

    await note.kiq()
    with subprocess.Popen([sys.executable, "-c", TASKIQ_WORKER, server.url], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        process.kill()
    async with taskiq_working(broker):
        while await asyncio.to_thread(server.client.execute_command, "DEHYDRATOR.LEN", broker.queue_name):
            await asyncio.sleep(0.1)
    assert done == [1]


def test_rq_has_what_was_scheduled_when_the_server_was_killed_meanwhile(own_server: RealServer) -> None:
    queue = Queue(connection=redis.Redis(port=own_server.port))
    began = time.time()
    for n in range(SIZE):
        queue.enqueue_in(timedelta(seconds=1 + n / 100), rq_jobs.note, began + 1 + n / 100, job_id=str(n))
    wait_until(lambda: own_server.client.llen(queue.key) > SIZE // 3)
    own_server.restart()
    wait_until(lambda: own_server.client.execute_command("DEHYDRATOR.LEN", f"{queue.key}:later") == 0)
    pushed = own_server.client.lrange(queue.key, 0, -1)
    assert Counter(map(int, pushed)) == Counter(range(SIZE))
    rq.SimpleWorker([queue], connection=queue.connection, job_class=queue.job_class).work(burst=True)
    done = [line.decode().split() for line in own_server.client.lrange("done", 0, -1)]
    check([(int(id), float(late)) for id, late in done])


def test_rq_schedules_through_a_failover(pair: Pair) -> None:
    first = pair.primary

    def pushed() -> int:
        return pair.primary.client.llen("rq:queue:default")

    with failing_over(pair, pushed) as url:
        queue = Queue(connection=redis.Redis.from_url(url))
        for n in range(SIZE):
            queue.enqueue_in(timedelta(seconds=1 + n / 50), rq_jobs.note, 0, job_id=str(n))
        wait_until(lambda: pair.primary.client.execute_command("DEHYDRATOR.LEN", f"{queue.key}:later") == 0)
    assert pair.primary is first
    assert Counter(map(int, first.client.lrange(queue.key, 0, -1))) == Counter(range(SIZE))
