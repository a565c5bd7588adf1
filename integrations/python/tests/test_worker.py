from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
import redis
from address import Address
from prometheus_client import CollectorRegistry
from servers import RealServer, wait_until
from workers import Run, both, running

from dehydrator_queue import Backoff, Hooks, Item, Job, ModuleMissing, Queue, Reject, Retry, Worker
from dehydrator_queue.aio import Queue as AsyncQueue
from dehydrator_queue.aio import Worker as AsyncWorker
from dehydrator_queue.prometheus import PrometheusHooks
from dehydrator_queue.queue.commands import pairs


async def nothing(job: Job) -> None:
    pass


def work_of(kind: str) -> Any:
    return print if kind == "threads" else nothing


def test_what_is_due_is_worked_on_once(jobs: Queue, run: Run) -> None:
    done = []
    jobs.put_many(Item(n, str(n)) for n in range(200))
    with run(lambda job: done.append((job.id, job.payload, job.attempt)), concurrency=20):
        wait_until(lambda: len(jobs) == 0)
    assert sorted(done) == sorted((str(n), n, 1) for n in range(200))


def test_nothing_is_early(jobs: Queue, run: Run) -> None:
    late = []
    now = time.time()
    with run(lambda job: late.append(time.time() - job.payload), concurrency=5):
        for n in range(20):
            jobs.put(now + n / 10, at=now + n / 10)
        wait_until(lambda: len(late) == 20)
    assert min(late) >= 0


def test_what_fails_is_tried_again_and_then_a_dead_letter_with_the_reason(jobs: Queue, run: Run) -> None:
    attempts = []

    def work(job: Job) -> None:
        attempts.append(job.attempt)
        raise ValueError("no such mailbox")

    jobs.put("anna", id="a")
    with run(work, attempts=3):
        letter = wait_until(jobs.dead_letters)[0]
    assert attempts == [1, 2, 3]
    assert (letter.id, letter.element, letter.attempts) == ("a", b'"anna"', 3)
    assert letter.reason == "ValueError: no such mailbox"
    assert len(jobs) == 0


def test_a_dead_letter_comes_back_into_its_group(jobs: Queue, run: Run) -> None:

    def work(job: Job) -> None:
        raise ValueError("no such mailbox")

    jobs.put("mail", id="a", group="anna")
    jobs.put("mail", id="b")
    with run(work, attempts=2):
        wait_until(lambda: len(jobs.dead_letters()) == 2)
    assert jobs.revive() == 2
    assert [jobs.info(group=group)["length"] for group in ("anna", "")] == [1, 1]


def test_work_may_reject_a_job_or_say_when_to_try_again(server: RealServer, jobs: Queue, run: Run) -> None:
    seen = []

    def work(job: Job) -> None:
        seen.append((job.id, job.attempt, time.monotonic()))
        if job.id == "rejected":
            raise Reject("gone")
        if job.attempt == 1:
            raise Retry(0.5)

    jobs.put_many([Item(1, "rejected"), Item(2, "again")])
    with run(work):
        wait_until(lambda: len(jobs) == 0)
    assert [(letter.id, letter.reason, letter.attempts) for letter in jobs.dead_letters()] == [("rejected", "gone", 1)]
    first, second = (at for id, _, at in seen if id == "again")
    # The server counts whole milliseconds: its clock may show the one before.
    assert second - first >= 0.499


def test_a_payload_that_cannot_be_decoded_is_a_dead_letter_and_work_goes_on(
    server: RealServer, jobs: Queue, run: Run
) -> None:
    done = []
    for element, id in ((b"{not json", "bad"), (b"\xff\xfe\xfd", "worse"), (b'"good"', "good")):
        server.client.execute_command("DEHYDRATOR.PUSH", "jobs", 0, element, id)
    with run(lambda job: done.append(job.payload)):
        wait_until(lambda: len(jobs) == 0)
    assert done == ["good"]
    letters = {letter.id: letter for letter in jobs.dead_letters()}
    assert set(letters) == {"bad", "worse"}
    assert letters["bad"].reason.startswith("it cannot be decoded: JSONDecodeError")
    assert letters["worse"].element == b"\xff\xfe\xfd"


def test_work_may_take_longer_than_its_lease(jobs: Queue, run: Run) -> None:
    attempts = []

    def work(job: Job) -> None:
        attempts.append(job.attempt)
        time.sleep(9)

    jobs.put(1)
    with run(work, lease=6, concurrency=3):
        wait_until(lambda: len(jobs) == 0)
    assert attempts == [1]


def test_a_job_that_is_cancelled_meanwhile_is_told(jobs: Queue, run: Run) -> None:
    began, lost = threading.Event(), []

    class Watch(Hooks):
        def lost(self, job: Job) -> None:
            lost.append(job.id)

    def work(job: Job) -> None:
        began.set()
        assert job.lost.wait(240)

    jobs.put(1, id="a")
    with run(work, lease=3, hooks=Watch()):
        assert began.wait(240)
        assert jobs.cancel("a") == 1
        wait_until(lambda: lost)
    assert lost == ["a"]
    assert jobs.dead_letters() == []


def test_what_comes_after_a_stop_is_given_back_and_counts_nothing(server: RealServer, jobs: Queue, run: Run) -> None:
    done = []

    def asleep() -> bool:
        return server.client.info("clients")["blocked_clients"] == 1

    # It would be the last attempt.
    with run(lambda job: done.append(job.id), attempts=1, block=10) as worker:
        wait_until(asleep)
        worker.stop()
        jobs.put(1, id="a")
        wait_until(lambda: not asleep())
    waiting = jobs.look("a")
    assert (waiting.leased, waiting.attempts, done) == (False, 0, [])
    with run(lambda job: done.append(job.attempt), attempts=1):
        wait_until(lambda: len(jobs) == 0)
    assert done == [1]


def test_attempts_belong_to_the_job(jobs: Queue, run: Run) -> None:
    tried = Counter()

    def work(job: Job) -> None:
        tried[job.id] += 1
        raise RuntimeError(f"no {job.attempt}")

    jobs.put(1, id="ten", attempts=10)
    jobs.put(1, id="once", attempts=1)
    jobs.put(1, id="as the worker says")
    jobs.put_many([Item(1, "four"), Item(1, "four more")], attempts=4)
    with run(work, attempts=3, backoff=Backoff(first=0.01, most=0.01), concurrency=2):
        wait_until(lambda: len(jobs) == 0)
    assert tried == {"ten": 10, "once": 1, "as the worker says": 3, "four": 4, "four more": 4}
    letters = {letter.id: (letter.attempts, letter.reason) for letter in jobs.dead_letters()}
    assert letters == {id: (count, f"RuntimeError: no {count}") for id, count in tried.items()}


def test_a_stop_that_cuts_work_off_knows_the_attempts_of_the_job(jobs: Queue, run: Run) -> None:
    begun = Counter()

    def work(job: Job) -> None:
        begun[job.id] += 1
        job.lost.wait(240)

    jobs.put(1, id="twice", attempts=2)
    jobs.put(1, id="once", attempts=1)
    for count in (2, 4, 6):
        with run(work, concurrency=2) as worker:
            wait_until(lambda count=count: begun.total() == count)
            worker.stop(0)
    assert begun == {"twice": 3, "once": 3}
    assert [jobs.look(id).attempts for id in begun] == [0, 0]


def test_a_retry_keeps_its_group(server: RealServer, jobs: Queue, run: Run) -> None:
    groups = []

    def work(job: Job) -> None:
        groups.append(pairs(server.client.execute_command("DEHYDRATOR.LOOK", "jobs", job.id, "FULL"))["group"])
        if job.attempt < 3:
            raise Retry(0.01) if job.attempt == 1 else OSError("no answer")

    jobs.put(1, group="anna")
    with run(work):
        wait_until(lambda: len(jobs) == 0)
    assert groups == [b"anna"] * 3


def test_a_job_that_is_too_late_is_not_begun(jobs: Queue, run: Run) -> None:
    done = []
    jobs.put(1, id="late", within=0.05)
    wait_until(lambda: len(jobs) == 0)
    assert jobs.dead_letters() == []
    with run(lambda job: done.append(job.id)):
        # The worker has made the rule for dead letters.
        wait_until(lambda: jobs.info()["policy"]["deliveries"] > 0)
        jobs.pause()
        jobs.put(1, id="late", delay=0.01, within=timedelta(milliseconds=50))
        jobs.put_many([Item(1, "in time")], within=60)
        time.sleep(0.2)
        jobs.resume()
        wait_until(lambda: done and len(jobs) == 0)
    assert done == ["in time"]
    assert [(letter.id, letter.attempts, letter.reason) for letter in jobs.dead_letters()] == [("late", 0, "expired")]
    assert jobs.revive() == 1
    with run(lambda job: done.append(job.id)):
        wait_until(lambda: len(jobs) == 0)
    assert done == ["in time", "late"]


class Raises(Hooks):
    """Raises in one of the hooks, and in `crashed`."""

    def __init__(self, name: str) -> None:
        self.raised, self.crashes = 0, 0

        def raises(*_: Any) -> None:
            self.raised += 1
            raise RuntimeError(name)

        setattr(self, name, raises)

    def crashed(self, error: BaseException) -> None:
        self.crashes += 1
        raise error


@pytest.mark.parametrize("name", ["started", "succeeded", "retried", "buried", "lost", "interrupted", "crashed"])
def test_a_hook_that_raises_is_outlived(server: RealServer, jobs: Queue, run: Run, name: str) -> None:
    hooks, begun, lost, done = Raises(name), threading.Event(), [], []

    def work(job: Job) -> None:
        if job.id == "cancelled":
            begun.set()
            assert job.lost.wait(240)
            lost.append(job.id)
        elif job.id == "fails" and job.attempt == 1:
            raise RuntimeError("once")
        elif job.id == "rejected":
            raise Reject("no")
        elif job.id == "long":
            time.sleep(3.5)
        done.append((job.id, job.attempt))

    jobs.put_many(Item(0, id) for id in ("cancelled", "well", "fails", "rejected"))
    with run(work, concurrency=4, lease=3, hooks=hooks):
        assert begun.wait(240)
        wait_until(lambda: len(jobs) == 1)
        server.client.client_kill_filter(_type="normal", skipme=True)
        jobs.cancel("cancelled")
        wait_until(lambda: lost)
        # Leases are renewed as before.
        jobs.put(0, id="long")
        wait_until(lambda: len(jobs) == 0)
    assert {("well", 1), ("fails", 2), ("long", 1)} <= set(done)
    assert len(done) == 4
    if name != "crashed":
        assert hooks.raised >= 1
        assert hooks.crashes >= hooks.raised


def test_a_stop_lets_what_is_in_hand_end(jobs: Queue, run: Run) -> None:
    began, done = threading.Event(), []

    def work(job: Job) -> None:
        began.set()
        time.sleep(3)
        done.append(job.id)

    jobs.put_many([Item(1, "a"), Item(2, "b")])
    with run(work) as worker:
        assert began.wait(240)
        worker.stop()
    assert done == ["a"]
    assert [waiting.id for waiting in jobs] == ["b"]


def test_queues_are_served_in_their_order(server: RealServer, run: Run) -> None:
    high, low, done = Queue(server.url, "high"), Queue(server.url, "low"), []
    low.put_many(Item(n) for n in range(5))
    high.put_many(Item(n) for n in range(5))
    with run(lambda job: done.append(job.queue), names=["high", "low"]):
        wait_until(lambda: len(high) == 0 and len(low) == 0)
    assert done == ["high"] * 5 + ["low"] * 5


@both
def test_a_worker_goes_on_when_its_connections_are_cut_and_the_server_restarts(
    own_server: RealServer, kind: str
) -> None:
    jobs, done = Queue(own_server.url, "jobs"), []
    jobs.put_many(Item(n, str(n), n / 100) for n in range(300))
    with running(kind, own_server.url, lambda job: done.append(job.id), concurrency=5, lease=30):
        for _ in range(5):
            time.sleep(0.2)
            own_server.client.client_kill_filter(_type="normal", skipme=True)
        wait_until(lambda: len(done) > 100)
        own_server.restart()
        wait_until(lambda: len(jobs) == 0)
    # A cut may come between the end of the work and its SETTLE, but SETTLE is sent again.
    assert sorted(map(int, done)) == list(range(300))


@pytest.mark.slow
@both
def test_long_work_with_a_short_lease_is_done_once_when_its_connections_fall_silent(
    server: RealServer, kind: str
) -> None:
    address, begun, done = Address(server), threading.Event(), []
    jobs = Queue(server.url, "jobs")
    jobs.put("x")

    def work(job: Job) -> None:
        begun.set()
        time.sleep(9)
        done.append(job.attempt)
        # The lease is renewed on one connection, and the job settled on the next.
        address.fall_silent()

    try:
        with running(kind, address.url, work, lease=6):
            assert begun.wait(240)
            address.fall_silent()
            with running(kind, server.url, lambda job: done.append(job.attempt), lease=6):
                wait_until(lambda: len(jobs) == 0)
    finally:
        address.close()
    assert done == [1]


@both
def test_a_server_without_the_module_ends_the_worker(bare_server: RealServer, kind: str) -> None:
    with pytest.raises(ModuleMissing):
        if kind == "threads":
            Worker(Queue(bare_server.url, "jobs"), print).run()
        else:
            asyncio.run(AsyncWorker(AsyncQueue(bare_server.url, "jobs"), asyncio.sleep).run())


@both
def test_a_key_of_another_type_ends_the_worker(server: RealServer, kind: str) -> None:
    server.client.lpush("jobs", 1)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        if kind == "threads":
            Worker(Queue(server.url, "jobs"), print).run()
        else:
            asyncio.run(AsyncWorker(AsyncQueue(server.url, "jobs"), asyncio.sleep).run())


def test_a_client_with_a_short_timeout_loses_nothing(server: RealServer) -> None:
    jobs, done = Queue(redis.Redis(port=server.port, socket_timeout=0.4), "jobs"), []
    worker = Worker(jobs, lambda job: done.append(job.attempt), block=10, lease=30)
    thread = threading.Thread(target=worker.run)
    thread.start()
    for n in range(10):
        jobs.put(n, delay=n * 0.15)
    wait_until(lambda: len(jobs) == 0)
    worker.stop()
    thread.join()
    assert done == [1] * 10


def test_prometheus_counts(server: RealServer) -> None:
    registry = CollectorRegistry()
    jobs = Queue(server.url, "jobs")

    def work(job: Job) -> None:
        if job.payload == "fails" and job.attempt == 1:
            raise RuntimeError("once")
        if job.payload == "dies":
            raise Reject("dies")

    jobs.put_many([Item("well"), Item("fails"), Item("dies")])
    with running("threads", server.url, work, hooks=PrometheusHooks(registry)):
        wait_until(lambda: len(jobs) == 0)

    def count(outcome: str) -> float | None:
        return registry.get_sample_value("dehydrator_worker_jobs_total", {"queue": "jobs", "outcome": outcome})

    wait_until(lambda: (count("succeeded"), count("retried"), count("buried")) == (2, 1, 1))


@pytest.mark.parametrize(
    "others",
    [
        "redis://127.0.0.1:{port}/1",
        "redis://127.0.0.1:1",
        "redis+cluster://127.0.0.1:1",
        "redis+sentinel://127.0.0.1/m",
    ],
)
@both
def test_queues_of_two_databases_are_refused(server: RealServer, kind: str, others: str) -> None:
    queue, worker = (Queue, Worker) if kind == "threads" else (AsyncQueue, AsyncWorker)
    one = queue(server.url, "a")
    with pytest.raises(ValueError, match="one worker serves one database of one server, and a and b are in two"):
        worker([one, queue(others.format(port=server.port), "b")], work_of(kind))
    # Another name for the same server.
    worker([one, queue(server.url.replace("127.0.0.1", "localhost") + "/0", "b")], work_of(kind))
    worker([queue(others.format(port=1), name) for name in "ab"], work_of(kind))


@both
def test_queues_of_the_other_kind_are_refused(server: RealServer, kind: str) -> None:
    queue, worker = (AsyncQueue, Worker) if kind == "threads" else (Queue, AsyncWorker)
    for queues in (queue(server.url, "a"), [queue(server.url, "a")]):
        with pytest.raises(TypeError, match=r"a worker serves dehydrator_queue\.(aio\.)?Queue, not"):
            worker(queues, work_of(kind))


@both
def test_a_worker_runs_again_after_a_stop_but_not_twice_at_once(server: RealServer, jobs: Queue, kind: str) -> None:
    done = []
    with running(kind, server.url, lambda job: done.append(job.payload)) as worker:
        jobs.put(1)
        wait_until(lambda: done == [1])
        with pytest.raises(RuntimeError, match="the worker is running"):
            worker.run() if kind == "threads" else asyncio.run(worker.run())
    again = threading.Thread(target=lambda: worker.run() if kind == "threads" else asyncio.run(worker.run()))
    again.start()
    jobs.put(2)
    wait_until(lambda: done == [1, 2])
    worker.stop()
    again.join(240)
    assert not again.is_alive()


def test_a_stop_has_a_deadline_and_gives_back_what_is_not_done_by_then(jobs: Queue, run: Run) -> None:
    begun, lost = [], []

    class Watch(Hooks):
        def lost(self, job: Job) -> None:
            lost.append(job.id)

    def work(job: Job) -> None:
        begun.append(job.id)
        job.lost.wait(240)

    def long(**terms: Any) -> float:
        """Returns how long a stop took."""
        begun.clear()
        with run(work, hooks=Watch(), **terms) as worker:
            wait_until(lambda: begun)
            stop = time.monotonic()
            worker.stop(None if "stop_timeout" in terms else 0.7)
        return time.monotonic() - stop

    jobs.put(1, id="a")
    assert 0.7 <= long() < 60
    waiting = jobs.look("a")
    cut_off = "the worker stopped before the work ended"
    assert (waiting.leased, waiting.attempts, waiting.reason) == (False, 0, cut_off)
    assert 0.7 <= long(attempts=1, stop_timeout=0.7) < 60
    assert (jobs.look("a").attempts, list(jobs.dead_letters())) == (0, [])
    assert lost == ["a", "a"]


def test_a_process_ends_although_work_goes_on_that_a_stop_cut_off(server: RealServer) -> None:
    program = """
import sys, time, threading, dehydrator_queue
jobs = dehydrator_queue.Queue(sys.argv[1], "jobs")
worker = dehydrator_queue.Worker(jobs, lambda job: (worker.stop(0.1), time.sleep(600)), block=0.2)
jobs.put(1, id="a")
worker.run()
"""
    subprocess.run([sys.executable, "-c", program, server.url], check=True, timeout=240)
    assert not Queue(server.url, "jobs").look("a").leased


@pytest.mark.parametrize(
    ("there", "asked", "said"),
    [
        (3, 5, ["queue jobs has attempts=3 in the server; this worker asks for 5"]),
        (None, 5, ["queue jobs has attempts=None in the server; this worker asks for 5"]),
        *((there, asked, []) for there, asked in ((3, 3), (3, "queue"), (3, None), ("no policy", 5))),
    ],
)
def test_a_worker_tells_that_the_queue_has_another_policy(
    jobs: Queue, run: Run, caplog: pytest.LogCaptureFixture, there: Any, asked: Any, said: list[str]
) -> None:
    if there != "no policy":
        jobs.set_policy(attempts=there)
    done = threading.Event()
    jobs.put(1)
    with run(lambda job: done.set(), attempts=asked):
        assert done.wait(60)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == said


@pytest.mark.parametrize(("error", "has_traceback"), [(Retry, False), (Reject, False), (ValueError, True)])
def test_what_the_work_asks_for_is_logged_in_one_line(
    jobs: Queue, run: Run, caplog: pytest.LogCaptureFixture, error: type[Exception], has_traceback: bool
) -> None:
    def work(job: Job) -> None:
        if job.attempt == 1:
            raise error(0)

    jobs.put(1)
    with run(work):
        wait_until(lambda: len(jobs) == 0)
    (record,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert bool(record.exc_info) == has_traceback
    if record.exc_info:
        # Without what called the work.
        assert "/dehydrator_queue/" not in "".join(traceback.format_exception(*record.exc_info))


def test_the_fewer_attempts_count_of_a_worker_and_of_the_policy(
    jobs: Queue, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    def work(job: Job) -> None:
        raise Retry(0)

    for there, asked in ((2, 5), (5, 2)):
        jobs.set_policy(attempts=there)
        jobs.put(1)
        with run(work, attempts=asked):
            (letter,) = wait_until(jobs.dead_letters)
        assert letter.attempts == 2
        assert jobs.drop(letter) == 1
    assert sum("is a dead letter" in record.getMessage() for record in caplog.records) == 2


def test_work_that_takes_too_long_keeps_its_place_if_asked(jobs: Queue, run: Run) -> None:
    running, most, attempts = set(), [], []

    def work(job: Job) -> None:
        running.add(job.token)
        most.append(len(running))
        attempts.append(job.attempt)
        if job.attempt == 1:
            # Goes on long beyond its time and its lease.
            assert job.lost.wait(60)
            time.sleep(1.5)
        running.discard(job.token)

    jobs.limit(each_held=1)
    for _ in range(2):
        jobs.put(1, group="anna")
    with run(work, timeout=0.1, keep_place=True, lease=0.5, concurrency=3):
        wait_until(lambda: len(jobs) == 0)
    assert max(most) == 1
    assert sorted(attempts) == [1, 1, 2, 2]


def test_a_timeout_that_cannot_be_told_is_a_failure(jobs: Queue, run: Run) -> None:
    jobs.put(1)
    with run(print, timeout=lambda job: "5", attempts=1):
        (letter,) = wait_until(jobs.dead_letters)
    assert "`timeout` is a number of seconds" in letter.reason


def test_work_may_say_in_a_timedelta_when_to_try_again() -> None:
    assert Retry(timedelta(minutes=1)).delay == 60


def test_the_backoff_doubles_and_has_a_jitter() -> None:
    waits = [Backoff(first=1, most=100, jitter=0).after(n) for n in range(1, 10)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 100, 100]
    spread = {Backoff(jitter=0.5).after(3) for _ in range(50)}
    assert len(spread) > 10
    assert all(2 <= wait <= 4 for wait in spread)
    assert Backoff(most=50).after(60_000) <= 50
