"""Campaigns: workers of this package and of Celery that are killed at random, with a server that is killed and started
again, or with connections that are reset every two seconds under jobs of ten.

DEHYDRATOR_CAMPAIGN_S sets for how long there are new jobs of the second kind, in seconds.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
import redis
from address import Address
from servers import RealServer, wait_until
from test_celery import application, of_pool, send, start
from workers import Fleet, Starts, programs

from dehydrator_queue import Queue

SECONDS = float(os.environ.get("DEHYDRATOR_CAMPAIGN_S", "20"))
#: Seconds between two resets, of a job, and of a lease.
RESET, WORK, LEASE = 2.0, 10.0, 9.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 600)]


class Campaign:
    """What puts jobs for a kind of worker, and reads what became of them."""

    def __init__(self, server: RealServer, kind: str) -> None:
        self._server, self._kind = server, kind
        self._is_celery = kind in ("prefork", "threads")
        self._app = application(server)
        self.queue = Queue(server.url, "dehydrator:celery" if self._is_celery else "jobs", patience=30)
        #: When each is due.
        self.due: dict[str, float] = {}

    def starts(self, url: str, concurrency: int, lease: float) -> Starts:
        if not self._is_celery:
            return programs(url, self._kind, concurrency, STORE=self._server.url, LEASE=str(lease))
        options = [*of_pool(self._kind), "--concurrency", str(concurrency)]
        terms = {"LATE": "1", "PREFETCH": "1", "BROKER": f"{url}/0", "OPTIONS": json.dumps({"lease": lease})}
        return lambda number: start(self._server, *options, "-n", f"{number}@%h", **terms)

    def put(self, delay: float, seconds: float, fail: int = 0) -> None:
        name = str(len(self.due))
        self.due[name] = time.time() + delay
        if self._is_celery:
            send(self._app, name, delay, seconds=seconds)
        else:
            self.queue.put({"seconds": seconds, "fail": fail}, id=name, delay=delay)

    def rows(self, what: str) -> list[list[Any]]:
        with redis.Redis.from_url(f"{self._server.url}/{2 * self._is_celery}") as client:
            return [json.loads(row) for row in client.lrange(what, 0, -1)]


@pytest.mark.parametrize(
    ("kind", "size", "longest", "lease"), [("sync", 400, 0.8, 1), ("asyncio", 400, 0.8, 1), ("prefork", 150, 4.0, 4)]
)
def test_workers_and_the_server_are_killed_and_all_is_done(
    own_server: RealServer, kind: str, size: int, longest: float, lease: float
) -> None:
    """`longest`: seconds between two kills."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    random.seed(seed)
    campaign = Campaign(own_server, kind)
    for n in range(size):
        campaign.put(n * 10 / size, 0.02, fail=int(n % 10 == 0))
    workers, concurrency = 3, 4
    with closing(Fleet(campaign.starts(own_server.url, concurrency, lease), workers)) as fleet:
        while len(campaign.queue):
            time.sleep(random.uniform(longest / 4, longest))
            if random.random() < 0.15:
                own_server.restart()
            else:
                fleet.kill_one()
        # Those that were killed left nothing behind.
        wait_until(lambda: len(campaign.queue) == 0)
        if kind != "prefork":
            fleet.stop()
    done = campaign.rows("done")
    counts = Counter(name for name, _, _ in done)
    assert counts.keys() == campaign.due.keys(), f"seed {seed}"
    assert all(at >= campaign.due[name] - 0.001 for name, _, at in done), f"seed {seed}"
    # Only what a killed worker had may be done twice, or what was to be settled when the server was killed.
    assert len(done) - size <= 2 * concurrency * (len(fleet.killed) + workers), f"seed {seed}"
    assert campaign.queue.dead_letters() == []


@pytest.mark.parametrize("kind", ["sync", "asyncio", "prefork", "threads"])
def test_nothing_begins_twice_where_its_worker_lives(own_server: RealServer, kind: str) -> None:
    campaign, workers, concurrency = Campaign(own_server, kind), 2, 8
    over = threading.Event()

    def reset(address: Address) -> None:
        while not over.wait(RESET):
            address.lead_to(own_server, cut=True)

    with (
        closing(Address(own_server)) as address,
        closing(Fleet(campaign.starts(address.url, concurrency, LEASE), workers)) as fleet,
    ):
        resetting = threading.Thread(target=reset, args=[address])
        resetting.start()
        try:
            wait_until(lambda: own_server.client.info("clients")["blocked_clients"])
            began = time.monotonic()
            while (now := time.monotonic() - began) < SECONDS:
                campaign.put(random.choice([0.0, 5.0]), WORK)
                time.sleep(WORK / workers / concurrency * 1.2)
                if now > 15 * (1 + len(fleet.killed)):
                    fleet.kill_one()
            wait_until(lambda: len(campaign.queue) == 0, 300)
        finally:
            over.set()
            resetting.join()
    begins: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for name, at, worker in campaign.rows("noting"):
        begins[name].append((at, worker))
    again = [(name, a, b) for name, some in begins.items() for a, b in pairwise(sorted(some))]
    parallel = [one for one in again if fleet.killed.get(one[1][1], float("inf")) > one[2][0]]
    early = [name for name, some in begins.items() if min(some)[0] < campaign.due[name] - 0.001]
    lost = campaign.due.keys() - {name for name, *_ in campaign.rows("done")}
    print(f"{kind}: {len(campaign.due)} jobs, {len(fleet.killed)} workers killed, {len(again)} begun again,", end=" ")
    print(f"{len(parallel)} beside a living worker, {len(early)} early, {len(lost)} lost")
    assert (lost, early, parallel) == (set(), [], [])
    assert campaign.queue.dead_letters() == []
