"""Schedules of Dramatiq's actors."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from servers import RealServer, wait_until
from test_dramatiq import working
from topologies import Cluster

from dehydrator_queue.dramatiq import DehydratorBroker, cron, every
from dehydrator_queue.frameworks import occurrences

KEY = "dramatiq:default:schedules"


class Ran(dramatiq.Middleware):
    """Notes the ids of the messages that are sent and processed, and when."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.ids: list[str] = []
        self.late: list[float] = []

    def after_enqueue(self, broker: Any, message: Any, delay: int | None) -> None:
        self.sent.append(message.message_id)

    def before_process_message(self, broker: Any, message: Any) -> None:
        self.ids.append(message.message_id)
        self.late.append(time.time() - message.message_timestamp / 1000)

    def moments(self, name: str) -> list[int]:
        return sorted(int(id.partition("@")[2]) for id in self.ids if id.startswith(f"{name}@"))


@pytest.fixture
def ran() -> Ran:
    return Ran()


@pytest.fixture
def brokers(server: RealServer, ran: Ran) -> Iterator[Any]:
    """Yields a function that makes brokers."""
    made = []

    def make(url: str = server.url, **periodic: Any) -> DehydratorBroker:
        made.append(broker := DehydratorBroker(url=url, schedules=True))
        broker.add_middleware(ran)
        for name, plan in periodic.items():
            dramatiq.actor(lambda: None, actor_name=name, broker=broker, periodic=plan)
        broker.declare_queue("default")
        return broker

    yield make
    for broker in made:
        broker.close()


def stored(server: RealServer) -> set[str]:
    return {row[1].decode() for row in server.client.execute_command("DEHYDRATOR.SCHEDULES", KEY)}


def test_workers_serve_the_schedules_of_actors(brokers: Any, ran: Ran) -> None:
    some = [brokers(note=every(0.1, missed="all")) for _ in range(3)]
    with working(some[0]), working(some[1]), working(some[2]):
        wait_until(lambda: len(ran.ids) > 20)
        some[0].schedules().pause("note")
        some[0].join("default")
    moments = ran.moments("note")
    # Each occurrence once, and none early.
    assert moments == list(range(moments[0], moments[-1] + 1, 100))
    assert min(ran.late) >= 0
    assert sorted(ran.sent) == sorted(ran.ids)


def test_the_schedules_of_actors_are_listed_paused_and_run(server: RealServer, brokers: Any, ran: Ran) -> None:
    broker = brokers(report=cron("0 9 * * 1-5", zone="Europe/Berlin", missed="none"))
    with working(broker):
        [report] = wait_until(lambda: list(broker.schedules()))
        assert (report.name, report.cron, report.zone) == ("report", "0 9 * * 1-5", "Europe/Berlin")
        assert report.within == 60
        assert report.payload.actor_name == "report"
        assert broker.schedules().pause("report")
        id = broker.schedules().run("report")
        wait_until(lambda: ran.ids == [id] == ran.sent)


def test_who_starts_last_wins(server: RealServer, brokers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occurrences, "LOOK", 0.2)
    daily = cron("0 9 * * *")
    with working(brokers(a=daily, b=daily)):
        assert stored(server) == {"a", "b"}
        with working(brokers(a=daily)):
            assert stored(server) == {"a"}
        # Those that the server has lost come back.
        server.client.flushall()
        wait_until(lambda: stored(server) == {"a", "b"})


def test_an_actor_is_periodic_only_where_workers_serve_it(server: RealServer, brokers: Any, caplog: Any) -> None:
    broker = DehydratorBroker(url=server.url)
    with pytest.raises(ValueError, match="periodic"):
        dramatiq.actor(lambda: None, actor_name="note", broker=broker, periodic=every(1))
    broker.close()
    with working(brokers(note=cron("* * *"), good=every(3600))):
        assert stored(server) == {"good"}
    assert "refuses the schedule note: " in caplog.text


def test_a_full_queue_delays_an_occurrence(server: RealServer, brokers: Any, ran: Ran, caplog: Any) -> None:
    server.client.execute_command("DEHYDRATOR.PUSH", "dramatiq:default", 60_000, "full", "full")
    server.client.execute_command("DEHYDRATOR.LIMIT", "dramatiq:default", "LENGTH", 1)
    with working(brokers(note=every(0.1))):
        wait_until(lambda: "is tried again in 1 s: QueueFull" in caplog.text)
        assert ran.sent == []
        server.client.execute_command("DEHYDRATOR.REM", "dramatiq:default", "full")
        wait_until(lambda: len(ran.ids) > 2)


@pytest.mark.slow
def test_a_cluster_serves_the_schedules_of_all_queues(tmp_path: Path, brokers: Any, ran: Ran) -> None:
    cluster = Cluster(tmp_path, "{dramatiq:default}")
    try:
        broker = brokers(cluster.url, note=every(0.1))
        dramatiq.actor(lambda: None, actor_name="low", broker=broker, queue_name="low", periodic=every(0.1))
        with working(broker):
            wait_until(lambda: len(ran.moments("note")) > 5 and len(ran.moments("low")) > 5)
    finally:
        cluster.close()


PROGRAM = """
import sys, time, dramatiq
from dehydrator_queue.dramatiq import DehydratorBroker, every
broker = DehydratorBroker(url=sys.argv[1], schedules=True, lease=2)
for name in "ab":
    dramatiq.actor(lambda: None, actor_name=name, broker=broker, periodic=every(0.1, missed="all"))
worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=2)
worker.start()
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_and_the_server_are_killed_and_no_occurrence_is_left_out(own_server: RealServer) -> None:
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", PROGRAM, own_server.url], stdout=subprocess.PIPE)

    workers = [start() for _ in range(3)]
    broker = DehydratorBroker(url=own_server.url)
    try:
        for n in range(12):
            at = n % 3
            assert workers[at].stdout.readline() == b"up\n"
            before = broker.schedules().get("a").last if n else None
            wait_until(lambda before=before: (one := broker.schedules().get("a")) and one.last != before)
            if n % 4 == 2:
                own_server.restart()
            workers[at].kill()
            workers[at].wait()
            workers[at] = start()
        for name in "ab":
            broker.schedules().pause(name)
        # What a killed worker has taken comes again when its lease has expired.
        wait_until(lambda: not own_server.client.execute_command("DEHYDRATOR.LEN", "dramatiq:default:schedules"))
        broker.join("default", timeout=240_000)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        broker.close()
    # A message can be sent again when a worker dies with its occurrence, but under the same id.
    counts = Counter(own_server.pushed("dramatiq:default"))
    print(len(counts), "messages,", sum(counts.values()) - len(counts), "again")
    for name in "ab":
        moments = sorted(int(id[2:]) for id in counts if id.startswith(f"{name}@"))
        assert moments == list(range(moments[0], moments[-1] + 1, 100))
