"""Celery's own workers, whose server dies or hands over to another one."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import celery
import pytest
from replicated import NAME, Address, Replicated, Sentinel
from servers import RealServer, wait_until
from test_celery import LENGTH, done, of_pool, send, worker

pytestmark = pytest.mark.slow
TASKS = 300


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Replicated]:
    folder = tmp_path / "pair"
    folder.mkdir()
    pair = Replicated(folder)
    yield pair
    pair.close()


@pytest.fixture
def own() -> Iterator[Callable[[Any], Any]]:
    """Closes what it is given when the test is over."""
    with ExitStack() as stack:
        yield lambda thing: stack.enter_context(closing(thing))


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
    wait_until(lambda: len({name for name, _, _ in done(store)}) == TASKS, 60)
    counts = Counter(name for name, _, _ in done(store))
    print("repeated", sum(counts.values()) - TASKS)
    assert set(counts) == {str(n) for n in range(TASKS)}
    assert sum(counts.values()) - TASKS <= repeated
    assert all(at >= due - 0.001 for _, due, at in done(store))


def test_a_failover_under_load_loses_nothing(pair: Replicated, own: Any, own_server: RealServer) -> None:
    address = own(Address(pair.primary))
    app = application(f"{address.url}/0", broker_transport="dehydrator.kombu:Transport")
    workers = {"BROKER": f"{address.url}/0", "LATE": "1"}
    with (
        worker(own_server, *of_pool("prefork"), "-n", "one@%h", **workers),
        worker(own_server, *of_pool("threads"), "-n", "two@%h", **workers),
    ):
        sender = threading.Thread(target=send_all, args=[app])
        sender.start()
        for _ in range(3):
            time.sleep(3)
            pair.fail_over()
            # Until then clients ask one that is a replica by now.
            time.sleep(0.3)
            address.lead_to(pair.primary)
        sender.join()
        # What a worker has in hand when its connection breaks is given out again: it fetches eight at a time.
        check(own_server, 3 * 2 * 8)
        wait_until(lambda: pair.primary.client.execute_command(*LENGTH) == 0)


def test_sentinel_leads_to_the_server_that_takes_over(
    pair: Replicated, own: Any, own_server: RealServer, tmp_path: Path
) -> None:
    sentinel = own(Sentinel(tmp_path / "sentinel", pair.primary))
    options = {"master_name": NAME, "visibility_timeout": 2}
    transport = "dehydrator.kombu:SentinelTransport"
    app = application(sentinel.url, broker_transport=transport, broker_transport_options=options)
    workers = {"BROKER": sentinel.url, "TRANSPORT": transport, "OPTIONS": json.dumps(options), "LATE": "1"}
    with (
        worker(own_server, *of_pool("prefork"), "-n", "one@%h", **workers),
        worker(own_server, *of_pool("threads"), "-n", "two@%h", **workers),
    ):
        send_all(app)
        # Replication does not wait: what is sent in the last moment of a server is lost with it.
        pair.primary.client.wait(1, 10000)
        pair.primary.kill()
        wait_until(lambda: sentinel.primary_port() == pair.replica.port, 60)
        check(own_server, 2 * 8)
        wait_until(lambda: pair.replica.client.execute_command(*LENGTH) == 0)
        # One that comes back is made a replica, and serves when its turn comes again.
        pair.primary.start()
        wait_until(lambda: pair.primary.client.role()[0] == b"slave", 60)
        assert app.send_task("celery_app.note", args=["after"])
        wait_until(lambda: done(own_server)[-1][0] == "after", 60)
