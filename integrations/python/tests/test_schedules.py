"""Schedules, which the server keeps: what a queue says of them, and that nothing is lost."""

from __future__ import annotations

import json
import random
import re
import time
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from servers import RealServer, wait_until
from workers import Fleet, Run, programs

from dehydrator_queue import Queue, aio


def test_a_schedule_is_what_it_was_told(jobs: Queue) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    before = datetime.now(timezone.utc)
    one = jobs.every("report", {"to": "anna"}, cron="0  9 * * 1-5", zone="Europe/Berlin", overlap="skip", jitter=5)
    assert (one.name, one.payload, one.cron, one.zone) == ("report", {"to": "anna"}, "0 9 * * 1-5", "Europe/Berlin")
    assert (one.seconds, one.missed, one.overlap, one.jitter) == (None, "one", "skip", 5.0)
    assert one.next.tzinfo == berlin
    assert (one.next.hour, one.next.weekday() < 5, one.next > before) == (9, True, True)
    assert (one.last, one.late, one.misses, one.count, one.paused, one.ended) == (None, 0.0, 0, 0, False, False)
    end = before + timedelta(days=30)
    options: dict[str, Any] = {"times": 14, "group": "anna", "attempts": 3, "within": 60, "missed": "all"}
    two = jobs.every("reminder", 18, seconds=0.5, starting=before, until=end, **options)
    assert (two.seconds, two.cron, two.zone) == (0.5, None, "UTC")
    assert {name: getattr(two, name) for name in options} == {**options, "within": 60.0}
    assert abs(two.starting - before) + abs(two.until - end) < timedelta(milliseconds=4)
    assert [one.name for one in jobs.schedules] == ["reminder", "report"]
    assert len(jobs.schedules) == 2


def test_a_deployment_says_it_again_and_changes_what_is_different(jobs: Queue) -> None:
    first = jobs.every("r", 1, seconds=3600)
    assert jobs.every("r", 1, seconds=3600) == first
    # Another payload, but not another moment.
    other = jobs.every("r", 2, seconds=3600)
    assert (other.payload, other.next) == (2, first.next)
    assert jobs.every("r", 2, seconds=7200).next > first.next


def test_occurrences_are_jobs(server: RealServer, jobs: Queue) -> None:
    jobs.every("r", {"n": 1}, seconds=0.05, times=3, group="anna", attempts=7)
    wait_until(lambda: len(jobs) == 3)
    assert all(re.fullmatch(r"r@\d{13}", one.id) and one.payload == {"n": 1} for one in jobs)
    told = server.client.execute_command("DEHYDRATOR.LOOK", "jobs", next(iter(jobs)).id, "FULL")
    assert (told[told.index(b"group") + 1], told[told.index(b"deliveries-limit") + 1]) == (b"anna", 7)
    schedule = jobs.schedules.get("r")
    assert (schedule.ended, schedule.count, schedule.misses) == (True, 3, 0)


def test_schedules_are_steered(jobs: Queue) -> None:
    jobs.every("r", "x", seconds=3600, group="anna")
    assert (jobs.schedules.pause("r"), jobs.schedules.pause("none")) == (True, False)
    assert jobs.schedules.get("r").paused
    assert (jobs.schedules.resume("r"), jobs.schedules.resume("r"), jobs.schedules.resume("none")) == (
        True,
        False,
        False,
    )
    id = jobs.schedules.run("r")
    assert (jobs.look(id).payload, jobs.info(group="anna")["length"]) == ("x", 1)
    assert jobs.schedules.run("none") is None
    assert (jobs.schedules.remove("r"), jobs.schedules.remove("r"), jobs.schedules.get("r")) == (True, False, None)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cron": "0 9 * *"}, "five fields"),
        ({"cron": "0 9 * * *", "zone": "Berlin"}, "unknown ZONE 'Berlin'"),
        ({"cron": "0 0 31 2 *"}, "never occurs"),
    ],
)
def test_a_cron_that_makes_no_sense_is_refused_in_words(server: RealServer, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Queue(server.url, "jobs").every("r", 1, **wrong)


def test_a_schedule_of_a_queue_with_keys_is_in_its_first_key(server: RealServer) -> None:
    jobs = Queue(server.url, "jobs", keys=3)
    jobs.every("r", 1, seconds=0.05, times=3, missed="all")
    wait_until(lambda: len(jobs) == 3)
    ids = [one.id for one in jobs]
    assert server.client.execute_command("DEHYDRATOR.LEN", "{jobs:0}") == 3
    # They are found by their ids as others.
    assert all(jobs.look(id).payload == 1 for id in ids)
    assert jobs.put(2, id=ids[0]) is None
    assert jobs.cancel(*ids) == 3


def test_workers_do_what_schedules_put(server: RealServer, run: Run) -> None:
    done: list[str] = []
    jobs = Queue(server.url, "jobs")
    with run(lambda job: done.append(job.id)):
        jobs.every("r", 1, seconds=0.1, missed="all")
        wait_until(lambda: len(done) >= 10)
    moments = sorted(int(id.partition("@")[2]) for id in done)
    assert moments == list(range(moments[0], moments[-1] + 1, 100))


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


# Workers and a server that are killed.


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
    fleets = [Fleet(programs(own_server.url, kind), size) for kind, size in sizes.items()]
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
        for fleet in fleets:
            fleet.stop()
    done = [json.loads(line) for line in own_server.client.lrange("done", 0, -1)]
    ids = {id for id, _, _ in done}
    print(len(ids), "occurrences,", sum(len(fleet.killed) for fleet in fleets), "workers killed")
    for name, schedule in first.items():
        moments = sorted(int(id.partition("@")[2]) for id in ids if id.startswith(f"{name}@"))
        begin, step = round(schedule.next.timestamp() * 1000), round(intervals[name] * 1000)
        # Up to the pause, none is left out.
        assert moments == [begin + n * step for n in range(len(moments))], f"seed {seed}, {name}"
        now = jobs.schedules.get(name)
        assert (now.misses, now.count) == (0, len(moments))
    assert all(at >= int(id.partition("@")[2]) / 1000 for id, _, at in done)
    assert jobs.dead_letters() == []
