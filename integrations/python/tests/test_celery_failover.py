"""Celery's own workers, whose server dies or hands over to another one."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import celery
import pytest
from address import Address
from servers import RealServer, wait_until
from test_celery import LENGTH, done, of_pool, send, worker
from topologies import Pair, Sentinels

pytestmark = pytest.mark.slow
TASKS = 300


def application(url: str, **options: Any) -> celery.Celery:
    app = celery.Celery(broker=url)
    retries = {"max_retries": 200, "interval_start": 0.1, "interval_step": 0, "interval_max": 0.1}
    app.conf.update(task_publish_retry_policy=retries, **options)
    return app


def send_all(app: celery.Celery) -> None:
    """Sends for ten seconds; half of the tasks wait for one to seven seconds."""
    for n in range(TASKS):
        send(app, str(n), 1 + n % 7 if n % 2 else 0, seconds=0.01)
        time.sleep(10 / TASKS)


def check(store: RealServer, repeated: int) -> None:
    """`repeated`: how many may have been done once more."""
    wait_until(lambda: len({name for name, _, _ in done(store)}) == TASKS)
    counts = Counter(name for name, _, _ in done(store))
    print("repeated", sum(counts.values()) - TASKS)
    assert set(counts) == {str(n) for n in range(TASKS)}
    assert sum(counts.values()) - TASKS <= repeated
    assert all(at >= due - 0.001 for _, due, at in done(store))


def two_workers(stack: ExitStack, store: RealServer, **environment: str) -> None:
    for pool, name in (("prefork", "one@%h"), ("threads", "two@%h")):
        stack.enter_context(worker(store, *of_pool(pool), "-n", name, LATE="1", **environment))


def test_a_failover_under_load_loses_nothing(pair: Pair, own_server: RealServer) -> None:
    with ExitStack() as stack:
        address = stack.enter_context(closing(Address(pair.primary)))
        url = f"{address.url}/0"
        app = application(url, broker_transport="dehydrator_queue.kombu:Transport")
        two_workers(stack, own_server, BROKER=url)
        sender = threading.Thread(target=send_all, args=[app])
        sender.start()
        for _ in range(3):
            time.sleep(3)
            pair.fail_over(address, cut=True)
        sender.join()
        # The tasks of a worker whose connection breaks are delivered again: it prefetches eight.
        check(own_server, 3 * 2 * 8)
        wait_until(lambda: pair.primary.client.execute_command(*LENGTH) == 0)


def test_sentinel_leads_to_the_server_that_takes_over(pair: Pair, own_server: RealServer, tmp_path: Path) -> None:
    with ExitStack() as stack:
        sentinels = stack.enter_context(closing(Sentinels(tmp_path, pair)))
        url = sentinels.celery_url
        options = {"master_name": "mine", "visibility_timeout": 2}
        transport = "dehydrator_queue.kombu:SentinelTransport"
        app = application(url, broker_transport=transport, broker_transport_options=options)
        two_workers(stack, own_server, BROKER=url, TRANSPORT=transport, OPTIONS=json.dumps(options))
        send_all(app)
        old, new = pair.primary, pair.replica
        # Replication is asynchronous: writes in the last moment of a server are lost with it.
        old.client.wait(1, 10000)
        old.kill()
        wait_until(lambda: new.client.role()[0] == b"master")
        check(own_server, 2 * 8)
        wait_until(lambda: new.client.execute_command(*LENGTH) == 0)
        # One that comes back is made a replica, and serves when its turn comes again.
        old.start()
        wait_until(lambda: old.client.role()[0] == b"slave")
        assert app.send_task("celery_app.note", args=["after"])
        wait_until(lambda: done(own_server)[-1][0] == "after")
