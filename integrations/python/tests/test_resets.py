"""Connections that are reset every two seconds, under workers with jobs of ten seconds, one of which is killed now and
then: nothing is lost or early, and only what a killed worker had begins twice.

DEHYDRATOR_CAMPAIGN_S sets for how long there are new jobs, in seconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
import redis
from address import Address
from servers import RealServer, wait_until
from test_celery import application, of_pool, send
from test_celery import start as start_celery
from test_killed import PROGRAM

from dehydrator_queue import Queue

SECONDS = float(os.environ.get("DEHYDRATOR_CAMPAIGN_S", "20"))
#: Seconds between two resets, of a job, and of a lease.
RESET, WORK, LEASE = 2.0, 10.0, 9.0
#: Workers, and the jobs of each at a time.
WORKERS, CONCURRENCY = 2, 8

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 600)]


def celery_starts(server: RealServer, url: str, pool: str) -> Callable[[int], subprocess.Popen[bytes]]:
    options = ["--concurrency", str(CONCURRENCY), "--loglevel", "warning"]
    terms = {"LATE": "1", "PREFETCH": "1", "BROKER": f"{url}/0", "OPTIONS": json.dumps({"lease": LEASE})}
    return lambda number: start_celery(server, *of_pool(pool), *options, "-n", f"{number}@%h", **terms)


def package_starts(server: RealServer, url: str, kind: str) -> Callable[[int], subprocess.Popen[bytes]]:
    command = [sys.executable, str(PROGRAM), url, "jobs", kind, str(CONCURRENCY)]
    environment = {**os.environ, "STORE": server.url, "LEASE": str(LEASE)}
    log = (server.folder / "worker.log").open("a")
    return lambda _: subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


class Fleet:
    """Workers, of which one is killed at times, with the processes that it has."""

    def __init__(self, starts: Callable[[int], subprocess.Popen[bytes]]) -> None:
        self._starts = starts
        self._workers = [starts(n) for n in range(WORKERS)]
        #: When each was killed, by the number of its process.
        self.killed: dict[int, float] = {}

    def kill_one(self) -> None:
        worker = self._workers.pop(random.randrange(WORKERS))
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        self.killed[worker.pid] = time.time()
        self._workers.append(self._starts(WORKERS + len(self.killed)))

    def close(self) -> None:
        for worker in self._workers:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


def rows(url: str, name: str) -> list[list[Any]]:
    with redis.Redis.from_url(url) as client:
        return [json.loads(row) for row in client.lrange(name, 0, -1)]


@pytest.mark.parametrize("kind", ["sync", "asyncio", "prefork", "threads"])
def test_nothing_begins_twice_where_its_worker_lives(own_server: RealServer, kind: str) -> None:
    is_celery = kind in ("prefork", "threads")
    starts = celery_starts if is_celery else package_starts
    app, queue = application(own_server), Queue(own_server.url, "dehydrator:celery" if is_celery else "jobs")
    store = f"{own_server.url}/{2 * is_celery}"
    due: dict[str, float] = {}
    over = threading.Event()

    def reset(address: Address) -> None:
        while not over.wait(RESET):
            address.lead_to(own_server, cut=True)

    with closing(Address(own_server)) as address, closing(Fleet(starts(own_server, address.url, kind))) as fleet:
        resetting = threading.Thread(target=reset, args=[address])
        resetting.start()
        try:
            wait_until(lambda: own_server.client.info("clients")["blocked_clients"])
            began = time.monotonic()
            while (now := time.monotonic() - began) < SECONDS:
                name, delay = str(len(due)), random.choice([0.0, 5.0])
                due[name] = time.time() + delay
                if is_celery:
                    send(app, name, delay, seconds=WORK)
                else:
                    queue.put({"seconds": WORK, "due": due[name]}, id=name, delay=delay)
                time.sleep(WORK / WORKERS / CONCURRENCY * 1.2)
                if now > 15 * (1 + len(fleet.killed)):
                    fleet.kill_one()
            wait_until(lambda: len(queue) == 0, 300)
        finally:
            over.set()
            resetting.join()
    begins: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for name, at, worker in rows(store, "noting"):
        begins[name].append((at, worker))
    done = {name for name, *_ in rows(store, "done")}
    again = [(name, a, b) for name, some in begins.items() for a, b in pairwise(sorted(some))]
    parallel = [one for one in again if fleet.killed.get(one[1][1], float("inf")) > one[2][0]]
    early = [name for name, some in begins.items() if min(some)[0] < due[name] - 0.001]
    lost = due.keys() - done
    print(f"{kind}: {len(due)} jobs, {len(fleet.killed)} workers killed, {len(again)} begun again,", end=" ")
    print(f"{len(parallel)} beside a living worker, {len(early)} early, {len(lost)} lost")
    assert (lost, early, parallel) == (set(), [], [])
    assert queue.dead_letters() == []
