"""Workers of queues of several keys."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import workers
from servers import RealServer, wait_until
from topologies import Cluster, Pair

from dehydrator_queue import Hooks, Item, Job, Queue, Reject, Worker
from dehydrator_queue.aio import Queue as AsyncQueue
from dehydrator_queue.aio import Worker as AsyncWorker
from dehydrator_queue.aio.wide.confirming import Confirming as AsyncConfirming
from dehydrator_queue.queue.library import passes
from dehydrator_queue.wide.confirming import Confirming, UnconfirmedError
from dehydrator_queue.wide.directory import home
from dehydrator_queue.wide.permits import Permits


@pytest.fixture(params=["threads on a server", "asyncio on a cluster"])
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The kind of worker, and the URL of an empty server or cluster."""
    kind, _, _, at = request.param.split()
    return kind, request.getfixturevalue(at).url


running = partial(workers.running, keys=2)


def test_each_job_of_all_keys_is_done_once(place: tuple[str, str]) -> None:
    done: list[tuple[str, str, int]] = []
    with Queue(place[1], "jobs", keys=2) as jobs:
        with running(*place, lambda job: done.append((job.id, job.queue, job.attempt)), concurrency=8):
            jobs.put_many(Item(n, id=str(n), delay=n % 10 / 10) for n in range(300))
            wait_until(lambda: len(jobs) == 0)
        assert sorted(done) == sorted((str(n), "jobs", 1) for n in range(300))


def test_a_worker_of_two_queues_begins_the_first(place: tuple[str, str]) -> None:
    order: list[str] = []
    with Queue(place[1], "high", keys=2) as high, Queue(place[1], "low", keys=2) as low:
        for queue in (low, high):
            queue.put_many(Item(n) for n in range(20))
        with running(*place, lambda job: order.append(job.queue), names=["high", "low"]):
            wait_until(lambda: len(order) == 40)
    # A key of `high` may have given its last before the other key's thread has asked for more.
    assert order[:20].count("high") >= 17, order


@pytest.mark.parametrize("concurrency", [1, 6])
def test_never_more_are_done_at_once_than_said(place: tuple[str, str], concurrency: int) -> None:
    now, most, lock, are_all = 0, 0, threading.Lock(), threading.Event()

    def work(job: Job) -> None:
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
            if most == concurrency:
                are_all.set()
        # However busy the machine is.
        are_all.wait(60)
        time.sleep(0.03)
        with lock:
            now -= 1

    with Queue(place[1], "jobs", keys=2) as jobs:
        jobs.put_many(Item(n) for n in range(18))
        with running(*place, work, concurrency=concurrency):
            wait_until(lambda: len(jobs) == 0)
    assert most == concurrency


def test_what_fails_or_is_rejected_is_a_dead_letter_and_is_revived(place: tuple[str, str]) -> None:
    def work(job: Job) -> None:
        if job.payload == "reject":
            raise Reject("not for us")
        raise ValueError("no")

    with Queue(place[1], "jobs", keys=2) as jobs:
        ids = [f"id:{n}" for n in range(12)]
        jobs.put_many((Item("reject" if n % 2 else "fail", id) for n, id in enumerate(ids)), group="anna")
        with running(*place, work, attempts=2, concurrency=2):
            wait_until(lambda: len(jobs.dead_letters()) == 12)
        letters = {letter.id: letter.reason for letter in jobs.dead_letters()}
        assert letters == {id: "not for us" if n % 2 else "ValueError: no" for n, id in enumerate(ids)}
        assert len(jobs.dead_letters(5)) == 5
        jobs.set_keys(5)
        jobs.put("there", id="id:3", delay=60)
        assert jobs.forget_keys() == 0
        assert jobs.revive(count=7) + jobs.revive(count=7) == 11
        assert [letter.id for letter in jobs.dead_letters()] == ["id:3"]
        assert {id for id in ids if jobs.look(id)} == set(ids)
        assert jobs.info(group="anna")["length"] == 11
        jobs.cancel("id:3")
        assert jobs.revive() == 1


def test_a_worker_follows_a_change_of_the_keys(place: tuple[str, str]) -> None:
    done: list[str] = []
    with (
        Queue(place[1], "jobs", keys=2) as jobs,
        running(*place, lambda job: done.append(job.id), concurrency=2),
    ):
        jobs.put_many(Item(n, id=f"early:{n}", delay=0.5 + n / 20) for n in range(10))
        names = jobs.set_keys(4)
        jobs.put_many(Item(n, id=f"late:{n}") for n in range(10))
        wait_until(lambda: len(done) == 20)
        # The last job is settled behind its handler's end.
        wait_until(lambda: jobs.forget_keys() == 0)
        assert jobs.set_keys(1) == names[:1]
        wait_until(lambda: jobs.forget_keys() == 0)
    assert len(set(done)) == 20


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_job_begins_when_a_replica_has_its_lease(pair: Pair, kind: str) -> None:
    primary, replica = pair.servers
    done: list[str] = []
    said: list[Exception] = []

    class Told(Hooks):
        def interrupted(self, error: Exception) -> None:
            said.append(error)

    terms: dict[str, Any] = {"wait_replicas": 1, "lease": 6, "hooks": Told()}
    with (
        Queue(primary.url, "jobs", keys=2) as jobs,
        running(kind, primary.url, lambda job: done.append(job.id), **terms),
    ):
        jobs.put(1, id="first")
        wait_until(lambda: done == ["first"] and len(jobs) == 0)
        replica.kill()
        jobs.put(1, id="second")
        wait_until(lambda: any("0 of 1 replicas" in str(error) for error in said))
        assert done == ["first"]
        replica.start()
        replica.client.replicaof("127.0.0.1", primary.port)
        wait_until(lambda: done == ["first", "second"] and len(jobs) == 0)


def test_what_had_nothing_to_write_is_confirmed_with_what_came_before(pair: Pair) -> None:
    primary, replica = pair.servers
    settle = ("DEHYDRATOR.SETTLE", "{jobs:0}", "token", "id")
    assert Confirming(primary.client, 1, 60_000).execute_command(*settle) == [0]
    # It stays connected, and reads nothing.
    replica.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(UnconfirmedError):
            Confirming(primary.client, 1, 300).execute_command(*settle)
    finally:
        replica.process.send_signal(signal.SIGCONT)


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster that the test may change."""
    with closing(Cluster(tmp_path)) as cluster:
        yield cluster


@contextmanager
def silent(node: RealServer) -> Iterator[None]:
    """Keeps the connections of a node open, without a reply."""
    node.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_silent_node_ends_no_lease_of_the_others(own_cluster: Cluster, kind: str) -> None:
    for node in own_cluster.nodes:
        node.client.config_set("cluster-require-full-coverage", "no")
    url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in own_cluster.nodes)
    goes_on, begun, lost = threading.Event(), [], []

    class Told(Hooks):
        def lost(self, job: Job) -> None:
            lost.append(job.id)

    def work(job: Job) -> None:
        begun.append(job.id)
        goes_on.wait(100)

    with Queue(url, "jobs", keys=3) as jobs:
        names = jobs.set_keys(3)
        jobs.put_many(Item(n, id=str(n)) for n in range(4))
        of = {str(n): home(str(n).encode(), names) for n in range(4)}
        terms: dict[str, Any] = {"concurrency": 4, "lease": 4, "hooks": Told()}
        with running(kind, url, work, **terms):
            wait_until(lambda: len(begun) == 4)
            own_cluster.slot = jobs._server.client.made().keyslot(of[begun[0]])
            away = own_cluster.owner()
            others = [id for id in begun if of[id] != of[begun[0]]]
            try:
                with silent(away):
                    # For twice the lease and a half.
                    ends = time.monotonic() + 10
                    while time.monotonic() < ends:
                        assert all(jobs.look(id).leased for id in others)
                        time.sleep(0.05)
            finally:
                goes_on.set()
            wait_until(lambda: len(jobs) == 0)
    assert not set(lost) & set(others)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_stop_in_time_does_not_wait_for_a_silent_node(own_cluster: Cluster, kind: str) -> None:
    url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in own_cluster.nodes)
    done: list[str] = []
    with Queue(url, "jobs", keys=2) as jobs:
        with running(kind, url, lambda job: done.append(job.id), stop_timeout=1):
            jobs.put_many(Item(n) for n in range(20))
            wait_until(lambda: len(jobs) == 0)
            own_cluster.slot = jobs._server.client.made().keyslot("{jobs:0}")
            away = own_cluster.owner()
            away.process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
        took = time.monotonic() - began
        away.process.send_signal(signal.SIGCONT)
    # Its reply would be waited for longer.
    assert took < 5


@pytest.mark.slow
async def test_a_job_waits_while_its_slot_moves_to_a_node_that_is_new(own_cluster: Cluster) -> None:
    settle = ("DEHYDRATOR.SETTLE", "{jobs:0}", "token", "id")
    port = own_cluster.nodes[0].port
    async with redis.asyncio.RedisCluster("127.0.0.1", port) as there:
        with redis.RedisCluster("127.0.0.1", port) as here:
            to, _ = own_cluster.join()
            own_cluster.slot = here.keyslot("{jobs:0}")
            source = own_cluster.owner()
            to.client.execute_command("CLUSTER", "SETSLOT", own_cluster.slot, "IMPORTING", own_cluster.id(source))
            source.client.execute_command("CLUSTER", "SETSLOT", own_cluster.slot, "MIGRATING", own_cluster.id(to))
            with pytest.raises(Exception) as raised:  # noqa: PT011
                Confirming(here, 1, 5000).execute_command(*settle)
            assert passes(raised.value)
        waiting = AsyncConfirming(there, 1, 5000)
        with pytest.raises(Exception) as raised:  # noqa: PT011
            await waiting.execute_command(*settle)
        assert passes(raised.value)
        await waiting.aclose()


def test_work_that_a_stop_has_left_behind_gives_the_next_run_no_room(server: RealServer) -> None:
    begun: list[str] = []
    goes_on = {"first": threading.Event(), "second": threading.Event()}

    def work(job: Job) -> None:
        begun.append(job.id)
        goes_on[job.id].wait(100)

    with Queue(server.url, "jobs", keys=2) as jobs:
        worker = Worker(jobs, work, block=0.3, attempts=1, stop_timeout=0)
        for id in goes_on:
            running = threading.Thread(target=worker.run, daemon=True)
            running.start()
            jobs.put(1, id=id)
            wait_until(lambda id=id: begun[-1:] == [id])
            if id == "first":
                worker.stop()
                running.join()
        goes_on["first"].set()
        wait_until(lambda: [thread.name for thread in threading.enumerate()].count("dehydrator-0") == 1)
        has_room = worker._free.take_one(0)
        goes_on["second"].set()
        worker.stop()
        running.join()
    assert not has_room


def test_queues_with_and_without_keys_need_two_workers(server: RealServer) -> None:
    wide, narrow = Queue(server.url, "wide", keys=2), Queue(server.url, "narrow")
    with pytest.raises(ValueError, match="all have `keys`"):
        Worker([wide, narrow], print)
    with pytest.raises(ValueError, match="wait_replicas"):
        Worker(narrow, print, wait_replicas=1)


class Interruptions(Hooks):
    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def interrupted(self, error: Exception) -> None:
        self.errors.append(error)


@pytest.mark.parametrize("keys", [None, 3])
async def test_the_first_jobs_of_a_cluster_are_not_interrupted(cluster: Cluster, keys: int | None) -> None:
    done: list[str] = []
    hooks = Interruptions()

    async def work(job: Job) -> None:
        done.append(job.id)
        if len(done) == 500:
            worker.stop()

    Queue(cluster.url, "first", keys=keys).put_many(Item(n) for n in range(500))
    async with AsyncQueue(cluster.url, "first", keys=keys) as queue:
        worker = AsyncWorker(queue, work, concurrency=20, hooks=hooks, block=0.3)
        await worker.run()
    assert (len(done), hooks.errors) == (500, [])


def test_permits_go_to_the_first_queue_and_are_shared_by_its_keys() -> None:
    permits, given = Permits(6), []

    def ask(name: str, rank: int, most: int = 100) -> None:
        permits.ask(rank, most, lambda count: given.append((name, count)))

    ask("a", 0)
    assert given == [("a", 6)]
    for name, rank in (("low", 1), ("b", 0), ("c", 0)):
        ask(name, rank)
    assert not permits.take_one(0)
    permits.release(4)
    assert given[1:] == [("b", 3), ("c", 1)]
    permits.release(1)
    assert given[3:] == [("low", 1)]
    ask("d", 0, most=2)
    permits.release(3)
    assert given[4:] == [("d", 2)]
    assert permits.take_one(1)
    assert not permits.take_one(0)


def test_permits_that_come_back_together_are_given_together() -> None:
    permits, given, calls = Permits(4), [], []
    permits.soon = calls.append
    permits.ask(0, 100, given.append)
    permits.ask(1, 100, given.append)
    assert not given
    assert not permits.take_one(1)
    calls.pop()()
    assert given == [4]
    for _ in range(4):
        permits.release()
    calls.pop()()
    assert given == [4, 4]
