"""Celery's own workers, as programs, on the transport."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import celery
import pytest
from address import Address
from celery.exceptions import TaskRevokedError
from servers import RealServer, wait_until

from dehydrator_queue import Queue
from dehydrator_queue.queue.commands import pairs

FOLDER = Path(__file__).parent
#: Workers run the package that the tests run.
PYTHONPATH = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
LENGTH = ("DEHYDRATOR.LEN", "dehydrator:celery")
#: The options of workers whose tasks outlast their lease, or that are killed.
SHORT = '{"lease": 4}'


def start(server: RealServer, *options: str, **environment: str) -> subprocess.Popen[bytes]:
    log = (server.folder / "celery.log").open("a")
    return subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--loglevel", "info", *options],
        env={**os.environ, "URL": server.url, "PYTHONPATH": PYTHONPATH, **environment},
        cwd=FOLDER,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


@contextmanager
def worker(server: RealServer, *options: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    process = start(server, *options, **environment)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(240)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise


@contextmanager
def killed_worker(server: RealServer, *options: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that is not asked to end."""
    process = start(server, *options, **environment)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def application(server: RealServer) -> celery.Celery:
    app = celery.Celery("celery_app", broker=f"{server.url}/0", backend=f"{server.url}/1")
    app.conf.update(broker_transport="dehydrator_queue.kombu:Transport")
    return app


def send(app: celery.Celery, name: str, countdown: float = 0.0, **arguments: Any) -> Any:
    arguments = {"due": time.time() + countdown, **arguments}
    options = {"countdown": countdown} if countdown else {}
    return app.send_task("celery_app.note", args=[name], kwargs=arguments, **options)


def done(server: RealServer) -> list[list[Any]]:
    server.client.select(2)
    lines = server.client.lrange("done", 0, -1)
    server.client.select(0)
    return [json.loads(line) for line in lines]


def begun(server: RealServer) -> list[int]:
    """Returns the processes that began an endless task."""
    server.client.select(2)
    processes = server.client.lrange("begun", 0, -1)
    server.client.select(0)
    return [int(process) for process in processes]


POOLS = ["prefork", *(pytest.param(pool, marks=pytest.mark.slow) for pool in ("threads", "solo", "gevent"))]


def of_pool(pool: str) -> list[str]:
    if pool == "gevent":
        pytest.importorskip("gevent")
    return ["--pool", pool, *([] if pool == "solo" else ["--concurrency", "2"])]


@pytest.mark.parametrize("pool", POOLS)
def test_each_is_done_once_and_none_early(own_server: RealServer, pool: str) -> None:
    app = application(own_server)
    with worker(own_server, *of_pool(pool)):
        for n in range(60):
            # Longer than the visibility timeout, which is a second.
            send(app, str(n), countdown=2 + n / 30)
        wait_until(lambda: own_server.client.execute_command(*LENGTH) == 0)
    assert Counter(name for name, _, _ in done(own_server)) == Counter(map(str, range(60)))
    assert all(at >= due - 0.001 for _, due, at in done(own_server))


@pytest.mark.parametrize("pool", POOLS)
def test_a_task_longer_than_its_lease_is_done_once(own_server: RealServer, pool: str) -> None:
    app = application(own_server)
    with (
        worker(own_server, *of_pool(pool), "-n", "one@%h", LATE="1", PREFETCH="1", OPTIONS=SHORT),
        worker(own_server, *of_pool(pool), "-n", "two@%h", LATE="1", PREFETCH="1", OPTIONS=SHORT),
    ):
        for n in range(3):
            send(app, str(n), seconds=6)
        wait_until(lambda: own_server.client.execute_command(*LENGTH) == 0)
    assert Counter(name for name, _, _ in done(own_server)) == Counter(["0", "1", "2"])


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads", "solo", "gevent"])
def test_what_a_killed_worker_had_is_given_out_once_more(own_server: RealServer, pool: str) -> None:
    app = application(own_server)
    terms = {"LATE": "1", "PREFETCH": "1", "OPTIONS": SHORT}
    with killed_worker(own_server, *of_pool(pool), "-n", "one@%h", **terms) as first:
        app.send_task("celery_app.endless", args=["x"])
        wait_until(lambda: begun(own_server))
        with worker(own_server, *of_pool(pool), "-n", "two@%h", **terms):
            wait_until(lambda: app.control.ping(["two@" + socket.gethostname()], timeout=5, limit=1))
            # Twice as long as the lease: it is renewed.
            time.sleep(8)
            assert len(begun(own_server)) == 1
            os.killpg(first.pid, signal.SIGKILL)
            wait_until(lambda: done(own_server))
            wait_until(lambda: own_server.client.execute_command(*LENGTH) == 0)
    assert (len(begun(own_server)), len(done(own_server))) == (2, 1)


@pytest.mark.slow
def test_a_task_whose_child_process_was_killed_is_given_out_at_once(own_server: RealServer) -> None:
    app = application(own_server)
    options = json.dumps({"visibility_timeout": 3600})
    with worker(own_server, *of_pool("prefork"), LATE="1", PREFETCH="1", OPTIONS=options):
        app.send_task("celery_app.endless", args=["x"])
        (child,) = wait_until(lambda: begun(own_server))
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: done(own_server))
        wait_until(lambda: own_server.client.execute_command(*LENGTH) == 0)
    assert (len(begun(own_server)), len(done(own_server))) == (2, 1)


def test_a_task_that_is_revoked_leaves_the_queue(own_server: RealServer) -> None:
    app = application(own_server)
    with worker(own_server, *of_pool("threads")):
        wait_until(lambda: app.control.ping(timeout=5, limit=1))
        revoked, kept = send(app, "revoked", countdown=3600), send(app, "kept", countdown=10)
        assert own_server.client.execute_command(*LENGTH) == 2
        app.control.revoke(revoked.id)
        with pytest.raises(TaskRevokedError):
            revoked.get(timeout=240)
        look = ("DEHYDRATOR.LOOK", "dehydrator:celery", revoked.id)
        wait_until(lambda: own_server.client.execute_command(*look) is None)
        assert kept.get(timeout=240) == "kept"
    assert [name for name, _, _ in done(own_server)] == ["kept"]


def test_what_waits_is_listed_by_inspect(own_server: RealServer) -> None:
    app = application(own_server)
    with worker(own_server, *of_pool("threads")):
        wait_until(lambda: app.control.ping(timeout=5, limit=1))
        sent = send(app, "later", countdown=3600)
        ((listed,),) = wait_until(lambda: app.control.inspect(timeout=60, limit=1).scheduled()).values()
    assert (listed["request"]["id"], listed["request"]["args"]) == (sent.id, ["later"])
    assert listed["eta"]


def test_a_task_is_retried_with_a_countdown_with_late_acks(own_server: RealServer) -> None:
    app = application(own_server)
    with worker(own_server, *of_pool("threads"), LATE="1"):
        assert app.send_task("celery_app.flaky", args=["x"]).get(timeout=240) == "x"
        wait_until(lambda: own_server.client.execute_command(*LENGTH) == 0)
    assert [name for name, _, _ in done(own_server)] == ["x"]


def test_a_group_comes_from_a_header_or_a_router_and_a_retry_keeps_it(own_server: RealServer) -> None:
    app = application(own_server)

    def in_group(group: str) -> int:
        return own_server.client.execute_command(*LENGTH, "GROUP", group)

    app.conf.task_routes = [lambda name, *_, **__: {"headers": {"dehydrator_group": "b"}}]
    app.send_task("celery_app.waits", headers={"dehydrator_group": "a"})
    app.send_task("celery_app.note", args=["b1"])
    celery.group(app.signature("celery_app.note", args=[name]) for name in ("b2", "b3")).apply_async()
    assert (in_group("a"), in_group("b"), in_group("")) == (1, 3, 0)
    with worker(own_server, *of_pool("threads")):
        wait_until(lambda: own_server.client.execute_command(*LENGTH) == 1)
        wait_until(lambda: len(done(own_server)) == 3)
    (told,) = own_server.client.execute_command("DEHYDRATOR.RANGE", "dehydrator:celery", "-", "+", "GROUP", "a")[1]
    assert told[1] > time.time() * 1000 + 600_000


def test_a_warm_stop_gives_back_what_was_fetched_ahead(own_server: RealServer) -> None:
    app = application(own_server)
    options = json.dumps({"visibility_timeout": 3600})
    with worker(own_server, *of_pool("prefork"), OPTIONS=options, LATE="1"):
        for n in range(30):
            send(app, str(n), seconds=1)
        wait_until(lambda: len(done(own_server)) >= 1)
    ended = len(done(own_server))
    left = own_server.client.execute_command(*LENGTH)
    # Celery's pool sometimes loses results at the moment of a stop: such a task is delivered again.
    assert 30 - ended <= left <= 30 - ended + 2
    told = pairs(own_server.client.execute_command("DEHYDRATOR.INFO", "dehydrator:celery"))
    assert told["due"] == left
    # Those that were not begun count nothing.
    assert told["given-out"] <= 2 < left


def test_a_cold_stop_counts_what_it_interrupts(own_server: RealServer) -> None:
    app = application(own_server)
    with worker(own_server, *of_pool("prefork"), OPTIONS=json.dumps({"visibility_timeout": 3600}), LATE="1") as process:
        app.send_task("celery_app.endless", args=["x"])
        wait_until(lambda: begun(own_server))
        process.send_signal(signal.SIGQUIT)
        process.wait(240)
    told = pairs(own_server.client.execute_command("DEHYDRATOR.INFO", "dehydrator:celery"))
    assert (told["due"], told["given-out"]) == (1, 1)


def test_an_expired_task_is_dropped_by_the_server_or_revoked_if_its_result_counts(own_server: RealServer) -> None:
    app = application(own_server)
    for ignore_result in (True, False):
        app.send_task("celery_app.note", args=["late"], expires=0.5, ignore_result=ignore_result)
    waits = app.send_task("celery_app.note", args=["late"], expires=0.5)
    wait_until(lambda: own_server.client.execute_command(*LENGTH) == 2)
    time.sleep(0.5)
    with worker(own_server, *of_pool("threads")):
        app.send_task("celery_app.note", args=["in time"], expires=600, ignore_result=True)
        with pytest.raises(TaskRevokedError):
            waits.get(timeout=240)
        wait_until(lambda: own_server.client.execute_command(*LENGTH) == 0)
    assert [name for name, _, _ in done(own_server)] == ["in time"]


def noting(server: RealServer) -> list[str]:
    """Returns the names of the long tasks that began."""
    server.client.select(2)
    rows = server.client.lrange("noting", 0, -1)
    server.client.select(0)
    return [json.loads(row)[0] for row in rows]


@pytest.mark.slow
def test_limits_of_the_queue_hold_until_the_ack(own_server: RealServer) -> None:
    app = application(own_server)
    Queue(own_server.url, "dehydrator:celery").limit(rate=(4, 1), each_held=1)
    for n in range(8):
        arguments = {"args": [f"{n % 2}-{n}"], "kwargs": {"seconds": 1}}
        app.send_task("celery_app.note", **arguments, headers={"dehydrator_group": str(n % 2)})
    with worker(own_server, "--pool", "threads", "--concurrency", "8", LATE="1"):
        wait_until(lambda: len(done(own_server)) == 8)
    for group in "01":
        ends = [at for name, _, at in done(own_server) if name.startswith(group)]
        assert all(b - a >= 0.99 for a, b in pairwise(ends))


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_task_that_has_begun_outlives_its_connection(own_server: RealServer, pool: str) -> None:
    app, names = application(own_server), [str(n) for n in range(6)]
    with (
        closing(Address(own_server)) as address,
        worker(own_server, *of_pool(pool), LATE="1", BROKER=f"{address.url}/0", OPTIONS=SHORT),
    ):
        for name in names:
            # Longer than the lease.
            send(app, name, seconds=5)
        for count in (2, 4):
            wait_until(lambda count=count: len(noting(own_server)) >= count)
            address.lead_to(own_server, cut=True)
        wait_until(lambda: own_server.client.execute_command(*LENGTH) == 0)
    # Each once: what has begun goes on, and its ack is taken on the next connection.
    assert sorted(noting(own_server)) == sorted(name for name, _, _ in done(own_server)) == names
    assert (own_server.folder / "celery.log").read_text().count("Connection to broker lost") == 2


def test_what_outlived_its_connection_and_was_not_begun_is_given_back_at_a_warm_stop(own_server: RealServer) -> None:
    app, log = application(own_server), own_server.folder / "celery.log"
    options = json.dumps({"visibility_timeout": 3600})
    with (
        closing(Address(own_server)) as address,
        worker(own_server, *of_pool("threads"), LATE="1", BROKER=f"{address.url}/0", OPTIONS=options),
    ):
        for n in range(6):
            send(app, str(n), seconds=5)
        wait_until(lambda: len(noting(own_server)) == 2)
        address.lead_to(own_server, cut=True)
        wait_until(lambda: log.read_text().count("mingle: all alone") == 2)
    left = 6 - len(done(own_server))
    told = pairs(own_server.client.execute_command("DEHYDRATOR.INFO", "dehydrator:celery"))
    assert (told["length"], told["due"], told["given-out"]) == (left, left, 0)
    # Older versions of Celery end with all that a pool of threads has.
    assert left == 0 if celery.VERSION < (5, 5) else 2 <= left <= 4


def test_a_task_that_celery_cancels_when_the_connection_is_lost_is_given_back(own_server: RealServer) -> None:
    app = application(own_server)
    options = json.dumps({"visibility_timeout": 3600})
    with (
        closing(Address(own_server)) as address,
        worker(own_server, *of_pool("prefork"), LATE="1", CANCEL="1", BROKER=f"{address.url}/0", OPTIONS=options),
    ):
        app.send_task("celery_app.endless", args=["x"])
        wait_until(lambda: begun(own_server))
        # The worker knows that it has begun.
        wait_until(lambda: any((app.control.inspect(timeout=5, limit=1).active() or {}).values()))
        address.lead_to(own_server, cut=True)
        wait_until(lambda: done(own_server))
        wait_until(lambda: own_server.client.execute_command(*LENGTH) == 0)
    assert (len(begun(own_server)), len(done(own_server))) == (2, 1)
