"""Celery's workers on a cluster whose primaries go, and whose slots move."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from servers import RealServer, wait_until
from test_celery import done, of_pool, worker
from test_celery_cluster import QUEUES, is_empty, key_of, send
from test_celery_failover import application
from topologies import Cluster

from dehydrator_queue.queue.library import connect, key_slot

pytestmark = pytest.mark.slow
#: For each queue, in 15 seconds.
TASKS = 150


@pytest.fixture
def six(tmp_path: Path) -> Any:
    cluster = Cluster(tmp_path, replicas=True)
    yield cluster
    cluster.close()


def owner_of(cluster: Cluster, queue: str) -> RealServer:
    cluster.slot = key_slot(key_of(queue).encode())
    return cluster.owner()


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSTOP])
def test_a_moved_slot_and_a_primary_that_dies_or_falls_silent_lose_nothing(
    six: Cluster, own_server: RealServer, way: signal.Signals
) -> None:
    url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in six.nodes)
    app = application(url)
    names = [f"{queue}-{n}" for queue in QUEUES for n in range(TASKS)]

    def send_all(queue: str) -> None:
        for n in range(TASKS):
            send(app, f"{queue}-{n}", n % 4, queue)
            time.sleep(15 / TASKS)

    with ExitStack() as stack:
        for pool in ("prefork", "threads"):
            options = (*of_pool(pool), "-n", f"{pool}@%h")
            environment = {"BROKER": url, "QUEUES": " ".join(QUEUES), "LATE": "1"}
            stack.enter_context(worker(own_server, *options, OPTIONS='{"lease": 5}', **environment))
        wait_until(lambda: len(app.control.ping(timeout=2)) == 2)
        senders = [threading.Thread(target=send_all, args=[queue]) for queue in QUEUES]
        for sender in senders:
            sender.start()
        wait_until(lambda: len(done(own_server)) > 60)
        killed, target, _ = owner_of(six, "high"), owner_of(six, "low"), owner_of(six, "celery")
        six.move(target)
        killed.process.send_signal(way)
        assert owner_of(six, "high") is not killed
        for sender in senders:
            sender.join()
        wait_until(lambda: {name for name, _, _ in done(own_server)} == set(names))
        client = connect(url, 5.0).made()
        wait_until(lambda: is_empty(client))
        killed.process.send_signal(signal.SIGCONT)
        if way == signal.SIGKILL:
            killed.restart()
        # Remote control works after its node is gone, too.
        assert len(wait_until(lambda: app.control.ping(timeout=2))) == 2
    rows = done(own_server)
    counts = Counter(name for name, _, _ in rows)
    repeated = [name for name, count in counts.items() if count > 1]
    for queue in QUEUES:
        late = sorted(at - due for name, due, at in rows if name.startswith(queue))
        print(queue, "late: median", late[len(late) // 2], "most", late[-1])
    print("repeated", repeated)
    assert all(at >= due - 0.001 for _, due, at in rows)
    # The replica may lack the last acks of the primary.
    assert all(name.startswith("high") for name in repeated)
    assert len(repeated) <= 2 * 8
    log = (own_server.folder / "celery.log").read_text()
    assert "Connection to broker lost" not in log, log
