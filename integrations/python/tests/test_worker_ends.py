"""How a worker and its jobs end: signals, cancelled and endless jobs, work that is no work, and a full server."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from servers import RealServer, wait_until
from topologies import Cluster
from workers import QUICK, Run, both, running

from dehydrator_queue import Hooks, Item, Job, Queue, Reject, Retry, Worker, aio
from dehydrator_queue.aio.cancellations import tell
from dehydrator_queue.queue.library import key_slot


def until_lost(seconds: float = 60) -> Callable[[Job], None]:
    def work(job: Job) -> None:
        job.lost.wait(seconds)

    return work


@both
def test_a_job_that_takes_too_long_is_tried_again_and_another_takes_its_place(
    server: RealServer, jobs: Queue, kind: str
) -> None:
    begun = []

    def work(job: Job) -> None:
        begun.append((job.payload, job.attempt))
        if job.payload == "long":
            time.sleep(3600) if kind == "threads" and job.attempt == 2 else job.lost.wait(60)

    with running(kind, server.url, work, timeout=0.3, attempts=2, stop_timeout=0.1):
        jobs.put("long")
        wait_until(jobs.dead_letters)
        jobs.put("short")
        wait_until(lambda: len(jobs) == 0)
    assert begun == [("long", 1), ("long", 2), ("short", 1)]
    assert [letter.reason for letter in jobs.dead_letters()] == ["TookTooLong: it did not end within 0.3 s"]


def test_each_job_may_have_a_time_of_its_own(jobs: Queue, run: Run) -> None:
    with run(until_lost(2), timeout=lambda job: job.payload, attempts=1):
        jobs.put(0.2)
        jobs.put(None)
        wait_until(lambda: len(jobs) == 0)
    assert [letter.payload for letter in jobs.dead_letters()] == [0.2]


class Cancelling(Hooks):
    """A queue, one of whose jobs is cancelled while it runs. `nodes`: of the server."""

    def __init__(self, url: str, nodes: list[RealServer], keys: int | None = None) -> None:
        self._jobs, self._nodes = Queue(url, "jobs", keys=keys), nodes
        self._begun, self._lost = threading.Event(), threading.Event()
        # That of an earlier worker ends a moment after it.
        wait_until(lambda: self.channels() == 0)

    def lost(self, job: Job) -> None:
        self._lost.set()

    def work(self, job: Job) -> None:
        self._begun.set()
        job.lost.wait(60)

    def channels(self) -> int:
        """Counts the subscriptions of workers."""
        asked = [(what, "__cancelled@*") for what in ("CHANNELS", "SHARDCHANNELS")]
        return sum(len(node.client.execute_command("PUBSUB", *words)) for node in self._nodes for words in asked)

    def cancel(self) -> float:
        """Returns how long it took to tell, in seconds."""
        self._begun.clear()
        self._lost.clear()
        self._jobs.put(1, id="a")
        assert self._begun.wait(60)
        began = time.monotonic()
        self._jobs.cancel("a")
        assert self._lost.wait(60)
        return time.monotonic() - began


#: Many seconds less than until the next renewal, after 20 s.
SOON = 5


@both
@pytest.mark.parametrize("keys", [None, 3])
@pytest.mark.parametrize("at", ["server", "sentinels", "cluster"])
def test_a_cancelled_job_is_told_at_once(request: pytest.FixtureRequest, at: str, keys: int | None, kind: str) -> None:
    there = request.getfixturevalue(at)
    cancelling = Cancelling(there.url, getattr(there, "nodes", [there]), keys)
    with running(kind, there.url, cancelling.work, keys=keys, hooks=cancelling):
        wait_until(lambda: cancelling.channels() == (keys or 1))
        assert cancelling.cancel() < SOON


@both
@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_it_is_told_when_the_slot_has_moved_and_when_connections_were_reset(
    cluster: Cluster, library: str, kind: str
) -> None:
    cluster.slot, url = key_slot(b"jobs"), cluster.url.replace("redis", library)
    cancelling = Cancelling(url, cluster.nodes)
    with running(kind, url, cancelling.work, hooks=cancelling):
        wait_until(lambda: cancelling.channels() == 1)
        old = cluster.owner()
        cluster.move(target := next(node for node in cluster.nodes if node is not old))
        wait_until(lambda: target.client.execute_command("PUBSUB", "SHARDCHANNELS"))
        assert cancelling.cancel() < SOON
        target.client.execute_command("CLIENT", "KILL", "TYPE", "PUBSUB")
        wait_until(lambda: cancelling.channels() == 1)
        assert cancelling.cancel() < SOON
    cluster.move(old)


async def test_it_ends_although_the_library_loses_a_cancellation() -> None:
    # As asyncio.wait_for does before Python 3.12.
    lost, reading = [], asyncio.Event()

    class Connection:
        async def nothing(self, *words: Any, **options: Any) -> None: ...

        connect = send_command = disconnect = nothing

        async def read_response(self, **options: Any) -> None:
            reading.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError as error:
                if len(lost) == 2:
                    raise
                lost.append(error)

    pool = SimpleNamespace(connection_class=Connection, connection_kwargs={})
    telling = asyncio.create_task(tell(SimpleNamespace(connection_pool=pool), lambda: ["jobs"], print))
    await reading.wait()
    telling.cancel()
    assert await asyncio.wait({telling}, timeout=30) == ({telling}, set())
    assert len(lost) == 2


@both
@pytest.mark.parametrize("at", ["server", "cluster"])
def test_a_worker_that_may_not_subscribe_does_without(request: pytest.FixtureRequest, at: str, kind: str) -> None:
    there = request.getfixturevalue(at)
    nodes = getattr(there, "nodes", [there])
    # No scripts, no streams, no channels.
    rights = ("~{jobs}*", "~jobs*", "resetchannels", "+@all", "-@scripting", "-@stream", "-subscribe", "-ssubscribe")
    for node in nodes:
        node.client.execute_command("ACL", "SETUSER", "narrow", "on", ">x", *rights)
    done: list[str] = []
    try:
        url = there.url.replace("://", "://narrow:x@")

        def work(job: Job) -> None:
            done.append(job.id)
            if job.payload == "bad":
                raise Reject("no")

        with running(kind, url, work):
            Queue(url, "jobs").put(1, id="a")
            Queue(url, "jobs").put("bad", id="b")
            wait_until(lambda: len(Queue(url, "jobs")) == 0)
    finally:
        for node in nodes:
            node.client.acl_deluser("narrow")
    assert sorted(done) == ["a", "b"]
    assert [letter.reason for letter in Queue(there.url, "jobs").dead_letters()] == ["no"]


@both
def test_work_of_the_other_kind_is_refused(server: RealServer, kind: str) -> None:
    async def coroutine(job: Job) -> None: ...

    class Callable:
        async def __call__(self, job: Job) -> None: ...

    if kind == "threads":
        for work in (coroutine, Callable()):
            with pytest.raises(TypeError, match=r"use dehydrator_queue\.aio\.Worker"):
                Worker(Queue(server.url, "jobs"), work)
    else:
        with pytest.raises(TypeError, match="async def"):
            aio.Worker(aio.Queue(server.url, "jobs"), lambda job: None)
        aio.Worker(aio.Queue(server.url, "jobs"), Callable())


def test_two_queues_of_one_name_are_refused(server: RealServer) -> None:
    with pytest.raises(ValueError, match="two queues of one worker have one name"):
        Worker([Queue(server.url, "jobs"), Queue(server.url, "jobs", keys=1)], print)


def test_a_client_of_one_connection_is_refused(server: RealServer) -> None:
    client = redis.Redis(port=server.port, max_connections=1)
    with pytest.raises(ValueError, match="two connections"):
        Worker(Queue(client, "jobs"), print)


def test_what_cannot_be_shown_is_a_reason_all_the_same(
    server: RealServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The report of a test cannot have its tracebacks.
    monkeypatch.setattr(logging.getLogger("dehydrator_queue"), "disabled", True)

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def work(job: Job) -> None:
        raise {"text": ValueError("\ud800"), "none": Unspeakable(), "reject": Reject("\udfff" * 2000)}[job.payload]

    jobs = Queue(server.url, "jobs")
    with run(work, attempts=1):
        for payload in ("text", "none", "reject"):
            jobs.put(payload)
        wait_until(lambda: len(jobs.dead_letters()) == 3)
    reasons = {letter.payload: letter.reason for letter in jobs.dead_letters()}
    assert reasons["text"] == "ValueError: \\ud800"
    assert reasons["none"] == "Unspeakable: its text raises RuntimeError"
    assert len(reasons["reject"]) == 4096


def test_a_retry_in_a_million_years_does_not_hold_the_job(jobs: Queue, run: Run) -> None:

    def work(job: Job) -> None:
        raise Retry(10**18, "much later")

    with run(work):
        jobs.put(1, id="a")
        wait_until(lambda: (told := jobs.look("a")) and told.reason == "much later")
    assert not jobs.look("a").leased


def test_a_worker_takes_the_policy_of_the_queue(server: RealServer, jobs: Queue, run: Run) -> None:
    tried = []
    server.client.execute_command("DEHYDRATOR.ONDUE", "jobs", "HOLD", "DELIVERIES", 7, "STREAM", "elsewhere")

    def work(job: Job) -> None:
        tried.append(job.attempt)
        raise OSError("no answer")

    with run(work, backoff=QUICK):
        jobs.put(1)
        wait_until(lambda: server.client.xlen("elsewhere"))
    assert tried == [1, 2, 3, 4, 5, 6, 7]
    assert jobs.info()["policy"]["dest"] == b"elsewhere"


@both
def test_a_worker_starts_on_a_full_server(own_server: RealServer, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dehydrator_queue.worker.base.POLICY_AGAIN", 0.2)
    jobs, told, done = Queue(own_server.url, "jobs"), [], []

    class Watch(Hooks):
        def interrupted(self, error: Exception) -> None:
            told.append(error)

    jobs.put(1)
    own_server.client.config_set("maxmemory", 1)
    with running(kind, own_server.url, lambda job: done.append(job.payload), hooks=Watch(), lease=1):
        wait_until(lambda: done == [1])
        own_server.client.config_set("maxmemory", 0)
        wait_until(lambda: jobs.info()["policy"]["deliveries"] == 5)
    assert "OOM" in repr(told[0]) or "QueueFull" in repr(told[0])


PROGRAM = """
import asyncio, os, sys, time
from dehydrator_queue import Queue, Worker, aio
kind, url, what = sys.argv[1:]

def work(job):
    print("begun", flush=True)
    if what == "fork":
        if os.fork() == 0:
            sys.exit(3)
        return
    while True:
        time.sleep(0.05) if what == "hang" else job.lost.wait(0.05)
        if what != "hang" and job.lost.is_set():
            return

async def coroutine(job):
    print("begun", flush=True)
    if what == "fork":
        if os.fork() == 0:
            sys.exit(3)
        return
    while True:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            if what != "hang":
                raise

if kind == "threads":
    Worker(Queue(url, "jobs"), work, block=0.5).run()
else:
    asyncio.run(aio.Worker(aio.Queue(url, "jobs"), coroutine, block=0.5).run())
print("ended", flush=True)
"""


def start(server: RealServer, kind: str, what: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PROGRAM, kind, server.url, what]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    Queue(server.url, "jobs").put(1, id="a")
    assert process.stdout.readline() == "begun\n"
    return process


@both
def test_the_second_signal_interrupts_the_work(server: RealServer, kind: str) -> None:
    process = start(server, kind, "wait")
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0] == "ended\n"
    assert not Queue(server.url, "jobs").look("a").leased


@both
def test_the_third_signal_ends_the_process(server: RealServer, kind: str) -> None:
    process = start(server, kind, "hang")
    # The commands of the second are never answered.
    server.client.client_pause(6000, all=True)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    server.client.client_unpause()


@pytest.mark.timeout(120)
def test_any_number_of_signals_at_once_is_one_stop(server: RealServer) -> None:
    for _ in range(5):
        worker = Worker(Queue(server.url, "jobs"), print, block=0.1)

        def send(worker: Worker = worker) -> None:
            wait_until(lambda: worker._one.locked())
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)

        sender = threading.Thread(target=send)
        sender.start()
        worker.run()
        sender.join()


@both
def test_a_forked_child_is_no_worker(server: RealServer, kind: str) -> None:
    process = start(server, kind, "fork")
    wait_until(lambda: len(Queue(server.url, "jobs")) == 0)

    def children() -> list[str]:
        listed = subprocess.run(["ps", "-o", "stat=", "--ppid", str(process.pid)], capture_output=True, text=True)
        return listed.stdout.split()

    # Nobody waits for it, so it stays as a zombie.
    wait_until(lambda: all(stat.startswith("Z") for stat in children()), 60)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0] == "ended\n"


async def test_a_cancelled_run_gives_its_jobs_back_and_leaves_nothing_running(server: RealServer) -> None:
    jobs, begun = aio.Queue(server.url, "jobs"), asyncio.Event()

    async def work(job: Job) -> None:
        begun.set()
        await asyncio.sleep(3600)

    await jobs.put(1, id="a")
    before = asyncio.all_tasks()
    run = asyncio.create_task(aio.Worker(jobs, work).run(signals=False))
    await begun.wait()
    run.cancel()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 30)
    assert not (await jobs.look("a")).leased
    await asyncio.sleep(0.1)
    assert asyncio.all_tasks() == before
    await jobs.close()


def test_a_failure_is_logged_with_its_traceback(server: RealServer, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dehydrator_queue")

    def work(job: Job) -> None:
        raise OSError("no answer")

    with run(work, attempts=2):
        Queue(server.url, "jobs").put(1, id="a")
        wait_until(Queue(server.url, "jobs").dead_letters)
    assert caplog.text.count("raise OSError") == 2
    assert "a is a dead letter: OSError: no answer" in caplog.text
    assert "a worker begins" in caplog.text
    assert "the worker has ended" in caplog.text


@both
def test_the_log_says_why_a_job_was_lost(
    server: RealServer, jobs: Queue, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dehydrator_queue")
    begun, printed, tokens = [], {}, {}

    def work(job: Job) -> None:
        begun.append(str(job.lost))
        tokens[job.id] = job.token
        job.lost.wait(60)
        printed[job.id] = str(job.lost)

    def lines() -> list[tuple[str, str]]:
        told = [(record.levelname, record.getMessage().partition(" was lost: ")) for record in caplog.records]
        return [(level, why) for level, (_, found, why) in told if found]

    heard = ("PUBSUB", "CHANNELS", "__cancelled@*")
    # That of an earlier worker ends a moment after it.
    wait_until(lambda: not server.client.execute_command(*heard))
    with running(kind, server.url, work, lease=9, concurrency=3) as worker:
        jobs.put_many(Item(1, id) for id in ("cancelled", "elsewhere", "stopped"))
        wait_until(lambda: len(begun) == 3 and server.client.execute_command(*heard))
        jobs.cancel("cancelled")
        wait_until(lambda: len(lines()) == 1)
        # As if another worker had it by now, and had ended it.
        server.client.execute_command("DEHYDRATOR.SETTLE", "jobs", tokens["elsewhere"], "elsewhere")
        wait_until(lambda: len(lines()) == 2)
        worker.stop(0)
    assert lines() == [
        ("INFO", "cancelled"),
        ("WARNING", "its lease is over"),
        ("WARNING", "the worker stopped: given back, uncounted"),
    ]
    assert set(begun) == {"<Lost: False>"}
    wait_until(lambda: len(printed) == 3)
    assert (printed["cancelled"], printed["elsewhere"]) == ("<Lost: cancelled>", "<Lost: its lease is over>")
    assert printed["stopped"].startswith("<Lost: the worker stopped")
