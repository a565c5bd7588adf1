"""Schedules of queues of several keys."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from servers import RealServer, wait_until
from test_wide_worker import running
from topologies import Cluster

from dehydrator_queue import DehydratorError, Item, Job, Queue, aio
from dehydrator_queue.testing import MemoryServer
from dehydrator_queue.verbs import new_token, pairs, poll
from dehydrator_queue.wide.directory import home

KEY = "{jobs:0}:schedules"


def occurrence(id: str) -> tuple[str, int]:
    """Returns the name of the schedule and the moment of a job."""
    name, _, moment = id.partition("@")
    return name, int(moment.partition(".")[0])


def grid(ids: Any, name: str, step: int) -> bool:
    """Returns whether each occurrence of a schedule, from the first to the last one, is there once."""
    moments = sorted(moment for one, moment in map(occurrence, ids) if one == name)
    return len(moments) > 0 and moments == list(range(moments[0], moments[-1] + 1, step))


def serve(queue: Queue, lease: int = 60_000) -> None:
    for delivery in queue.server.ask(poll([queue.scheduling.key], 10, lease, new_token(), None)):
        assert queue.server.follow(queue.scheduling.serve(delivery)) is None


def test_the_jobs_of_a_schedule_are_found_by_their_ids(url: str | MemoryServer) -> None:
    with Queue(url, "jobs", keys=3) as jobs:
        jobs.every("r", {"a": 1}, seconds=0.01, missed="all")
        if isinstance(url, MemoryServer):
            url.advance(0.4)
        else:
            time.sleep(0.4)
        serve(jobs)
        jobs.schedules.pause("r")
        ids = [job.id for job in jobs]
        assert len(ids) >= 30
        assert grid(ids, "r", 10)
        assert {home(id.encode(), jobs.set_keys(3)) for id in ids} == {"{jobs:0}"}
        # Most ids belong to other keys without a number.
        assert len(ids) / 6 < sum("." in id for id in ids) < len(ids)
        assert [jobs.look(id).payload for id in ids] == [{"a": 1}] * len(ids)
        assert jobs.cancel(*ids[:10]) == 10
        moment = ids[11].partition(".")[0]
        assert jobs.cancel_all(prefix=moment) == 1
        assert jobs.cancel_all(prefix="r@") == len(ids) - 11


async def test_schedules_of_several_keys_are_read_and_changed(server: RealServer) -> None:
    jobs = Queue(server.url, "jobs", keys=3)
    async with aio.Queue(server.url, "jobs", keys=3) as there:
        schedule = jobs.every("r", 1, cron="0 9 * * *", zone="Asia/Tokyo")
        assert server.client.exists(KEY)
        assert schedule == jobs.schedules.get("r") == await there.schedules.get("r")
        assert await there.every("r", 1, cron="0 9 * * *", zone="Asia/Tokyo") == schedule
        assert await there.schedules.pause("r")
        jobs.set_keys(5)
        assert [one.paused for one in jobs.schedules] == [True]
        assert jobs.schedules.resume("r")
        assert [one.paused async for one in there.schedules] == [False]
        ids = [jobs.schedules.run("r"), await there.schedules.run("r")]
        assert [jobs.look(id).payload for id in ids] == [1, 1]
        jobs.cancel(*ids)
        assert (len(jobs.schedules), await there.schedules.length()) == (1, 1)
        # They do not keep the former keys.
        assert jobs.forget_keys() == 0
        jobs.set_keys(1)
        assert jobs.forget_keys() == 0
        assert await there.schedules.remove("r")
        assert jobs.schedules.run("r") is None


def test_a_worker_with_outdated_keys_puts_jobs_where_they_belong_now(server: RealServer) -> None:
    jobs, other = Queue(server.url, "jobs", keys=2), Queue(server.url, "jobs", keys=2)
    jobs.every("r", 1, seconds=0.01, missed="all")
    time.sleep(0.1)
    serve(jobs)
    names = other.set_keys(7)
    # It touches each key, so clients with the first list are refused from now on.
    left = other.forget_keys()
    assert left == sum(home(job.id.encode(), names) != "{jobs:0}" for job in other)
    time.sleep(0.1)
    before = {job.id for job in other}
    serve(jobs)
    jobs.schedules.pause("r")
    ids = [job.id for job in jobs]
    assert len(ids) > len(before)
    assert grid(ids, "r", 10)
    assert {home(id.encode(), names) for id in ids if id not in before} == {"{jobs:0}"}
    assert jobs.cancel(*ids) == len(ids)
    assert jobs.forget_keys() == 0
    # A failover lost the directory.
    jobs.schedules.resume("r")
    time.sleep(0.05)
    server.client.set("{jobs:0}:generation", 99)
    with pytest.raises(DehydratorError, match="call set_keys again"):
        serve(jobs)
    assert len(list(Queue(server.url, "jobs", keys=2).schedules)) == 1


class Killed(BaseException):
    """The process is killed."""


class Mortal:
    """A client of a process that is killed before a command, or after one."""

    def __init__(self, client: Any, life: int, sends: bool) -> None:
        self.client, self.life, self.sends = client, life, sends

    def execute_command(self, *words: Any, **options: Any) -> Any:
        self.life -= 1
        if self.life >= 0:
            return self.client.execute_command(*words, **options)
        if self.sends:
            self.client.execute_command(*words, **options)
        raise Killed


def pushed(server: RealServer, key: str = "{jobs:0}") -> Counter[tuple[str, int]]:
    """Returns how often the job of each occurrence was put."""
    # Other tests on the server put jobs under other ids.
    return Counter(occurrence(id) for id in server.pushed(key) if "@" in id)


@pytest.mark.parametrize("changes", [False, True], ids=["", "keys change"])
def test_a_worker_is_killed_between_any_two_commands(server: RealServer, changes: bool) -> None:
    # Of its own: the file that is read has what other tests put, too.
    name, lives = "killed, changed" if changes else "killed", 0
    key = f"{{{name}:0}}"
    jobs = Queue(server.client, name, keys=3)
    jobs.every("r", 1, seconds=0.001, missed="all")
    before = pushed(server, key)

    def ends(life: int, sends: bool) -> bool:
        # The lease of the one before it has run out.
        wait_until(lambda: pairs(server.client.execute_command("DEHYDRATOR.INFO", f"{key}:schedules"))["due"])
        try:
            serve(Queue(Mortal(server.client, life, sends), jobs.name, keys=3), 30)
        except Killed:
            return False
        return True

    while not (ends(lives, False) and ends(lives, True)):
        if changes:
            jobs.set_keys(3 + lives % 4)
            jobs.forget_keys()
        time.sleep(0.035)
        serve(jobs)
        lives += 1
    assert lives >= 4
    counts = pushed(server, key) - before
    assert set(counts.values()) == {1}
    moments = sorted(moment for _, moment in counts)
    assert moments == list(range(moments[0], moments[-1] + 1))


@pytest.fixture(params=["threads on a server", "asyncio on a cluster"])
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    kind, _, _, at = request.param.split()
    return kind, request.getfixturevalue(at).url


def test_workers_serve_schedules_while_the_keys_change_and_all_are_busy(place: tuple[str, str]) -> None:
    done: list[tuple[str, int]] = []
    late: list[float] = []
    begun, end = threading.Event(), threading.Event()

    def work(job: Job) -> None:
        if job.id == "long":
            begun.set()
            end.wait(240)
            return
        done.append((job.id, job.attempt))
        late.append(time.time() - occurrence(job.id)[1] / 1000)

    with Queue(place[1], "jobs", keys=2) as jobs, running(*place, ["jobs"], work):
        jobs.every("r", 1, seconds=0.05, missed="all")
        jobs.every("s", 1, seconds=0.03, missed="all")
        for count in (4, 1, 3):
            before = len(done)
            wait_until(lambda before=before: len(done) > before + 6)
            jobs.set_keys(count)
        jobs.put(1, id="long")
        assert begun.wait(240)
        before = len(jobs)
        wait_until(lambda: len(jobs) > before + 3)
        end.set()
        for name in "rs":
            jobs.schedules.pause(name)
        wait_until(lambda: len(jobs) == 0)
        wait_until(lambda: jobs.forget_keys() == 0)
    assert {attempt for _, attempt in done} == {1}
    assert all(grid([id for id, _ in done], name, step) for name, step in (("r", 50), ("s", 30)))
    assert min(late) >= 0


def test_schedules_are_left_to_other_workers(server: RealServer, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    place, done = ("threads", server.url), []
    with Queue(server.url, "jobs", keys=2) as jobs:
        jobs.every("r", 1, seconds=0.01)
        with running(*place, ["jobs"], lambda job: done.append(job.id), schedules=False):
            jobs.put(1, id="a")
            wait_until(lambda: done)
        monkeypatch.setattr("dehydrator_queue.rota.has_cron", lambda: False)
        with running(*place, ["jobs"], lambda job: done.append(job.id)):
            jobs.put(1, id="b")
            wait_until(lambda: len(done) > 1)
    assert done == ["a", "b"]
    assert "jobs has schedules, which this worker does not serve" in caplog.text


@pytest.mark.slow
def test_a_full_key_delays_an_occurrence(server: RealServer, caplog: Any) -> None:
    done: list[str] = []
    with Queue(server.url, "jobs", keys=2) as jobs:
        while not server.client.exists("{jobs:0}"):
            jobs.put_many(Item(1, delay=60) for _ in range(3))
        server.client.execute_command("DEHYDRATOR.LIMIT", "{jobs:0}", "LENGTH", 1)
        jobs.every("r", 1, seconds=0.05)
        with running("threads", server.url, ["jobs"], lambda job: done.append(job.id)):
            wait_until(lambda: "FULL" in caplog.text)
            assert not done
            server.client.execute_command("DEHYDRATOR.LIMIT", "{jobs:0}", "LENGTH", 0)
            wait_until(lambda: len(done) > 2)


PROGRAM = """
import sys, redis
from dehydrator_queue import Queue, Worker
jobs, done = Queue(sys.argv[1], "jobs", keys=3, patience=60), redis.Redis(port=int(sys.argv[2]))
def work(job):
    done.rpush("done", f"{job.id} {job.attempt}")
Worker(jobs, work, concurrency=3, lease=2, block=0.5).run()
"""


def fail_over(cluster: Cluster) -> None:
    """Makes the node of the slot and its replica switch roles, which loses no write."""
    old = cluster.owner()
    new = wait_until(lambda: next((node for node in cluster.nodes if cluster.is_replica_of(node, old)), None))
    new.client.execute_command("CLUSTER", "FAILOVER")
    wait_until(lambda: cluster.owner() is new)


def is_other_primary(cluster: Cluster, node: RealServer) -> bool:
    return node is not cluster.owner() and node.client.info("replication")["role"] == "master"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_are_killed_nodes_fail_over_keys_change_and_each_occurrence_is_one_job(
    tmp_path: Path, server: RealServer
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    draw = random.Random(seed)
    cluster = Cluster(tmp_path, "{jobs:0}")

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", PROGRAM, cluster.url, str(server.port)])

    workers = [start() for _ in range(3)]
    try:
        with Queue(cluster.url, "jobs", keys=3, patience=60) as jobs:
            names = [f"r{n}" for n in range(20)]
            for name in names:
                jobs.every(name, 1, seconds=0.5, missed="all")
            for n in range(24):
                before = server.client.llen("done")
                wait_until(lambda before=before: server.client.llen("done") > before + 5)
                time.sleep(draw.uniform(0, 0.5))
                if n % 4 == 3:
                    fail_over(cluster)
                elif n in (10, 18):
                    # To a node without a replica, and back.
                    old = cluster.owner()
                    cluster.move(next(node for node in cluster.nodes if is_other_primary(cluster, node)))
                    cluster.move(old)
                elif n % 4 == 1:
                    jobs.set_keys(draw.choice([2, 3, 4, 5]))
                    jobs.forget_keys()
                at = n % 3
                workers[at].kill()
                workers[at].wait()
                workers[at] = start()
            for name in names:
                jobs.schedules.pause(name)
            wait_until(lambda: len(jobs) == 0)
            assert sum(jobs.schedules.get(name).misses for name in names) == 0
            wait_until(lambda: jobs.forget_keys() == 0)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        # One that is asked before it has begun to listen ends by the signal.
        assert {worker.wait(240) for worker in workers} <= {0, -signal.SIGTERM}
        per_node = [pushed(node) for node in cluster.nodes]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        cluster.close()
    assert {count for counts in per_node for count in counts.values()} == {1}, f"seed {seed}"
    done = [line.decode().split() for line in server.client.lrange("done", 0, -1)]
    ids = {id for id, _ in done}
    print(len(ids), "jobs,", len(done), "runs, nodes put", [len(counts) for counts in per_node])
    # A second element of an occurrence would begin with its first attempt.
    begun = Counter(occurrence(id) for id, attempt in done if attempt == "1")
    assert set(begun.values()) == {1}, f"seed {seed}"
    assert all(grid(ids, name, 500) for name in names), f"seed {seed}"
