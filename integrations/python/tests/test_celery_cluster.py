"""Celery and kombu on a cluster."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import celery
import kombu
import pytest
from celery.exceptions import TaskRevokedError
from servers import RealServer, wait_until
from test_celery import FOLDER, PYTHONPATH, done, noting, of_pool, worker
from topologies import Cluster

from dehydrator_queue.kombu import ClusterTransport, Transport
from dehydrator_queue.kombu.flower import Broker
from dehydrator_queue.queue.commands import pairs
from dehydrator_queue.queue.library import connect

#: On three nodes.
QUEUES = ("celery", "high", "low")

#: For queues that the worker of Celery does not serve.
OPTIONS = {"global_keyprefix": "mine:"}


def key_of(queue: str) -> str:
    return f"dehydrator:{{{queue}}}"


@pytest.fixture(scope="module")
def client(shared_cluster: Cluster) -> Any:
    client = connect(shared_cluster.url, 5.0).made()
    assert len({client.get_node_from_key(key_of(queue)).name for queue in QUEUES}) == 3
    return client


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A server for results: Celery has no such backend for clusters."""
    server = RealServer(tmp_path_factory.mktemp("store"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def app(shared_cluster: Cluster, store: RealServer) -> Iterator[celery.Celery]:
    """An application with a worker."""
    app = celery.Celery("celery_app", broker=shared_cluster.url, backend=f"{store.url}/1")
    with worker(store, *of_pool("threads"), BROKER=shared_cluster.url, QUEUES=" ".join(QUEUES), LATE="1"):
        wait_until(lambda: app.control.ping(timeout=5, limit=1))
        yield app


def send(app: celery.Celery, name: str, countdown: float, queue: str) -> Any:
    arguments = {"due": time.time() + countdown}
    return app.send_task("celery_app.note", args=[name], kwargs=arguments, countdown=countdown, queue=queue)


def is_empty(client: Any) -> bool:
    return not any(client.execute_command("DEHYDRATOR.LEN", key_of(queue)) for queue in QUEUES)


def test_queues_on_three_nodes_are_served_once_never_early_and_retried(
    app: celery.Celery, client: Any, store: RealServer
) -> None:
    names = [f"{queue}-{n}" for queue in QUEUES for n in range(10)]
    retried = app.send_task("celery_app.flaky", args=["x"], queue="low")
    for name in names:
        queue, _, n = name.partition("-")
        send(app, name, 0.5 + int(n) / 10, queue)
    assert retried.get(timeout=240) == "x"
    wait_until(lambda: set(names) <= {name for name, _, _ in done(store)})
    wait_until(lambda: is_empty(client))
    rows = [row for row in done(store) if row[0] in names]
    assert set(Counter(name for name, _, _ in rows).values()) == {1}
    assert all(at >= due - 0.001 for _, due, at in rows)


def test_connections_that_are_reset_lose_and_repeat_nothing(
    shared_cluster: Cluster, app: celery.Celery, client: Any, store: RealServer
) -> None:
    names = sorted(f"reset-{queue}-{n}" for queue in QUEUES for n in range(3))
    for name in names:
        arguments = {"due": time.time(), "seconds": 3}
        app.send_task("celery_app.note", args=[name], kwargs=arguments, queue=name.split("-")[1])
    resets = 0
    while {name for name, _, _ in done(store)}.isdisjoint(names) or not is_empty(client):
        time.sleep(1)
        resets += 1
        for node in shared_cluster.nodes:
            for kind in ("normal", "pubsub"):
                node.client.execute_command("CLIENT KILL", "TYPE", kind)
    assert resets > 5
    assert sorted(name for name in noting(store) if name.startswith("reset")) == names
    assert sorted(name for name, _, _ in done(store) if name.startswith("reset")) == names
    assert wait_until(lambda: app.control.ping(timeout=2, limit=1))


def test_a_waiting_task_is_found_listed_and_revoked(app: celery.Celery, client: Any) -> None:
    revoked = send(app, "revoked", 3600, "high")
    look = ("DEHYDRATOR.LOOK", key_of("high"), revoked.id)
    assert client.execute_command(*look)
    ((listed,),) = app.control.inspect(timeout=120, limit=1).scheduled().values()
    assert listed["request"]["id"] == revoked.id
    (found,) = app.control.inspect(timeout=120, limit=1).query_task(revoked.id).values()
    assert found[revoked.id][0] == "scheduled"
    app.control.revoke(revoked.id)
    with pytest.raises(TaskRevokedError):
        revoked.get(timeout=240)
    wait_until(lambda: client.execute_command(*look) is None)


def start_beat(store: RealServer, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "celery_app", "beat", "--pidfile="],
        env={**os.environ, "URL": store.url, "PYTHONPATH": PYTHONPATH, **environment},
        cwd=FOLDER,
    )


@pytest.mark.slow
def test_beats_send_each_occurrence_once(cluster: Cluster, app: celery.Celery, store: RealServer) -> None:
    entry = {"task": "celery_app.note", "schedule": 1, "args": ["beat"]}
    beats = [start_beat(store, BROKER=cluster.url, BEAT=json.dumps({"each second": entry})) for _ in range(2)]
    try:
        times = wait_until(lambda: len(found := [at for name, _, at in done(store) if name == "beat"]) > 8 and found)
    finally:
        for beat in beats:
            beat.kill()
            beat.wait()
    assert len(times) <= times[-1] - times[0] + 3


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[kombu.Connection]:
    with kombu.Connection(cluster.url, transport_options=OPTIONS) as connection:
        yield connection


def test_each_node_wakes_a_sleeping_consumer(cluster: Cluster, connection: kombu.Connection, client: Any) -> None:
    times: list[float] = []
    with ExitStack() as stack:
        sleepy = stack.enter_context(kombu.Connection(cluster.url, transport_options=OPTIONS))
        channel = stack.enter_context(sleepy.channel())
        channel.brpop_timeout = 60
        consumer = kombu.Consumer(channel, list(map(kombu.Queue, QUEUES)), no_ack=True)
        consumer.register_callback(lambda body, message: times.append(time.monotonic() - body))
        consumer.consume()
        with suppress(OSError):
            sleepy.drain_events(timeout=0.2)
        for queue in QUEUES:
            connection.Producer().publish(time.monotonic(), routing_key=queue)
            sleepy.drain_events(timeout=120)
        # What a sleeping poll gets while its channel closes is given back.
        publish(connection, celery=1, high=1, low=1)
    assert len(times) == 3
    # Sooner than the polls return by themselves.
    assert max(times) < 30
    assert leased(client) == 0
    with connection.channel() as channel:
        assert [channel.basic_get(queue).delivery_info.get("redelivered") for queue in QUEUES] == [None] * 3


def test_the_prefetch_count_holds_over_all_nodes(connection: kombu.Connection, client: Any) -> None:
    held: list[Any] = []
    taken: list[Any] = []

    def holds_two() -> bool:
        with suppress(OSError):
            connection.drain_events(timeout=0.02)
        assert len(held) <= 2
        return len(held) == leased(client) == 2

    with connection.channel() as channel:
        consumer = kombu.Consumer(channel, list(map(kombu.Queue, QUEUES)), prefetch_count=2)
        consumer.register_callback(lambda body, message: held.append(message))
        consumer.consume()
        # Now all polls sleep, so that each gets a message. One is too many.
        holds_two()
        publish(connection, celery=5, high=5, low=5)
        while wait_until(holds_two) and len(taken) < 13:
            taken.append(held.pop(0))
            taken[-1].ack()
    assert leased(client) == 0
    assert Counter(message.delivery_info["routing_key"] for message in taken + held) == dict.fromkeys(QUEUES, 5)
    # What is given back counts nothing.
    assert not any(message.delivery_info.get("redelivered") for message in taken + held)


def publish(connection: kombu.Connection, **messages: int) -> None:
    """Sends so many messages to each queue."""
    with connection.Producer() as producer:
        for queue, count in messages.items():
            for n in range(count):
                producer.publish(n, routing_key=queue)


def leased(client: Any) -> int:
    told = [pairs(client.execute_command("DEHYDRATOR.INFO", f"mine:{key_of(queue)}")) for queue in QUEUES]
    return sum(one["leased"] for one in told)


def test_queues_are_counted_purged_and_polled_by_priority(cluster: Cluster, connection: kombu.Connection) -> None:
    with connection.channel() as channel, connection.Producer() as producer:
        kombu.Queue("high", channel=channel, expires=60).declare()
        for priority in (9, 0, 3):
            producer.publish(priority, routing_key="high", priority=priority)
        assert channel.client.llen("high") == channel._size("high") == 3
        flower = Broker(cluster.url, ClusterTransport, broker_options=OPTIONS)
        assert flower._count(["high"]) == [{"name": "high", "messages": 3}]
        assert [channel.basic_get("high", no_ack=True).payload for _ in range(2)] == [0, 3]
        assert channel.queue_purge("high") == 1
        channel.queue_delete("high")
        assert not channel._has_queue("high")


def test_the_url_is_shown_and_copied_without_its_password() -> None:
    url = "rediss+cluster://anna:se%2Fcret@10.0.0.1:7000,10.0.0.2:7001"
    connection = kombu.Connection(url, ssl={"ssl_cert_reqs": "none"}).clone()
    assert connection.as_uri() == "rediss+cluster://anna:**@10.0.0.1:7000,10.0.0.2:7001"
    assert connection.as_uri(include_password=True) == url
    assert (connection.userid, connection.password) == ("anna", "se/cret")
    assert "cret" not in connection.info()["hostname"]
    assert isinstance(pickle.loads(pickle.dumps(connection)).transport, ClusterTransport)
    assert not isinstance(kombu.Connection("redis://").transport, Transport)
