"""The server in memory, as the tests of a program use it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta

import pytest
from servers import wait_until

from dehydrator_queue import Backoff, Item, Job, NotFound, Queue, Reject, Worker, aio
from dehydrator_queue.queue.library import ResponseError
from dehydrator_queue.testing import MemoryServer


@pytest.fixture
def memory() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
def jobs(memory: MemoryServer) -> Queue:
    return Queue(memory, "jobs")


def test_a_job_is_done_when_its_time_has_come(memory: MemoryServer, jobs: Queue) -> None:
    done: list[str] = []
    worker = Worker(jobs, lambda job: done.append(job.payload))
    jobs.put("mail", delay=60)
    memory.advance(59.999)
    memory.drain(worker)
    assert done == []
    memory.advance(0.001)
    memory.drain(worker)
    assert done == ["mail"]
    assert len(jobs) == 0


def test_what_fails_is_tried_again_and_ends_as_a_dead_letter(memory: MemoryServer, jobs: Queue) -> None:
    tried: list[int] = []

    def fail(job: Job) -> None:
        tried.append(job.attempt)
        raise OSError("no answer")

    worker = Worker(jobs, fail, attempts=3, backoff=Backoff(first=10, jitter=0))
    jobs.put("mail", id="mail:17")
    memory.drain(worker)
    assert (tried, jobs.look("mail:17").due) == ([1], memory.now + 10)
    memory.advance(10)
    memory.drain(worker)
    memory.advance(timedelta(seconds=20))
    memory.drain(worker)
    assert tried == [1, 2, 3]
    assert [(dead.id, dead.attempts, dead.reason) for dead in jobs.dead_letters()] == [
        ("mail:17", 3, "OSError: no answer")
    ]
    assert jobs.revive() == 1
    memory.drain(Worker(jobs, lambda job: tried.append(job.attempt)))
    assert tried == [1, 2, 3, 1]


def test_a_rejected_element_is_not_called_expired(memory: MemoryServer) -> None:
    ask = memory.execute_command
    ask("DEHYDRATOR.ONDUE", "jobs", "HOLD", "DELIVERIES", 9, "STREAM", "jobs:dead")
    ask("DEHYDRATOR.PUSH", "jobs", 0, "mail", "mail:17", "NX", "WITHIN", 10)
    ask("DEHYDRATOR.POLL", "jobs", "LEASE", 10, "TOKEN", "anna")
    # It is too late, and the pause keeps it there.
    ask("DEHYDRATOR.PAUSE", "jobs")
    memory.advance(1)
    assert ask("DEHYDRATOR.REJECT", "jobs", "anna", "mail:17") == [1]
    ((_, fields),) = ask("XRANGE", "jobs:dead", "-", "+")
    assert b"reason" not in fields


def test_a_lease_expires(memory: MemoryServer, jobs: Queue) -> None:
    jobs.put("mail", id="mail:17")
    take = ("DEHYDRATOR.POLL", "jobs", "LEASE", 30_000, "TOKEN")
    assert memory.execute_command(*take, "anna") == [[b"mail:17", b'"mail"', 1, b"anna"]]
    memory.advance(29)
    assert memory.execute_command(*take, "bert") == []
    memory.advance(1)
    done: list[int] = []
    memory.drain(Worker(jobs, lambda job: done.append(job.attempt)))
    assert done == [2]
    assert memory.execute_command("DEHYDRATOR.SETTLE", "jobs", "anna", "mail:17") == [0]


def test_the_names_are_those_of_the_queue(memory: MemoryServer, jobs: Queue) -> None:
    assert jobs.put_many(Item(n, id=f"n:{n}", delay=n) for n in range(3)) == [(f"n:{n}", "stored") for n in range(3)]
    assert jobs.put(0, id="n:0") is None
    assert jobs.put(5, id="n:0", delay=5, replace=True) == "n:0"
    assert [(one.id, one.payload) for one in jobs] == [("n:1", 1), ("n:2", 2), ("n:0", 5)]
    assert jobs.postpone("n:1", at=memory.now + 9)
    jobs.update("n:2", "two")
    assert jobs.cancel("n:0", "n:7") == 1
    jobs.pause(60)
    assert (len(jobs), jobs.info()["paused"], jobs.resume()) == (2, 1, True)
    jobs.check()
    memory.execute_command("DEHYDRATOR.LIMIT", "jobs", "REMEMBER", 300_000)
    memory.advance(9)
    done: list[object] = []
    memory.drain(Worker(jobs, lambda job: done.append(job.payload)))
    assert done == ["two", 1]
    assert jobs.put(1, id="n:1") is None
    memory.advance(300)
    assert jobs.put(1, id="n:1") == "n:1"
    with pytest.raises(NotFound):
        jobs.update("n:7", 7)


def test_a_worker_of_its_own_thread_is_woken(memory: MemoryServer, jobs: Queue) -> None:
    done: list[str] = []
    worker = Worker(jobs, lambda job: done.append(job.payload), block=60)
    thread = threading.Thread(target=lambda: worker.run(signals=False), daemon=True)
    thread.start()
    jobs.put("now")
    wait_until(lambda: done == ["now"])
    jobs.put("later", delay=3600)
    memory.advance(3600)
    wait_until(lambda: done == ["now", "later"])
    worker.stop()
    jobs.put("it wakes the worker")
    thread.join(240)
    assert not thread.is_alive()


def test_groups_take_turns(memory: MemoryServer, jobs: Queue) -> None:
    done: list[str] = []
    memory.execute_command("DEHYDRATOR.LIMIT", "jobs", "GROUP", "bert", "SHARE", 2)
    jobs.put_many([Item(f"a{n}", delay=1) for n in range(4)], group="anna")
    jobs.put_many([Item(f"b{n}", delay=1) for n in range(4)], group="bert")
    jobs.put("-", delay=1)
    memory.advance(1)
    memory.drain(Worker(jobs, lambda job: done.append(job.payload)))
    assert done == ["a0", "b0", "b1", "-", "a1", "b2", "b3", "a2", "a3"]


def test_groups_have_limits_and_pauses(memory: MemoryServer, jobs: Queue) -> None:
    done: list[str] = []
    worker = Worker(jobs, lambda job: done.append(job.payload))
    memory.execute_command("DEHYDRATOR.LIMIT", "jobs", "EACH", "LENGTH", 2, "HELD", 1)
    for group in ("anna", "bert"):
        jobs.put_many([Item(f"{group}{n}", id=f"{group}{n}") for n in range(3)], group=group)
    jobs.pause(60, group="anna")
    take = ("DEHYDRATOR.POLL", "jobs", "COUNT", 9, "LEASE", 10_000, "TOKEN")
    assert [row[0] for row in memory.execute_command(*take, "1")] == [b"bert0"]
    assert memory.execute_command(*take, "2") == []
    memory.advance(10)
    memory.drain(worker)
    assert done == ["bert0", "bert1"]
    # They are due.
    assert jobs.postpone_all(0, group="anna") == 0
    memory.advance(50)
    memory.drain(worker)
    assert done == ["bert0", "bert1", "anna0", "anna1"]
    jobs.put("later", id="later", delay=5)
    assert (jobs.cancel_all(group="anna"), jobs.cancel_all(prefix="l")) == (0, 1)


def test_groups_have_rates(memory: MemoryServer, jobs: Queue) -> None:
    done: list[str] = []
    worker = Worker(jobs, lambda job: done.append(job.payload))
    limit = ("DEHYDRATOR.LIMIT", "jobs")
    memory.execute_command(*limit, "EACH", "RATE", 2, "PER", 1000)
    memory.execute_command(*limit, "GROUP", "bert", "HELD", 5, "RATE", 1, "PER", 500)
    for group in ("anna", "bert", ""):
        jobs.put_many([Item(f"{group}{n}") for n in range(3)], group=group or None)
    memory.drain(worker)
    assert done == ["anna0", "bert0", "0", "anna1", "1", "2"]
    memory.advance(0.499)
    memory.drain(worker)
    assert done[6:] == []
    memory.advance(0.001)
    memory.drain(worker)
    assert done[6:] == ["bert1"]
    # What was given out counts under a limit that has changed, and after the last element has gone.
    memory.execute_command(*limit, "EACH", "RATE", 3, "PER", 1000)
    memory.drain(worker)
    jobs.put("anna3", group="anna")
    memory.drain(worker)
    assert done[7:] == ["anna2"]
    memory.advance(0.5)
    memory.drain(worker)
    assert done[8:] == ["bert2", "anna3"]
    info = jobs.info(group="bert")
    assert [info[f"{name}-limit"] for name in ("length", "held", "rate")] == [0, 5, 1]
    assert (info["share"], info["rate-per"]) == (1, 500)
    info = jobs.info()
    assert [info[f"each-{name}-limit"] for name in ("length", "held", "rate")] == [0, 0, 3]
    assert info["each-rate-per"] == 1000
    info = jobs.info(group="anna")
    assert (info["rate-limit"], info["rate-per"]) == (3, 1000)
    # Without a rate of its own it has that of each.
    memory.execute_command(*limit, "GROUP", "bert", "RATE", 0)
    info = jobs.info(group="bert")
    assert (info["rate-limit"], info["rate-per"]) == (3, 1000)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("words", "done_at_first"),
    [
        (("LIMIT", "jobs", "RATE", 2, "PER", 1000), 2),
        (("LIMIT", "jobs", "EACH", "RATE", 2, "PER", 1000), 2),
        (("LIMIT", "jobs", "HELD", 1), 0),
        (("PAUSE", "jobs", "FOR", 1000), 0),
    ],
)
def test_a_drain_ends_where_nothing_is_given_out(
    memory: MemoryServer, jobs: Queue, words: tuple[object, ...], done_at_first: int
) -> None:
    done: list[str] = []
    worker = Worker(jobs, lambda job: done.append(job.payload))
    if "HELD" in words:
        # Another worker holds the only job that may be held.
        jobs.put("theirs")
        memory.execute_command("DEHYDRATOR.POLL", "jobs", "LEASE", 1000, "TOKEN", "theirs")
    memory.execute_command(f"DEHYDRATOR.{words[0]}", *words[1:])
    jobs.put_many([Item("a"), Item("b"), Item("c")], group="anna")
    memory.drain(worker)
    assert len(done) == done_at_first
    memory.advance(1)
    memory.drain(worker)
    memory.advance(1)
    memory.drain(worker)
    assert set(done) >= {"a", "b", "c"}


def test_mpoll_with_nothing_due_changes_no_turns(memory: MemoryServer) -> None:
    take = ("DEHYDRATOR.POLL", "jobs", "COUNT", 2, "LEASE", 2, "TOKEN")
    memory.execute_command("DEHYDRATOR.PUSH", "jobs", 0, "", "other 1", "NX")
    memory.execute_command("DEHYDRATOR.MPUSH", "jobs", 0, "", "anna 1", 0, "", "anna 2", "NX", "GROUP", "anna")
    memory.execute_command(*take, "1")
    memory.execute_command("DEHYDRATOR.LIMIT", "jobs", "EACH", "HELD", 1)
    assert memory.execute_command("DEHYDRATOR.MPOLL", 1, "jobs", "LEASE", 2, "TOKEN", "3") is None
    memory.execute_command("DEHYDRATOR.PUSH", "jobs", 0, "", "other 2", "NX")
    memory.advance(1)
    assert [row[0] for row in memory.execute_command(*take, "2")] == [b"other 2", b"anna 1"]


def test_a_dead_letter_comes_back_into_its_group(memory: MemoryServer, jobs: Queue) -> None:
    def reject(job: Job) -> None:
        raise Reject("no")

    jobs.put("mail", group="anna")
    jobs.put("mail")
    memory.drain(Worker(jobs, reject))
    assert jobs.revive() == 2
    assert [jobs.info(group=group)["length"] for group in ("anna", "")] == [1, 1]


def test_two_workers_and_priorities(memory: MemoryServer) -> None:
    high, low = Queue(memory, "high"), Queue(memory, "low")
    low.put("low")
    high.put("high")
    done: list[str] = []
    memory.drain(Worker([high, low], lambda job: done.append(job.payload)))
    assert done == ["high", "low"]


async def test_with_asyncio_it_is_the_same(memory: MemoryServer) -> None:
    jobs, tried = aio.Queue(memory.aio, "jobs"), []

    async def work(job: Job) -> None:
        await asyncio.sleep(0)
        tried.append((job.payload, job.attempt))
        if job.payload == "bad":
            raise Reject("it is bad")
        if job.attempt == 1:
            raise OSError("no answer")

    await jobs.put("mail", delay=60)
    await jobs.put("bad", delay=60)
    worker = aio.Worker(jobs, work, concurrency=2, backoff=Backoff(first=10, jitter=0))
    await memory.aio.drain(worker)
    memory.advance(60)
    await memory.aio.drain(worker)
    memory.advance(10)
    await memory.aio.drain(worker)
    assert tried == [("mail", 1), ("bad", 1), ("mail", 2)]
    assert [dead.reason for dead in await jobs.dead_letters()] == ["it is bad"]


async def test_a_blocked_task_is_woken(memory: MemoryServer) -> None:
    take = ("DEHYDRATOR.POLL", "jobs", "LEASE", 1000, "TOKEN")
    poll = asyncio.create_task(memory.aio.execute_command(*take, "1", "BLOCK", 0))
    await asyncio.sleep(0.01)
    Queue(memory, "jobs").put("mail", delay=60)
    await asyncio.sleep(0.01)
    assert not poll.done()
    memory.advance(60)
    assert [row[1] for row in await asyncio.wait_for(poll, 30)] == [b'"mail"']
    assert await memory.aio.execute_command(*take, "2", "BLOCK", 1) == []


def test_it_needs_no_server_and_says_so_for_what_does() -> None:
    program = "import sys; sys.modules['dehydrator_queue_server'] = None\n"
    program += "from dehydrator_queue.testing import MemoryServer\nfrom dehydrator_queue.testing import server"
    ended = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert "server needs the server: install dehydrator-queue[server]" in ended.stderr


def test_what_it_does_not_know_is_refused(memory: MemoryServer) -> None:
    for words in (
        ("DEHYDRATOR.HELP",),
        ("DEHYDRATOR.ONDUE", "jobs", *["HOLD", "DELIVERIES", "3", "LIST", "l"]),
        ("EVAL", "return 1", 0),
    ):
        with pytest.raises(ResponseError, match="server in memory"):
            memory.execute_command(*words)


def test_schedules_occur_as_time_passes(memory: MemoryServer, jobs: Queue) -> None:
    done: list[str] = []
    worker = Worker(jobs, lambda job: done.append(job.payload))
    jobs.every("tick", "tick", seconds=30, times=3)
    jobs.every("report", "report", cron="0 9 * * 1-5", zone="Europe/Berlin")
    memory.advance(65)
    memory.drain(worker)
    assert done == ["tick", "tick"]
    jobs.schedules.pause("tick")
    memory.advance(60)
    jobs.schedules.resume("tick")
    memory.advance(30)
    # A cron occurs when the test says so.
    assert jobs.schedules.run("report")
    memory.drain(worker)
    assert sorted(done) == ["report", "tick", "tick", "tick"]
    assert {one.name: one.count for one in jobs.schedules} == {"tick": 3, "report": 0}
    assert jobs.schedules.remove("tick")
    assert len(jobs.schedules) == 1
