"""Schedules: on a real server whose clock stands still unless the test sets it, on one that gets each command twice,
and on the server in memory.
"""

from __future__ import annotations

import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from dehydrator_queue.plan import Plan
from dehydrator_queue.schedule import LONGEST_WAIT
from servers import RealServer, StillServer, wait_until
from test_killed import Fleet
from test_worker import both, running
from topologies import Cluster

from dehydrator_queue import Hooks, Job, Queue, Raw, Worker, aio
from dehydrator_queue.library import ResponseError
from dehydrator_queue.queue import beside
from dehydrator_queue.testing import MemoryServer
from dehydrator_queue.verbs import new_token, pairs, poll

#: A Monday.
BEGIN = datetime(2030, 1, 7, tzinfo=timezone.utc)
DAY = 86_400


class Twice:
    """A client that sends each command twice, as after a lost reply, and returns the second reply."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def execute_command(self, *words: Any, **options: Any) -> Any:
        self.client.execute_command(*words, **options)
        return self.client.execute_command(*words, **options)


class World:
    """A server whose clock the test sets, and a queue."""

    def __init__(self, client: Any, advance: Callable[[float], None]) -> None:
        self.client = client
        self.resends = isinstance(client, Twice)
        self.now = BEGIN
        self.jobs = Queue(client, "jobs")
        self._advance = advance

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self._advance(seconds)

    def serve(self, queue: Queue | None = None) -> list[str | None]:
        """Serves the schedules that are due, as workers do; returns the refusals."""
        queue, refusals = queue or self.jobs, []
        while deliveries := queue.server.ask(poll([queue.scheduling.key], 100, 60_000, new_token(), None)):
            refusals += [queue.server.follow(queue.scheduling.serve(one)) for one in deliveries]
        return refusals

    def take(self, queue: Queue | None = None) -> list[Any]:
        """Takes the jobs that are due."""
        queue = queue or self.jobs
        token = new_token()
        all = []
        # A reply has at most so many bytes.
        while taken := queue.server.ask(poll(["jobs"], 10_000, 60_000, token, None)):
            settled = [word for one in taken for word in (token, one.id)]
            queue.server.client.execute_command("DEHYDRATOR.SETTLE", "jobs", *settled)
            all += taken
        return all

    def work(self) -> list[str]:
        """Serves schedules, and returns the ids of the jobs that are due."""
        self.serve()
        return [one.id.decode() for one in self.take()]

    def id(self, name: str, seconds: float) -> str:
        """Returns the id of the job of an occurrence, in seconds after the beginning."""
        return f"{name}@{round((BEGIN.timestamp() + seconds) * 1000)}"


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StillServer]:
    server = StillServer(tmp_path_factory.mktemp("still"), round(BEGIN.timestamp() * 1000))
    yield server
    server.close()


def real_world(still: StillServer, resends: bool) -> World:
    still.client.flushall()
    still.set_clock(round(BEGIN.timestamp() * 1000))
    world = World(Twice(still.client) if resends else still.client, lambda seconds: still.set_clock(now_ms(world)))
    return world


def now_ms(world: World) -> int:
    return round(world.now.timestamp() * 1000)


@pytest.fixture(params=["real", "resending", "memory"])
def world(request: pytest.FixtureRequest) -> World:
    if request.param != "memory":
        return real_world(request.getfixturevalue("still"), request.param == "resending")
    memory = MemoryServer(BEGIN)
    return World(memory, memory.advance)


@pytest.fixture
def real(still: StillServer) -> World:
    return real_world(still, resends=False)


def test_each_occurrence_is_a_job_and_none_is_early(world: World) -> None:
    schedule = world.jobs.every("report", {"of": "anna"}, seconds=60)
    assert (schedule.next, schedule.last, schedule.seconds) == (BEGIN + timedelta(seconds=60), None, 60)
    world.advance(59.999)
    assert world.work() == []
    for n in range(1, 4):
        world.advance(0.001 if n == 1 else 60)
        world.serve()
        [job] = world.take()
        assert (job.id.decode(), job.element) == (world.id("report", 60 * n), b'{"of":"anna"}')
        schedule = world.jobs.schedules.get("report")
        assert (schedule.last, schedule.late, schedule.misses) == (world.now, 0, 0)
        assert schedule.next == world.now + timedelta(seconds=60)
    # A late one comes in the order of its occurrence.
    world.advance(60.25)
    world.serve()
    assert world.jobs.look(world.id("report", 240)).due == world.now.timestamp() - 0.25
    assert world.work() == [world.id("report", 240)]
    assert world.jobs.schedules.get("report").late == 0.25


def test_a_cron_occurs_in_its_zone(world: World) -> None:
    schedule = world.jobs.every("mails", 1, cron=" 0  9 * * mon-FRI ", zone="Europe/Berlin", starting=1_900_000_000)
    berlin = ZoneInfo("Europe/Berlin")
    # The clocks change on the 31st, a Sunday.
    first = datetime(2030, 3, 18, 9, tzinfo=berlin)
    assert (schedule.cron, schedule.zone, schedule.next) == ("0 9 * * mon-FRI", "Europe/Berlin", first)
    days = [datetime(2030, 3, day, 9, tzinfo=berlin) for day in (18, 19, 20, 21, 22, 25, 26, 27, 28, 29)]
    assert schedule.upcoming() == days
    assert schedule.upcoming(11)[10] == datetime(2030, 4, 1, 9, tzinfo=berlin)
    assert schedule.upcoming(1)[0].tzinfo is berlin
    world.advance((first - BEGIN).total_seconds())
    assert world.work() == [f"mails@{round(first.timestamp() * 1000)}"]


def test_a_deployment_says_it_again_and_changes_what_is_different(world: World) -> None:
    def every(payload: str = "a", **terms: Any) -> Any:
        return world.jobs.every("r", payload, **{"seconds": 60, **terms})

    every()
    world.advance(90)
    assert world.work() == [world.id("r", 60)]
    before = world.jobs.schedules.get("r")
    assert every() == before == world.jobs.schedules.get("r")
    # Another payload, or other options of its jobs: it occurs as before.
    changed = every("b", attempts=7)
    assert (changed.next, changed.last, changed.payload, changed.attempts) == (before.next, before.last, "b", 7)
    world.advance(30)
    world.serve()
    [job] = world.take()
    assert (job.id.decode(), job.element) == (world.id("r", 120), b'"b"')
    # Other times: it begins anew, and stays paused.
    world.jobs.schedules.pause("r")
    anew = every("b", seconds=50)
    assert (anew.next, anew.last, anew.paused) == (world.now + timedelta(seconds=50), None, True)
    assert len(world.jobs.schedules) == 1


def test_what_is_due_when_its_options_change_is_put(world: World) -> None:
    world.jobs.every("r", 1, seconds=60)
    world.advance(61)
    world.jobs.every("r", 1, seconds=60, group="anna")
    assert world.work() == [world.id("r", 60)]


def test_a_payload_that_changes_while_a_worker_has_the_schedule_is_put(world: World) -> None:
    world.jobs.every("r", "old", seconds=60)
    world.advance(60)
    for payload in ("new", "newer"):
        [delivery] = world.jobs.server.ask(poll(["jobs:schedules"], 1, 60_000, new_token(), None))
        world.jobs.every("r", payload, seconds=60)
        assert world.jobs.server.follow(world.jobs.scheduling.serve(delivery)) is None
        assert len(world.jobs) == 0
    world.serve()
    assert [(job.id.decode(), job.element) for job in world.take()] == [(world.id("r", 60), b'"newer"')]
    # Another program's UPDATE keeps the lease: the schedule comes again at once.
    world.advance(60)
    [delivery] = world.jobs.server.ask(poll(["jobs:schedules"], 1, 60_000, new_token(), None))
    world.client.execute_command("DEHYDRATOR.UPDATE", "jobs:schedules", "r", delivery.element + b" ")
    world.jobs.server.follow(world.jobs.scheduling.serve(delivery))
    assert (len(world.jobs), world.work()) == (0, [world.id("r", 120)])
    # Removed meanwhile: there is nothing to put.
    world.advance(60)
    [delivery] = world.jobs.server.ask(poll(["jobs:schedules"], 1, 60_000, new_token(), None))
    world.jobs.schedules.remove("r")
    world.jobs.server.follow(world.jobs.scheduling.serve(delivery))
    assert (len(world.jobs), world.work()) == (0, [])


def test_of_two_workers_with_one_schedule_one_puts_the_job(world: World) -> None:
    world.jobs.every("r", 1, seconds=60)
    world.advance(60)
    [stale] = world.jobs.server.ask(poll(["jobs:schedules"], 1, 1000, new_token(), None))
    world.advance(1)
    [held] = world.jobs.server.ask(poll(["jobs:schedules"], 1, 1000, new_token(), None))
    # The stale one changes nothing, neither before nor after the other.
    for delivery, jobs in ((stale, 0), (held, 1), (stale, 1)):
        world.jobs.server.follow(world.jobs.scheduling.serve(delivery))
        assert len(world.jobs) == jobs
    assert world.work() == [world.id("r", 60)]


def test_a_change_does_not_undo_what_a_worker_did_meanwhile(world: World) -> None:
    server, scheduling = world.jobs.server, world.jobs.scheduling
    world.jobs.every("r", 1, seconds=60, missed="all")
    plan = Plan.of(seconds=60, missed="all", attempts=3)
    done = []
    for flow in (scheduling.every("r", 2, plan), scheduling.pause("r"), scheduling.resume("r")):
        world.advance(60)
        read = server.ask(next(flow))
        done += world.work()
        # What it read is no longer there: it reads again.
        stored = server.ask(flow.send(read))
        assert not stored.done
        with pytest.raises(StopIteration):
            question = flow.send(stored)
            while True:
                question = flow.send(server.ask(question))
        done += world.work()
    assert done == [world.id("r", 60), world.id("r", 120)]


@pytest.mark.parametrize("missed", ["one", "all", "none"])
def test_what_was_missed_is_put_as_it_was_asked_for(world: World, missed: str) -> None:
    world.jobs.every("minute", 1, seconds=60, missed=missed)
    world.jobs.every("hour", 1, cron="0 1-23 * * *", missed=missed)
    world.advance(3600 + 61)
    minutes = [world.id("minute", 60 * n) for n in range(1, 62)]
    hour = world.id("hour", 3600)
    expected = {"one": [hour, minutes[-1]], "all": [*minutes, hour], "none": [minutes[-1]]}[missed]
    assert sorted(world.work()) == sorted(expected)
    misses = {"one": (60, 0), "all": (0, 0), "none": (60, 1)}[missed]
    told = [world.jobs.schedules.get(name) for name in ("minute", "hour")]
    assert tuple(one.misses for one in told) == misses
    assert [one.next for one in told] == [BEGIN + timedelta(seconds=3720), BEGIN + timedelta(hours=2)]
    world.advance(59)
    assert world.work() == [world.id("minute", 3720)]


def test_a_backlog_is_put_in_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 100
    monkeypatch.setattr("dehydrator_queue.occurrences.MOST_DUE", most)
    world.jobs.every("second", "x" * 600, seconds=1, missed="all")
    world.jobs.every("large", "x" * 400_000, seconds=1000, missed="all")
    world.jobs.every("cron", 1, cron="* * * * *")
    world.advance(2500)
    world.serve()
    jobs = Counter(job.id.partition(b"@")[0] for job in world.take())
    assert jobs == {b"second": 2500, b"large": 2, b"cron": 1}
    world.jobs.schedules.remove("second")
    world.advance(2 * most * 60)
    assert len([id for id in world.work() if id.startswith("cron")]) == 1
    cron = world.jobs.schedules.get("cron")
    assert (cron.misses, cron.late) == (41 + 2 * most - 1, 40)


def test_it_ends_after_its_times_or_at_its_end_and_stays_ended(world: World) -> None:
    end = BEGIN + timedelta(seconds=180)

    def deploy() -> list[Any]:
        times = world.jobs.every("times", 1, seconds=60, times=3, missed="all")
        return [times, world.jobs.every("until", 1, seconds=60, until=end)]

    assert [len(one.upcoming(9)) for one in deploy()] == [3, 3]
    world.advance(120)
    world.work()
    assert [one.upcoming(9) for one in deploy()] == [[end], [end]]
    world.advance(240)
    assert world.work() == [world.id("times", 180), world.id("until", 180)]
    for _ in range(2):
        for one in deploy():
            assert (one.ended, one.next, one.upcoming(), one.last) == (True, None, [], end)
        world.advance(2 * LONGEST_WAIT / 1000)
        assert world.work() == []
    # Other times: it begins anew.
    again = world.jobs.every("times", 1, seconds=60, times=4, missed="all")
    assert (again.ended, again.next, again.count) == (False, world.now + timedelta(seconds=60), 0)
    world.advance(60)
    assert len(world.work()) == 1
    # Fewer times than there were: it ends.
    assert world.jobs.every("times", 1, seconds=60, times=1, missed="all").ended
    with pytest.raises(ValueError, match="never occurs"):
        world.jobs.every("until", 1, seconds=30, until=end)
    with pytest.raises(ValueError, match="never occurs"):
        world.jobs.every("new", 1, cron="0 0 * * *", until=end)


def test_it_ends_with_the_years(world: World) -> None:
    schedule = world.jobs.every("r", 1, seconds=7000 * 365 * DAY, starting=BEGIN, until=1e15)
    assert len(schedule.upcoming()) == 2
    assert schedule.until.year == 9999


def test_it_does_not_occur_before_its_start_and_keeps_to_its_grid(world: World) -> None:
    hour = BEGIN + timedelta(hours=1)
    assert world.jobs.every("later", 1, seconds=60, starting=hour).next == hour
    past = BEGIN - timedelta(seconds=90)
    assert world.jobs.every("past", 1, seconds=60, starting=past).next == BEGIN + timedelta(seconds=30)
    assert world.jobs.every("now", 1, seconds=60, starting=BEGIN).next == BEGIN
    assert world.jobs.every("cron", 1, cron="0 0 * * *", starting=BEGIN).next == BEGIN
    world.advance(47)
    # A late one does not move the grid.
    assert world.work() == [world.id("now", 0), world.id("cron", 0), world.id("past", 30)]
    assert world.jobs.schedules.get("past").next == BEGIN + timedelta(seconds=90)


def test_a_paused_schedule_skips_what_is_due(world: World) -> None:
    world.jobs.every("r", 1, seconds=60, missed="all", times=3)
    assert world.jobs.schedules.pause("r")
    assert not world.jobs.schedules.pause("s")
    for _ in range(2):
        world.advance(150)
        assert world.work() == []
    schedule = world.jobs.schedules.get("r")
    assert (schedule.paused, schedule.misses, schedule.count, schedule.last) == (True, 0, 0, None)
    # A pause during which there was no worker.
    world.advance(150)
    assert world.jobs.schedules.resume("r")
    assert not world.jobs.schedules.resume("s")
    assert world.work() == []
    world.advance(30)
    assert world.work() == [world.id("r", 480)]
    # What is due before the pause begins, and is put after it has ended, is skipped.
    world.advance(60)
    world.jobs.schedules.pause("r")
    world.jobs.schedules.resume("r")
    assert world.work() == []
    assert world.jobs.schedules.get("r").paused is False


def test_a_pause_holds_while_a_worker_has_the_schedule(world: World) -> None:
    world.jobs.every("r", 1, seconds=60)
    world.advance(60)
    [delivery] = world.jobs.server.ask(poll(["jobs:schedules"], 1, 60_000, new_token(), None))
    world.jobs.schedules.pause("r")
    world.jobs.server.follow(world.jobs.scheduling.serve(delivery))
    assert (len(world.jobs), world.work()) == (0, [])


def test_it_is_run_now_with_the_options_of_its_jobs(world: World) -> None:
    terms: dict[str, Any] = {"attempts": 9, "within": timedelta(minutes=1), "group": "änna"}
    before = world.jobs.every("r", "x", seconds=60, **terms)
    world.jobs.schedules.pause("r")
    assert world.jobs.schedules.run("s") is None
    id = world.jobs.schedules.run("r")
    assert id == world.id("r", 0)
    assert world.jobs.schedules.get("r").next == before.next
    world.jobs.schedules.resume("r")
    world.advance(60)
    world.serve()
    # The first expires, because nobody took it within a minute. The server drops it a moment later.
    wait_until(lambda: len(world.jobs) == 1)
    told = pairs(world.client.execute_command("DEHYDRATOR.LOOK", "jobs", world.id("r", 60), "FULL"))
    assert (told["deliveries-limit"], told["until"], told["group"]) == (9, told["deadline"] + 60_000, "änna".encode())
    assert told["deadline"] == now_ms(world)
    assert (before.attempts, before.within, before.group) == (9, 60, "änna")


def test_schedules_are_listed_and_removed(world: World) -> None:
    schedules = world.jobs.schedules
    assert (list(schedules), len(schedules), schedules.get("r"), bool(schedules)) == ([], 0, None, True)
    for n in (3, 1, 2):
        world.jobs.every(f"n{n}", n, seconds=n)
    assert [(one.name, one.payload) for one in schedules] == [("n1", 1), ("n2", 2), ("n3", 3)]
    assert schedules.remove("n2") is not world.resends
    assert not schedules.remove("n2")
    assert [one.name for one in schedules] == ["n1", "n3"]
    world.advance(3)
    assert sorted(world.work()) == [world.id("n1", 3), world.id("n3", 3)]


def test_names_and_payloads_may_be_any_bytes(world: World) -> None:
    jobs = Queue(world.client, "jobs", codec=Raw())
    name, payload = b"\xff\x00\n@ name", b'\n{"next":1}\n\x00\xfe'
    schedule = jobs.every(name, payload, seconds=1, group=b"\xff\n")
    assert (schedule.payload, schedule.group) == (payload, "\udcff\n")
    assert jobs.every(schedule.name, payload, seconds=1, group=b"\xff\n") == schedule
    world.advance(1)
    world.serve(jobs)
    [job] = world.take(jobs)
    assert (job.id, job.element) == (b"%b@%d" % (name, now_ms(world)), payload)
    assert jobs.schedules.pause(name)
    assert jobs.schedules.get(name).paused
    assert [one.name for one in jobs.schedules] == [schedule.name]
    with pytest.raises(ValueError, match="name of a schedule"):
        jobs.every("", payload, seconds=1)


def test_a_full_queue_loses_nothing(world: World) -> None:
    world.jobs.every("r", 1, seconds=60, missed="all")
    world.client.execute_command("DEHYDRATOR.LIMIT", "jobs", "LENGTH", 3)
    world.advance(600)
    refusals, done = [], []
    for _ in range(9):
        refusals += world.serve()
        assert len(world.jobs) <= 3
        if len(done) == 3:
            # It is full, and stays so: nothing is pushed beside, and nothing is undone too much.
            world.advance(1)
            refusals += world.serve()
            assert len(world.jobs) == 3
        done += [one.id.decode() for one in world.take()]
        world.advance(1)
    assert done == [world.id("r", 60 * n) for n in range(1, 11)]
    assert any("FULL" in (refusal or "") for refusal in refusals)
    assert world.jobs.schedules.get("r").misses == 0


def test_jobs_that_were_done_do_not_come_again_after_a_refusal(world: World) -> None:
    """NX alone would put them twice: their ids are free again."""
    world.jobs.every("r", 1, seconds=60, missed="all")
    world.client.execute_command("DEHYDRATOR.LIMIT", "jobs", "LENGTH", 1)
    world.advance(180)
    [delivery] = world.jobs.server.ask(poll(["jobs:schedules"], 1, 60_000, new_token(), None))
    flow = world.jobs.scheduling.serve(delivery)
    clock = world.jobs.server.ask(next(flow))
    refused = world.jobs.server.ask(flow.send(clock))
    # A job of each occurrence was refused, and nothing is in the queue.
    assert (refused.done, len(world.jobs)) == (False, 0)
    assert refused.fits == 1
    done: list[str] = []
    for _ in range(9):
        done += world.work()
        world.advance(30)
    assert Counter(done) == {world.id("r", 60 * n): 1 for n in range(1, len(done) + 1)}


def test_a_server_without_memory_loses_nothing(real: World) -> None:
    real.jobs.every("r", 1, seconds=60)
    real.advance(60)
    real.client.config_set("maxmemory", 1)
    try:
        [refusal] = real.serve()
        assert "OOM" in refusal
        assert len(real.jobs) == 0
    finally:
        real.client.config_set("maxmemory", 0)
    assert real.work() == []
    real.advance(1)
    assert real.work() == [real.id("r", 60)]


def test_a_queue_of_another_type_loses_nothing(world: World) -> None:
    if isinstance(world.client, MemoryServer):
        pytest.skip("it has no other types but streams")
    world.jobs.every("r", 1, seconds=60)
    world.client.execute_command("SET", "jobs", "text")
    world.advance(60)
    assert "WRONGTYPE" in world.serve()[0]
    world.client.execute_command("SET", "other", "text")
    world.client.execute_command("UNLINK", "jobs")
    world.advance(1)
    assert world.work() == [world.id("r", 60)]


def test_a_long_wait_is_divided(world: World) -> None:
    schedule = world.jobs.every("year", 1, cron="0 0 1 1 *")
    assert schedule.next == datetime(2031, 1, 1, tzinfo=timezone.utc)

    def deadline() -> int:
        return pairs(world.client.execute_command("DEHYDRATOR.LOOK", "jobs:schedules", "year", "FULL"))["deadline"]

    for _ in range(11):
        assert deadline() == now_ms(world) + LONGEST_WAIT
        world.advance(LONGEST_WAIT / 1000)
        assert world.work() == []
    assert deadline() == round(schedule.next.timestamp() * 1000)
    world.advance((schedule.next - world.now).total_seconds())
    assert world.work() == [f"year@{now_ms(world)}"]


def test_the_operator_may_allow_short_delays_only(real: World) -> None:
    hour = 3_600_000
    real.client.config_set("dehydrator.max-ttl", hour)
    try:
        schedule = real.jobs.every("week", 1, seconds=7 * DAY)
        done = []
        while not done:
            told = pairs(real.client.execute_command("DEHYDRATOR.LOOK", "jobs:schedules", "week", "FULL"))
            assert now_ms(real) < told["deadline"] <= now_ms(real) + hour
            real.advance((told["deadline"] - now_ms(real)) / 1000)
            done = real.work()
        assert done == [real.id("week", 7 * DAY)]
        assert now_ms(real) == round(schedule.next.timestamp() * 1000)
    finally:
        real.client.config_set("dehydrator.max-ttl", 0)


def test_a_clock_that_steps_back_repeats_nothing(real: World) -> None:
    real.jobs.every("minute", 1, seconds=60)
    real.jobs.every("hour", 1, cron="0 * * * *")
    done: list[str] = []
    for seconds in (3600, 1, -3600, 1800, 1800, 60, -30, 30, 60):
        real.advance(seconds)
        done += real.work()
    assert max(Counter(done).values()) == 1
    assert done == [real.id("hour", 3600), real.id("minute", 3600), real.id("minute", 3660), real.id("minute", 3720)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "either a `cron` or `seconds`"),
        ({"seconds": 1, "cron": "* * * * *"}, "either a `cron` or `seconds`"),
        ({"seconds": 0}, "at least a millisecond"),
        ({"seconds": 1, "zone": "Europe/Berlin"}, "only a `cron` has a `zone`"),
        ({"cron": "* * * *"}, "five fields"),
        ({"cron": "* * * * 8"}, "Bad day-of-week"),
        ({"cron": "* * * * *", "zone": "Berlin"}, "no time zone"),
        ({"seconds": 1, "missed": "some"}, "'one', 'all' or 'none'"),
        ({"seconds": 1, "times": 0}, "`times`"),
        ({"seconds": 1, "until": 1_000_000_000}, "never occurs"),
        ({"seconds": 1, "starting": datetime(2030, 1, 1)}, "time zone"),
        ({"seconds": 1, "times": 1.5}, "`times`"),
        ({"seconds": 1e12}, "never occurs"),
        ({"seconds": 1, "starting": 1e12}, "never occurs"),
        ({"cron": "* * * * *", "starting": 1e12}, "never occurs"),
        ({"seconds": 1, "attempts": 0}, "`attempts`"),
        ({"seconds": 1, "within": 0}, "`within`"),
        ({"seconds": 1, "group": "a" * 1025}, "group"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(wrong: dict[str, Any], said: str) -> None:
    jobs = Queue(MemoryServer(BEGIN), "jobs")
    with pytest.raises(ValueError, match=re.escape(said)):
        jobs.every("r", 1, **wrong)
    assert len(jobs.schedules) == 0


def test_without_a_worker_that_could_put_it_a_full_server_refuses_a_schedule(real: World) -> None:
    real.client.config_set("dehydrator.max-elements", 1)
    try:
        real.jobs.every("r", 1, seconds=60)
        with pytest.raises(ResponseError, match="FULL"):
            real.jobs.every("s", 1, seconds=60)
    finally:
        real.client.config_set("dehydrator.max-elements", 0)


def test_an_idle_schedule_takes_at_most_200_bytes(server: RealServer) -> None:
    jobs = Queue(server.url, "jobs")
    payload, names = {"report": "daily", "to": "anna@example.org"}, [f"report:{n:05}" for n in range(10_000)]
    first = jobs.every(names[0], payload, cron="30 9 * * 1-5", zone="America/Argentina/Buenos_Aires", attempts=10)
    element = server.client.execute_command("DEHYDRATOR.LOOK", "jobs:schedules", names[0])
    state, rest = element.split(b"\n", 1)
    with server.client.pipeline() as pipeline:
        for n, name in enumerate(names):
            next_ = round(first.next.timestamp() * 1000) + n
            one = b'{"next":%d,"last":%d,"late":17}\n' % (next_, next_ - DAY * 1000) + rest
            pipeline.execute_command("DEHYDRATOR.PUSH", "jobs:schedules", 0, one, name, "REPLACE", "AT", next_)
        pipeline.execute()
    memory = pairs(server.client.execute_command("DEHYDRATOR.INFO", "jobs:schedules", "FULL"))["memory"]
    own = len(names[0]) + len(jobs.verbs.encode(payload))
    print(state, memory / 10_000 - own)
    assert memory / 10_000 - own <= 200


def test_on_a_cluster_schedules_are_in_the_slot_of_their_queue() -> None:
    class AnyCluster:
        pass

    assert beside("jobs", AnyCluster(), "schedules") == "{jobs}:schedules"
    assert beside("{mail}:low", AnyCluster(), "schedules") == "{mail}:low:schedules"
    assert beside("jobs", redis.Redis(), "schedules") == "jobs:schedules"


@pytest.mark.slow
@both
def test_a_cluster_serves_schedules(tmp_path: Path, kind: str) -> None:
    cluster = Cluster(tmp_path, "{jobs}")
    try:
        with Queue(cluster.url, "jobs") as jobs:
            jobs.every("r", 1, seconds=0.1)
            done: list[str] = []
            with running(kind, cluster.url, lambda job: done.append(job.id)):
                wait_until(lambda: len(done) > 5)
            assert jobs.schedules.get("r").paused is False
            assert jobs.schedules.pause("r")
            assert [one.name for one in jobs.schedules] == ["r"]
            assert len(set(done)) == len(done)
    finally:
        cluster.close()


# Workers.


@both
def test_workers_serve_schedules(server: RealServer, kind: str) -> None:
    jobs, done = Queue(server.url, "jobs"), []
    first = jobs.every("r", 1, seconds=0.05, missed="all")
    with running(kind, server.url, lambda job: done.append((job.id, time.time())), concurrency=2):
        wait_until(lambda: len(done) > 10)
    begin = round(first.next.timestamp() * 1000)
    assert sorted(id for id, _ in done) == [f"r@{begin + n * 50}" for n in range(len(done))]
    late = [at - int(id.partition("@")[2]) / 1000 for id, at in done]
    assert min(late) >= 0


@both
def test_a_worker_whose_threads_are_busy_serves_schedules(server: RealServer, kind: str) -> None:
    jobs, begun, end = Queue(server.url, "jobs"), threading.Event(), threading.Event()

    def work(job: Job) -> None:
        begun.set()
        end.wait(240)

    jobs.put("long")
    with running(kind, server.url, work):
        assert begun.wait(240)
        jobs.every("r", 1, seconds=0.1, missed="all")
        wait_until(lambda: len(jobs) >= 4)
        end.set()


@both
def test_a_schedule_of_each_millisecond_does_not_keep_jobs_waiting(server: RealServer, kind: str) -> None:
    jobs, done = Queue(server.url, "jobs"), set()
    jobs.every("r", 1, seconds=0.001)
    jobs.every("s", 1, seconds=0.001, missed="all")
    with running(kind, server.url, lambda job: done.add(job.id)):
        for n in range(20):
            jobs.put(n, id=f"n:{n}", at=1)
        wait_until(lambda: {f"n:{n}" for n in range(20)} <= done)


@both
def test_schedules_are_left_to_other_workers(server: RealServer, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, done = Queue(server.url, "jobs"), []
    jobs.every("r", 1, seconds=0.001)
    with running(kind, server.url, lambda job: done.append(job.id), schedules=False):
        jobs.put(1, id="a")
        wait_until(lambda: done)
    monkeypatch.setattr("dehydrator_queue.rota.has_cron", lambda: False)
    monkeypatch.setattr("dehydrator_queue.occurrences.has_cron", lambda: False)
    with running(kind, server.url, lambda job: done.append(job.id)):
        jobs.put(1, id="b")
        wait_until(lambda: "b" in done)
    assert done == ["a", "b"]
    with pytest.raises(ImportError, match=r"dehydrator-queue\[cron\]"):
        Worker(jobs, done.append, schedules=True)


@both
def test_a_worker_without_the_library_says_once_that_schedules_are_not_served(
    server: RealServer, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jobs, done = Queue(server.url, "jobs"), []

    def warnings_of_a_worker(**options: Any) -> list[str]:
        caplog.clear()
        before = len(done)
        jobs.put(1)
        with running(kind, server.url, lambda job: done.append(job.id), **options):
            wait_until(lambda: len(done) > before)
        return [record.getMessage() for record in caplog.records if record.levelname != "INFO"]

    jobs.every("r", 1, seconds=3600)
    assert warnings_of_a_worker() == []
    monkeypatch.setattr("dehydrator_queue.rota.has_cron", lambda: False)
    warning = "jobs has schedules, which this worker does not serve: install dehydrator-queue[cron]"
    assert warnings_of_a_worker() == [warning]
    assert warnings_of_a_worker(schedules=False) == []
    jobs.schedules.remove("r")
    assert warnings_of_a_worker() == []
    server.client.set("jobs:schedules", "of another type")
    assert warnings_of_a_worker() == []


@both
def test_a_schedule_that_cannot_be_read_stops_no_other(server: RealServer, kind: str) -> None:
    jobs, done, errors = Queue(server.url, "jobs"), [], []

    class Watch(Hooks):
        def crashed(self, error: BaseException) -> None:
            errors.append(type(error))

        def refused(self, queue: str, schedule: str, reason: str) -> None:
            errors.append((queue, schedule, reason.partition(" ")[0]))

    for name, element in (("a", b"nonsense"), ("b", b'{"next":1}\n{"moon":"full"}\n1')):
        server.client.execute_command("DEHYDRATOR.PUSH", "jobs:schedules", 0, element, name)
    jobs.every("r", 1, seconds=0.05)
    with running(kind, server.url, lambda job: done.append(job.id), hooks=Watch()):
        wait_until(lambda: len(done) > 2)
        assert errors == [ValueError, TypeError]
        jobs.put("the last one", delay=60)
        server.client.execute_command("DEHYDRATOR.LIMIT", "jobs", "LENGTH", 1)
        wait_until(lambda: ("jobs", "r", "FULL") in errors)
    # They are kept for a worker that can.
    assert len(jobs.schedules) == 3


async def test_the_twin_for_asyncio_has_the_same(server: RealServer) -> None:
    async with aio.Queue(server.url, "jobs") as jobs:
        schedule = await jobs.every("r", {"a": 1}, cron="0 9 * * *", zone="Asia/Tokyo")
        assert schedule == Queue(server.url, "jobs").schedules.get("r") == await jobs.schedules.get("r")
        assert await jobs.schedules.pause("r")
        assert [one.paused async for one in jobs.schedules] == [True]
        assert await jobs.schedules.resume("r")
        assert re.fullmatch(r"r@\d{13}", await jobs.schedules.run("r"))
        assert (await jobs.length(), await jobs.schedules.length()) == (1, 1)
        assert await jobs.schedules.remove("r")
        assert await jobs.schedules.run("r") is None


def test_the_server_in_memory_drains_schedules() -> None:
    memory, done = MemoryServer(BEGIN), []
    jobs = Queue(memory, "jobs")
    jobs.every("r", 1, cron="0 9 * * *", missed="all")
    worker = Worker(jobs, lambda job: done.append(job.id))
    memory.drain(worker)
    memory.advance(3 * DAY)
    memory.drain(worker)
    assert len(done) == 3


async def test_the_server_in_memory_drains_schedules_of_asyncio() -> None:
    memory, done = MemoryServer(BEGIN), []
    jobs = aio.Queue(memory.aio, "jobs")
    await jobs.every("r", 1, cron="0 9 * * *")

    async def work(job: Job) -> None:
        done.append(job.id)

    memory.advance(3 * DAY)
    await memory.aio.drain(aio.Worker(jobs, work))
    assert len(done) == 1


# Workers and a server that are killed.


def pushed(server: RealServer) -> Counter[str]:
    """Returns how often each job was put."""
    return Counter(server.pushed("jobs"))


@pytest.mark.parametrize(
    ("schedules", "workers", "kills"),
    [(30, 2, 3), pytest.param(200, 5, 100, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_workers_and_the_server_are_killed_and_each_occurrence_is_one_job(
    own_server: RealServer, schedules: int, workers: int, kills: int
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    draw = random.Random(seed)
    jobs = Queue(own_server.url, "jobs", patience=30)
    # Thirty jobs a second, whatever their number.
    intervals = {f"r{n}": round(draw.uniform(0.5, 2) * schedules / 30, 3) for n in range(schedules)}
    first = {
        name: jobs.every(name, {}, seconds=interval, missed="all", starting=time.time() + draw.random())
        for name, interval in intervals.items()
    }
    sizes = {"sync": workers - workers // 2, "asyncio": workers // 2}
    fleets = [Fleet(own_server.url, kind, size) for kind, size in sizes.items()]
    try:
        for n in range(kills):
            # A worker takes a while to start.
            before = own_server.client.llen("done")
            wait_until(lambda before=before: own_server.client.llen("done") > before)
            time.sleep(draw.uniform(0, 0.5))
            if n % 3 == 1:
                own_server.restart()
            else:
                draw.choice(fleets).kill_one()
        for name in intervals:
            jobs.schedules.pause(name)
        # Those that were killed left nothing behind.
        wait_until(lambda: len(jobs) == 0)
    finally:
        codes = [code for fleet in fleets for code in fleet.stop()]
    assert set(codes) <= {0, -signal.SIGTERM}
    counts = pushed(own_server)
    print(len(counts), "jobs,", sum(fleet.killed for fleet in fleets), "workers killed")
    assert set(counts.values()) == {1}, f"seed {seed}"
    for name, schedule in first.items():
        moments = sorted(int(id.partition("@")[2]) for id in counts if id.startswith(f"{name}@"))
        begin, step = round(schedule.next.timestamp() * 1000), round(intervals[name] * 1000)
        assert moments == [begin + n * step for n in range(len(moments))], f"seed {seed}, {name}"
        # Up to the pause, none is left out.
        now = jobs.schedules.get(name)
        assert now.misses == 0
        assert now.last is None or round(now.last.timestamp() * 1000) == moments[-1]
    done = [line.decode().split() for line in own_server.client.lrange("done", 0, -1)]
    assert {id for id, _, _ in done} == set(counts)
    assert all(float(at) >= int(id.partition("@")[2]) / 1000 for id, _, at in done)
    assert jobs.dead_letters() == []
