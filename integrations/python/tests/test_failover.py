"""Queues and workers while the server that they use becomes another one.

What was put away is done, nothing is early, and done twice is at most what the change explains.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from address import Address
from servers import wait_until
from topologies import Cluster, Pair, Sentinels
from workers import both, running

from dehydrator_queue import Job, Queue

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CONCURRENCY = 4
#: Seconds. Longer than any of these changes takes.
LEASE = 15.0


@dataclass
class Record:
    """Executions: the id, the deadline, and the time."""

    done: list[tuple[str, float, float]] = field(default_factory=list)

    def note(self, job: Job) -> None:
        self.done.append((job.id, job.payload, time.time()))

    def some_more(self, count: int) -> None:
        """Waits until this many more are done."""
        before = len(self.done)
        wait_until(lambda: len(self.done) > before + count)

    def check(self, ids: set[str], changes: list[float], window: float) -> int:
        """Returns how many were done twice. `changes`: when servers changed; `window`: seconds that one explains."""
        counts = Counter(id for id, _, _ in self.done)
        assert set(counts) >= ids, f"{len(ids - set(counts))} are lost"
        assert all(at >= due - 0.001 for _, due, at in self.done)
        twice = {id for id, count in counts.items() if count > 1}
        for id in twice:
            first = min(at for other, _, at in self.done if other == id)
            assert any(at - window <= first <= at + window for at in changes), f"{id} is done twice for nothing"
        assert all(count <= 1 + len(changes) for count in counts.values())
        return len(twice)


@contextmanager
def working(kind: str, url: str, *names: str, **terms: Any) -> Iterator[Record]:
    """Runs two workers."""
    record, terms = Record(), {"concurrency": CONCURRENCY, "lease": LEASE, **terms}
    with running(kind, url, record.note, names=names, count=2, **terms):
        yield record


class Putting:
    """Puts jobs away one after the other, each due within two seconds, until it is stopped."""

    def __init__(self, url: str, *names: str) -> None:
        self.queues = [Queue(url, name, patience=120) for name in names]
        #: When each was sent, and when the server acknowledged it.
        self.put: dict[str, tuple[float, float]] = {}
        self.stopping = threading.Event()
        self.failure: Exception | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                began, delay = time.time(), random.uniform(0, 2)
                id = f"put-{len(self.put)}"
                # Due by the server's clock, which is this one.
                assert random.choice(self.queues).put(began + delay, id=id, at=began + delay) in (id, None)
                self.put[id] = began, time.time()
                time.sleep(0.005)
        except Exception as error:
            self.failure = error

    def __enter__(self) -> Putting:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.thread.join(240)
        assert self.failure is None

    def some_more(self, count: int) -> None:
        """Waits until this many more were sent."""
        before = len(self.put)
        wait_until(lambda: len(self.put) > before + count)

    def end(self) -> None:
        """Puts no more away, and waits until all is done."""
        self.stopping.set()
        wait_until(self.empty)

    def empty(self) -> bool:
        return not any(len(queue) for queue in self.queues)

    def ids(self, *but: tuple[float, float]) -> set[str]:
        """Returns the jobs that must not be lost: all except those acknowledged between these moments."""
        return {
            id
            for id, (began, told) in self.put.items()
            if not any(told >= first and began <= last for first, last in but)
        }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, "{jobs}")
    yield cluster
    cluster.close()


@both
def test_sentinel_takes_another_primary_when_one_is_killed(pair: Pair, sentinels: Sentinels, kind: str) -> None:
    with working(kind, sentinels.url, "jobs") as record, Putting(sentinels.url, "jobs") as putting:
        wait_until(lambda: len(record.done) > 300)
        old = pair.primary
        killed = time.time()
        old.kill()
        wait_until(lambda: pair.primary is not old)
        changed = time.time()
        putting.some_more(300)
        old.start()
        wait_until(lambda: old.client.info("replication").get("master_link_status") == "up")
        putting.some_more(100)
        putting.end()
    # The old primary may have acknowledged writes that its replica did not have: a second is more than enough.
    twice = record.check(putting.ids((killed - 1, killed)), [killed, changed], 3)
    print(f"away for {changed - killed:.1f} s; {len(record.done)} done, {twice} twice")


@both
def test_sentinel_is_told_to_change_the_primary(pair: Pair, sentinels: Sentinels, kind: str) -> None:
    with working(kind, sentinels.url, "jobs") as record, Putting(sentinels.url, "jobs") as putting:
        wait_until(lambda: len(record.done) > 300)
        old = pair.primary
        told = time.time()
        sentinels.clients[0].sentinel_failover("mine")
        wait_until(lambda: old.client.info("replication")["role"] == "slave")
        changed = time.time()
        putting.some_more(300)
        putting.end()
    # Until the old primary knows of the failover, it acknowledges writes that will be lost.
    record.check(putting.ids((told - 1, changed)), [told, changed], max(3, changed - told))


@both
def test_failover_loses_nothing_and_does_nothing_twice(pair: Pair, kind: str) -> None:
    address = Address(pair.primary)
    try:
        with working(kind, address.url, "jobs") as record, Putting(address.url, "jobs") as putting:
            for _ in range(3):
                record.some_more(200)
                pair.fail_over(address)
            putting.end()
    finally:
        address.close()
    assert record.check(putting.ids(), [], 0) == 0


class Repeating:
    """Three schedules of twenty occurrences a second each, all of which are put."""

    def __init__(self, url: str) -> None:
        self.jobs = Queue(url, "jobs", patience=120)
        first = {name: self.jobs.every(name, 0.0, seconds=0.05, missed="all") for name in ("x", "y", "z")}
        self.first = {name: round(schedule.next.timestamp() * 1000) for name, schedule in first.items()}

    def end(self, record: Record) -> set[str]:
        """Ends the schedules, waits until their jobs are done, and returns the ids of all occurrences until then."""
        for name in self.first:
            assert self.jobs.schedules.pause(name)
        wait_until(lambda: len(self.jobs) == 0)
        assert all(at >= int(id.partition("@")[2]) / 1000 for id, _, at in record.done if "@" in id)
        ends = {name: self.jobs.schedules.get(name) for name in self.first}
        assert [end.misses for end in ends.values()] == [0, 0, 0]
        return {
            f"{name}@{moment}"
            for name, end in ends.items()
            for moment in range(self.first[name], round(end.last.timestamp() * 1000) + 1, 50)
        }


@both
def test_each_occurrence_is_one_job_through_failovers(pair: Pair, kind: str) -> None:
    address = Address(pair.primary)
    try:
        repeating = Repeating(address.url)
        with working(kind, address.url, "jobs") as record, Putting(address.url, "jobs") as putting:
            for _ in range(3):
                record.some_more(300)
                pair.fail_over(address)
            record.some_more(300)
            putting.stopping.set()
            occurrences = repeating.end(record)
    finally:
        address.close()
    assert record.check(putting.ids() | occurrences, [], 0) == 0
    assert {id for id, _, _ in record.done if "@" in id} == occurrences
    print(f"{len(occurrences)} occurrences")


@both
def test_no_occurrence_is_left_out_when_a_primary_is_killed(pair: Pair, sentinels: Sentinels, kind: str) -> None:
    repeating = Repeating(sentinels.url)
    with working(kind, sentinels.url, "jobs") as record, Putting(sentinels.url, "jobs") as putting:
        record.some_more(300)
        old = pair.primary
        killed = time.time()
        old.kill()
        wait_until(lambda: pair.primary is not old)
        changed = time.time()
        record.some_more(300)
        putting.stopping.set()
        occurrences = repeating.end(record)
    # What the replica did not have is put again, under the same id: a second is more than enough.
    twice = record.check(putting.ids((killed - 1, killed)) | occurrences, [killed, changed], 3)
    assert {id for id, _, _ in record.done if "@" in id} == occurrences
    print(f"away for {changed - killed:.1f} s; {len(occurrences)} occurrences; {twice} of all jobs twice")


@both
def test_occurrences_that_a_promoted_replica_did_not_have_are_put_again(pair: Pair, kind: str) -> None:
    address = Address(pair.primary)
    old, new = pair.servers
    try:
        repeating = Repeating(address.url)
        with working(kind, address.url, "jobs") as record:
            record.some_more(50)
            # In its first second, a replica may have nothing yet.
            wait_until(lambda: len(new.client.execute_command("DEHYDRATOR.SCHEDULES", "jobs")) == 3)
            parted = time.time()
            new.client.replicaof("NO", "ONE")
            record.some_more(50)
            old.kill()
            address.lead_to(new, cut=True)
            changed = time.time()
            wait_until(lambda: all(one.last.timestamp() > changed for one in repeating.jobs.schedules))
            occurrences = repeating.end(record)
    finally:
        address.close()
    twice = record.check(occurrences, [(parted + changed) / 2], (changed - parted) / 2 + 0.5)
    assert twice > 0
    assert {id for id, _, _ in record.done} == occurrences
    print(f"parted for {changed - parted:.1f} s; {len(occurrences)} occurrences, {twice} twice")


@both
def test_slots_move_while_workers_work(cluster: Cluster, kind: str) -> None:
    names = ("{jobs}:high", "{jobs}:low")
    with working(kind, cluster.url, *names) as record, Putting(cluster.url, *names) as putting:
        for n in range(5):
            record.some_more(100)
            cluster.move(
                cluster.nodes[n % 3] if cluster.owner() is not cluster.nodes[n % 3] else cluster.nodes[n % 3 - 1]
            )
        putting.end()
    assert record.check(putting.ids(), [], 0) == 0


@both
def test_a_cluster_of_which_no_node_is_there_is_waited_for(
    cluster: Cluster, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = Queue(cluster.url, "jobs", patience=120)
    with working(kind, cluster.url, "jobs") as record:
        jobs.put(0, id="before")
        wait_until(lambda: len(record.done) == 1 and len(jobs) == 0)
        for node in cluster.nodes:
            node.kill()
        wait_until(lambda: "RedisClusterException" in caplog.text)
        for node in cluster.nodes:
            node.start()
        jobs.put(0, id="after")
        wait_until(lambda: len(jobs) == 0)
    assert [id for id, _, _ in record.done] == ["before", "after"]


@both
def test_a_cluster_that_comes_later_is_waited_for(
    cluster: Cluster, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    for node in cluster.nodes:
        node.kill()
    jobs = Queue(cluster.url, "jobs", patience=120)
    with working(kind, cluster.url, "jobs") as record:
        wait_until(lambda: "RedisClusterException" in caplog.text)
        for node in cluster.nodes:
            node.start()
        jobs.put(0, id="after")
        wait_until(lambda: len(record.done) == 1 and len(jobs) == 0)


@both
def test_a_replica_of_a_cluster_takes_over(cluster: Cluster, kind: str) -> None:
    with working(kind, cluster.url, "jobs") as record, Putting(cluster.url, "jobs") as putting:
        wait_until(lambda: len(record.done) > 200)
        old = cluster.owner()
        cluster.replica.client.execute_command("CLUSTER", "FAILOVER")
        wait_until(lambda: cluster.owner() is cluster.replica)
        wait_until(lambda: old.client.info("replication").get("master_link_status") == "up")
        record.some_more(200)
        # The requested failover has lost nothing; now the server is killed, and the first takes over by itself.
        killed = time.time()
        cluster.replica.kill()
        wait_until(lambda: cluster.owner() is old)
        changed = time.time()
        record.some_more(200)
        putting.end()
    record.check(putting.ids((killed - 1, killed)), [killed, changed], 3)
