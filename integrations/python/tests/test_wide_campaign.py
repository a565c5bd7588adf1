"""A queue over six nodes: a primary is killed every ten seconds, slots move, and two nodes join and leave.

DEHYDRATOR_CAMPAIGN_S sets for how long, in seconds. What was put is done, nothing is early, and nothing is done again
within a lease: a replica has each lease before its job begins.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import RealServer, wait_until
from test_failover import Putting, working
from topologies import Cluster
from workers import both

from dehydrator_queue import Queue

SECONDS = float(os.environ.get("DEHYDRATOR_CAMPAIGN_S", "40"))
LEASE = 8.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 900)]


@pytest.fixture
def six(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, replicas=True)
    yield cluster
    cluster.close()


def slots_of(cluster: Cluster, node: RealServer) -> list[int]:
    """Returns the slots of a primary, by its own word."""
    rows = node.client.execute_command("CLUSTER", "SLOTS")
    return [slot for first, last, (_, port, *_), *_ in rows if port == node.port for slot in range(first, last + 1)]


def primaries(cluster: Cluster) -> list[RealServer]:
    """Returns those that have slots."""
    told = [node for node in cluster.nodes if node.client.info("replication")["role"] == "master"]
    return [node for node in told if slots_of(cluster, node)]


def is_well(cluster: Cluster) -> bool:
    """Returns whether each primary has a replica, and all nodes agree on the slots."""
    told = [node.client.info("replication") for node in cluster.nodes]
    served = {one["master_port"] for one in told if one["role"] == "slave" and one["master_link_status"] == "up"}
    some = primaries(cluster)
    rows = {
        str([row[:3] for row in sorted(node.client.execute_command("CLUSTER", "SLOTS"), key=lambda row: row[0])])
        for node in some
    }
    return served >= {node.port for node in some} and all(map(cluster.is_well, cluster.nodes)) and len(rows) == 1


def kill_one(cluster: Cluster, number: int) -> tuple[float, float]:
    """Kills a primary, and starts it when a replica has taken over; returns the times of both."""
    some = primaries(cluster)
    old = some[number % len(some)]
    killed = time.time()
    lost = slots_of(cluster, old)[0]
    old.kill()
    others = [node for node in cluster.nodes if node is not old]
    wait_until(lambda: any(lost in slots_of(cluster, node) for node in others))
    wait_until(lambda: all(cluster.is_well(node) for node in others))
    changed = time.time()
    old.start()
    wait_until(lambda: is_well(cluster))
    return killed, changed


class Changes:
    """Moves slots of the queue's keys, and has two nodes join and leave."""

    def __init__(self, cluster: Cluster, queue: Queue) -> None:
        self._cluster, self._queue = cluster, queue
        self.names = queue.set_keys("auto")
        self.moved = self.joined = self.left = 0
        self._new: list[RealServer] = []

    def make(self, number: int) -> None:
        """Makes one change after each kill: a node joins at the second of six, and leaves at the fifth."""
        if number % 6 == 1:
            self._new = self._cluster.join()
            self.joined += 1
            self._move(number, self._new[0])
            # A primary more: a key more.
            self.names = self._queue.set_keys("auto")
        elif number % 6 == 4:
            self._leave()
        else:
            self._move(number)
        wait_until(lambda: is_well(self._cluster))

    def _move(self, number: int, to: RealServer | None = None) -> None:
        self._cluster.slot = self._slot(self.names[number % len(self.names)])
        owner = self._cluster.owner()
        self._cluster.move(to or next(node for node in primaries(self._cluster) if node is not owner))
        self.moved += 1

    def _leave(self) -> None:
        for node in self._new:
            for slot in slots_of(self._cluster, node):
                self._cluster.slot = slot
                self._cluster.move(next(one for one in primaries(self._cluster) if one not in self._new))
        self._cluster.leave(self._new)
        self.left += 1
        self.names = self._queue.set_keys("auto")

    def _slot(self, key: str) -> int:
        return int(self._cluster.nodes[0].client.execute_command("CLUSTER", "KEYSLOT", key))


@both
def test_primaries_are_killed_while_slots_move_and_nodes_join_and_leave(six: Cluster, kind: str) -> None:
    changes = Changes(six, Queue(six.url, "jobs", keys="auto", patience=120))
    away: list[tuple[float, float]] = []
    end = time.monotonic() + SECONDS
    putting = Putting(six.url)
    putting.queues = [Queue(six.url, "jobs", keys="auto", patience=120)]
    with working(kind, six.url, "jobs", keys="auto", lease=LEASE, wait_replicas=1) as record, putting:
        begun = record.done
        wait_until(lambda: len(begun) > 300)
        for number in itertools.count():
            began = time.monotonic()
            away.append(kill_one(six, number))
            changes.make(number)
            if time.monotonic() > end:
                break
            # No WAIT is about what a slot brings along: its new node dies a second later at the earliest.
            time.sleep(max(1.0, began + 10 - time.monotonic()))
        putting.end()
    begins: dict[str, list[float]] = defaultdict(list)
    for id, due, at in begun:
        assert at >= due - 0.001, "early"
        begins[id].append(at)
    # What a primary acknowledged just before it was killed, its replica may not have.
    lost = putting.ids(*((killed - 0.5, killed) for killed, _ in away)) - set(begins)
    assert not lost
    again = [b - a for times in begins.values() for a, b in itertools.pairwise(sorted(times))]
    assert all(gap >= LEASE - 0.1 for gap in again), sorted(again)
    late = {id: (times[0] - due) * 1000 for id, due, _ in begun for times in [begins[id]]}
    calm = [late[id] for id, due, _ in begun if not any(killed - 1 <= due <= end + 3 for killed, end in away)]
    for what, some in (("all", list(late.values())), ("while no primary was away", calm)):
        cuts = statistics.quantiles(some, n=100)
        print(f"{what}: {len(some)} jobs, ms late: p50 {cuts[49]:.1f}, p99 {cuts[98]:.1f}, max {max(some):.1f}")
    taken = [changed - killed for killed, changed in away]
    lost_early = len(putting.put.keys() - begins.keys())
    print(f"{len(away)} kills, each away for {min(taken):.1f} to {max(taken):.1f} s; {changes.moved} slots moved")
    print(f"{changes.joined} times two nodes joined, {changes.left} times they left")
    print(f"{len(putting.put)} put, {lost_early} unreplicated and lost, 0 early, {len(again)} again after a lease")
