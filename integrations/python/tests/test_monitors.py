"""What monitors of the frameworks show, in random states, compared with what was put and taken here.

The monitors are unmodified, in the versions of requirements.txt. docs/integrations.md has the table; redis_exporter and
KEDA are in scripts/grafana-random.sh, Sidekiq's in integrations/sidekiq/tests/test_monitors.rb.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import celery
import kombu
import pytest
import redis
import rq
import rq.registry
import rq_jobs
from servers import RealServer, free_port, wait_until

from dehydrator_queue.rq import Job, Queue

FOLDER = Path(__file__).parent
#: Each run draws others.
STATES = int(os.environ.get("DEHYDRATOR_STATES", "15"))
QUEUES = ["celery", "mails", "reports"]
TRANSPORT = "dehydrator_queue.kombu:Transport"
PRIORITIES = [0, 0, 3, 6, 9]


@pytest.fixture
def drawn(request: pytest.FixtureRequest) -> random.Random:
    seed = int(os.environ.get("DEHYDRATOR_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"DEHYDRATOR_SEED={seed}")
    return random.Random(seed)


@contextmanager
def program(server: RealServer, *words: str, **environment: str) -> Iterator[None]:
    log = (server.folder / "monitor.log").open("a")
    paths = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "URL": server.url, "PYTHONPATH": paths, **environment}
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name(words[0])), *words[1:]], env=environment, cwd=FOLDER, stdout=log, stderr=log
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(240)


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=120) as reply:
        return str(reply.read().decode())


def served(url: str) -> str:
    """Returns the page, as soon as its program has started."""

    def attempt() -> str | None:
        try:
            return fetch(url)
        except (ConnectionError, urllib.error.URLError):
            return None

    return str(wait_until(attempt))


# Celery


class CeleryState:
    """Messages in some queues: due, waiting and held."""

    def __init__(self, server: RealServer, draw: random.Random, options: dict[str, Any] | None = None) -> None:
        server.client.flushall()
        #: How many messages no worker has, by queue.
        self.free = dict.fromkeys(QUEUES, 0)
        #: The ids of the tasks that are not due.
        self.waiting: set[str] = set()
        self.connection = kombu.Connection(server.url, transport=TRANSPORT, transport_options=options)
        self.app = celery.Celery(broker=server.url, set_as_current=False)
        self.app.conf.update(broker_transport=TRANSPORT, broker_transport_options=options or {})
        for queue in QUEUES:
            due, waiting = draw.randrange(6), draw.randrange(6)
            held = draw.randint(0, due)
            self.send(queue, draw, due)
            for _ in range(held):
                assert kombu.Queue(queue)(self.connection.default_channel).get() is not None
            self.waiting.update(self.send(queue, draw, waiting, countdown=draw.randint(1000, 10**9)))
            self.free[queue] = due - held + waiting

    def send(self, queue: str, draw: random.Random, count: int, **options: Any) -> list[str]:
        return [
            self.app.send_task(
                "celery_app.note", args=["a"], queue=queue, priority=draw.choice(PRIORITIES), **options
            ).id
            for _ in range(count)
        ]

    def close(self) -> None:
        self.connection.release()
        self.app.close()


@pytest.mark.parametrize("options", [{}, {"global_keyprefix": "app:", "priority_steps": [0, 3, 6, 9], "sep": ":"}])
def test_flower_counts_the_messages_of_each_queue(
    server: RealServer, drawn: random.Random, options: dict[str, Any]
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with program(
        server,
        *("celery", "-A", "celery_app", "flower", f"--port={port}"),
        QUEUES=" ".join(QUEUES),
        OPTIONS=json.dumps(options),
        FLOWER_UNAUTHENTICATED_API="1",
    ):
        page = served(f"{url}/broker")
        assert f"redis://:**@127.0.0.1:{server.port}" in page
        for _ in range(STATES):
            state = CeleryState(server, drawn, options)
            shown = json.loads(fetch(f"{url}/api/queues/length"))["active_queues"]
            assert {queue["name"]: queue["messages"] for queue in shown} == state.free
            state.close()


def test_what_counts_with_llen_counts_messages(
    server: RealServer, drawn: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As celery-exporter does: it is given a URL and no application."""
    monkeypatch.setenv("CELERY_CONFIG_MODULE", "dehydrator_queue.kombu.celeryconfig")
    for _ in range(STATES):
        state = CeleryState(server, drawn)
        app = celery.Celery(broker=server.url, set_as_current=False)
        with app.connection() as connection:
            assert connection.info()["transport"] == "redis"
            client = connection.default_channel.client
            assert {queue: client.llen(queue) for queue in QUEUES} == state.free
            # Those who sum over the priorities get the same.
            steps = [f"celery{connection.default_channel.sep}{priority}" for priority in (3, 6, 9)]
            assert client.llen("celery") + sum(map(client.llen, steps)) == state.free["celery"]
        state.close()
        app.close()
    # A list is still one.
    server.client.rpush("celery", "of an old worker")
    with kombu.Connection(server.url, transport=TRANSPORT) as connection:
        client = connection.default_channel.client
        assert client.llen("celery") == connection.default_channel._size("celery") + 1


@pytest.mark.slow
def test_celery_exporter_counts_the_messages_of_each_queue(server: RealServer, drawn: random.Random) -> None:
    port = free_port()
    with program(
        server,
        *("python", "-c", "from src.cli import cli; cli()", "--broker-url", server.url, "--queues", ",".join(QUEUES)),
        *("--host", "127.0.0.1", "--port", str(port)),
        CELERY_CONFIG_MODULE="dehydrator_queue.kombu.celeryconfig",
    ):
        served(f"http://127.0.0.1:{port}/health")
        # Each time it waits for two seconds for what workers reply.
        for _ in range(max(1, STATES // 5)):
            state = CeleryState(server, drawn)
            page = fetch(f"http://127.0.0.1:{port}/metrics")
            shown = re.findall(r'^celery_queue_length{queue_name="(.*)"} (.*)$', page, re.MULTILINE)
            assert {queue: float(number) for queue, number in shown} == state.free
            state.close()


@pytest.mark.parametrize("url", ["redis://h:1/2", "rediss://h:1/2?ssl_cert_reqs=none", "sentinel://h:1/2"])
def test_a_connection_shows_the_scheme_of_its_url_and_keeps_its_transport(url: str) -> None:
    scheme = url.partition(":")[0]
    transport = "dehydrator_queue.kombu:SentinelTransport" if scheme == "sentinel" else TRANSPORT
    connection = kombu.Connection(url, transport=transport)
    assert connection.as_uri(include_password=True) == f"{scheme}://h:1/2"
    assert json.loads(json.dumps(connection.info()["transport"])) == scheme
    for other in (connection.clone(), pickle.loads(pickle.dumps(connection))):
        assert other.transport_cls == transport


def test_celery_inspect_lists_what_waits(server: RealServer, drawn: random.Random) -> None:
    with program(
        server,
        *("celery", "-A", "celery_app", "worker", "--pool", "solo", "-n", "w@here", "-Q", ",".join(QUEUES)),
        OPTIONS="{}",
    ):
        app = celery.Celery(broker=server.url, set_as_current=False)
        app.conf.update(broker_transport=TRANSPORT)
        inspect = app.control.inspect(["w@here"], timeout=120, limit=1)
        # What is sent before the worker listens is lost.
        wait_until(app.control.inspect(["w@here"], timeout=5, limit=1).ping)
        for _ in range(STATES):
            for key in server.client.keys("dehydrator:*"):
                server.client.delete(key)
            sent = {
                app.send_task(
                    "celery_app.note",
                    args=["a"],
                    queue=queue,
                    priority=drawn.choice(PRIORITIES),
                    countdown=drawn.randint(1000, 10**9),
                ).id
                for queue in QUEUES
                for _ in range(drawn.randrange(6))
            }
            assert {row["request"]["id"] for row in inspect.scheduled()["w@here"]} == sent
            asked = {*drawn.sample(sorted(sent), min(3, len(sent))), "unknown"}
            found = inspect.query_task(*asked)["w@here"]
            assert {id: state for id, (state, _) in found.items()} == dict.fromkeys(asked - {"unknown"}, "scheduled")
        app.close()


# RQ


@pytest.fixture
def dashboard(server: RealServer) -> Iterator[str]:
    port = free_port()
    with program(
        server,
        *("rq-dashboard", "--config", "dehydrator_queue.rq.dashboard", "--redis-url", server.url),
        *("--bind", "127.0.0.1", "--port", str(port)),
    ):
        served(f"http://127.0.0.1:{port}/")
        yield f"http://127.0.0.1:{port}/0/data"


def test_rq_dashboard_shows_what_waits(server: RealServer, dashboard: str, drawn: random.Random) -> None:
    for _ in range(STATES):
        server.client.flushall()
        names = ["low", "high"]
        waiting: dict[str, list[str]] = {}
        queued: dict[str, set[str]] = {}
        for name in names:
            queue = Queue(name, connection=redis.Redis(port=server.port))
            server.client.sadd(Queue.redis_queues_keys, queue.key)
            moments: dict[str, int] = {}
            queued[name] = set()
            for n in range(drawn.randrange(8)):
                # Some twice, in another place: the last one counts.
                id = f"{name}{drawn.randint(0, n)}"
                queued[name].discard(id)
                server.client.lrem(queue.key, 0, id)
                moments[id] = drawn.randint(100, 10**6) * 1000 + n
                delay = timedelta(seconds=moments[id])
                queue.enqueue_in(delay, rq_jobs.note, 0, job_id=id, at_front=drawn.random() < 0.3)
                fate = drawn.choice(["waits", "waits", "waits", "due", "cancelled", "deleted"])
                job = Job.fetch(id, connection=queue.connection)
                if fate == "waits":
                    continue
                del moments[id]
                if fate == "due":
                    for key in (f"{queue.key}:later", f"{queue.key}:later:front"):
                        server.client.execute_command("DEHYDRATOR.TOUCH", key, 0, id)
                    server.client.hset(job.key, "dehydrator_due", "2020-01-01T00:00:00.000000Z")
                    wait_until(lambda key=queue.key, id=id: server.client.lpos(key, id) is not None)
                    queued[name].add(id)
                elif fate == "cancelled":
                    job.cancel()
                else:
                    job.delete()
            # One that RQ itself scheduled, without our queue.
            if drawn.random() < 0.3:
                moments[f"{name}-own"] = 500_000
                rq.Queue(name, connection=queue.connection).enqueue_in(
                    timedelta(seconds=500_000), rq_jobs.note, 0, job_id=f"{name}-own"
                )
            waiting[name] = sorted(moments, key=moments.__getitem__)
            registry = queue.scheduled_job_registry
            assert registry.get_job_ids() == waiting[name]
            assert registry.get_job_ids(1, 3, desc=True) == waiting[name][::-1][1:4]
            assert all(id in registry for id in waiting[name])
            assert "nobody" not in registry
        shown = {queue["name"]: queue for queue in json.loads(fetch(f"{dashboard}/queues.json"))["queues"]}
        for name in names:
            assert shown[name]["scheduled_job_registry_count"] == len(waiting[name])
            assert shown[name]["count"] == len(queued[name])
            page = json.loads(fetch(f"{dashboard}/jobs/{name}/scheduled/20/asc/1.json"))["jobs"]
            assert [job["id"] for job in page] == waiting[name]
            for id in [*waiting[name][:1], *sorted(queued[name])[:1]]:
                status = json.loads(fetch(f"{dashboard}/job/{id}.json"))["status"]
                assert status == ("queued" if id in queued[name] else "scheduled")


def test_what_rq_dashboard_deletes_does_not_run(server: RealServer, dashboard: str) -> None:
    queue = Queue(connection=redis.Redis(port=server.port))
    for id in "abc":
        queue.enqueue_in(timedelta(hours=1), rq_jobs.note, 0, job_id=id)
    base = dashboard.removesuffix("/0/data")
    for path, left in [("/job/b/delete", ["a", "c"]), ("/queue/default/scheduled/empty", [])]:
        urllib.request.urlopen(urllib.request.Request(base + path, method="POST"), timeout=120).close()
        assert queue.scheduled_job_ids() == left


def test_rqs_own_scheduler_leaves_the_dehydrators_alone(server: RealServer) -> None:
    queue = Queue(connection=redis.Redis(port=server.port))
    queue.enqueue_in(timedelta(hours=1), rq_jobs.note, 0, job_id="a")
    registry = queue.scheduled_job_registry
    assert registry.get_jobs_to_schedule(10**11) == []
    assert rq.registry.ScheduledJobRegistry(queue=queue).get_job_count() == 0
    assert registry.get_scheduled_time("a") == pytest.approx(
        Job.fetch("a", connection=queue.connection).created_at + timedelta(hours=1), abs=timedelta(seconds=60)
    )
    registry.remove("a")
    assert len(registry) == 0


# KEDA


def test_kedas_redis_trigger_counts_what_was_delivered_alone(server: RealServer, drawn: random.Random) -> None:
    """That of KEDA 2.20 asks for the type first: it counts lists, sets, sorted sets and hashes, and refuses others."""
    ask = server.client.execute_command
    counted = {b"list": "LLEN", b"set": "SCARD", b"zset": "ZCARD", b"hash": "HLEN", b"none": "LLEN"}
    for _ in range(STATES):
        server.client.flushall()
        ask("DEHYDRATOR.ONDUE", "later", "LIST", "ready")
        due, waiting = drawn.randrange(6), drawn.randrange(1, 6)
        for n in range(due + waiting):
            ask("DEHYDRATOR.PUSH", "later", 0 if n < due else 10**6, "element", n)
        wait_until(lambda due=due: server.client.llen("ready") == due)
        assert server.client.type("later") not in counted
        assert ask(counted[server.client.type("ready")], "ready") == due
    server.client.delete("later")
    assert server.client.type("later") == b"none"


# Dramatiq


def test_dramatiq_dashboard_refuses_our_broker(server: RealServer) -> None:
    """It reads the hashes of Dramatiq's own broker, and would show none."""
    from dramatiq_dashboard import make_wsgi_middleware

    from dehydrator_queue.dramatiq import DehydratorBroker

    with pytest.raises(RuntimeError, match="RedisBroker"):
        make_wsgi_middleware("/dashboard", DehydratorBroker(url=server.url))
