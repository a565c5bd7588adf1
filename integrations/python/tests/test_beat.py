"""Celery's beat with its entries in the server."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import celery
import kombu
import pytest
from celery.schedules import crontab, schedule, solar
from kombu.utils.json import loads
from servers import RealServer, wait_until

from dehydrator_queue.beat import Scheduler
from dehydrator_queue.beat.plan import plan_of

KEY = "dehydrator:celery"


def app_of(server: RealServer, **conf: Any) -> celery.Celery:
    app = celery.Celery("test", broker=server.url, set_as_current=False)
    app.conf.update(broker_transport="dehydrator_queue.kombu:Transport", beat_max_loop_interval=0.2, **conf)

    @app.task(name="note")
    def note(*args: Any, **kwargs: Any) -> None: ...

    return app


@contextmanager
def beat(server: RealServer, entries: dict[str, Any] | None = None, **conf: Any) -> Iterator[Scheduler]:
    scheduler = Scheduler(app_of(server, beat_schedule=entries or {}, **conf))
    try:
        yield scheduler
    finally:
        scheduler.close()


def every(seconds: float, **told: Any) -> dict[str, Any]:
    return {"task": "note", "schedule": seconds, **told}


def names(server: RealServer) -> set[str]:
    return {row[1].decode() for row in server.client.execute_command("DEHYDRATOR.SCHEDULES", f"{KEY}:schedules")}


def messages(server: RealServer) -> list[Any]:
    rows = server.client.execute_command("DEHYDRATOR.RANGE", KEY, "-", "+", "WITHELEMENTS")[1]
    return [loads(row[-1].decode()) for row in rows]


def sent(server: RealServer) -> list[str]:
    return [message["headers"]["id"] for message in messages(server)]


def tick_until(true: Any, *schedulers: Scheduler) -> None:
    wait_until(lambda: [one.tick() for one in schedulers] and true())


@pytest.mark.parametrize(
    ("when", "plan"),
    [
        (crontab(), {"cron": "* * * * *", "zone": "UTC"}),
        (crontab("*/15", "8-17", "mon-fri"), {"cron": "*/15 8,9,10,11,12,13,14,15,16,17 * * 1,2,3,4,5", "zone": "UTC"}),
        (crontab(0, {9, 18}, day_of_month="1,15"), {"cron": "0 9,18 1,15 * *", "zone": "UTC"}),
        (crontab(0, "22-2", month_of_year="jan"), {"cron": "0 0,1,2,22,23 * 1 *", "zone": "UTC"}),
        (schedule(timedelta(seconds=0.5)), {"seconds": timedelta(seconds=0.5)}),
        # Celery wants both days, and a cron one of them.
        (crontab(0, 9, "mon", "1-7"), None),
        (schedule(60, relative=True), None),
        (solar("sunrise", 52, 13), None),
    ],
)
def test_a_plan_is_that_of_celery(when: Any, plan: Any) -> None:
    when.app = celery.Celery(set_as_current=False)
    assert plan_of(when) == plan


def test_the_zone_is_that_of_the_app(server: RealServer) -> None:
    with beat(server, {"a": {"task": "note", "schedule": crontab(0, 9)}}, timezone="Asia/Tokyo") as scheduler:
        scheduler.tick()
        (one,) = scheduler.schedules
        assert (one.zone, one.next.hour, one.next.tzinfo) == ("Asia/Tokyo", 9, ZoneInfo("Asia/Tokyo"))


def test_an_entry_is_sent_with_its_options(server: RealServer) -> None:
    entry = every(0.5, args=(1, "b"), kwargs={"c": [2]}, options={"expires": 60, "headers": {"x": "y"}})
    with beat(server, {"a": entry}) as scheduler:
        tick_until(lambda: messages(server), scheduler)
    message = messages(server)[0]
    headers = message["headers"]
    assert re.fullmatch(r"a@\d{13}", headers["id"])
    assert (headers["task"], headers["x"]) == ("note", "y")
    expires = datetime.fromisoformat(headers["expires"])
    assert timedelta(seconds=50) < expires - datetime.now(timezone.utc) < timedelta(seconds=61)


def test_each_occurrence_is_one_task_of_three_beats(server: RealServer) -> None:
    entries = {"a": every(0.1)}
    with (
        beat(server, entries, dehydrator_beat_missed="all") as one,
        beat(server, entries, dehydrator_beat_missed="all") as two,
        beat(server, entries, dehydrator_beat_missed="all") as three,
    ):
        tick_until(lambda: len(sent(server)) > 10, one, two, three)
    moments = sorted(int(id[2:]) for id in sent(server))
    assert moments == list(range(moments[0], moments[-1] + 1, 100))


def test_an_occurrence_that_is_sent_again_is_there_once(server: RealServer) -> None:
    with beat(server, {"a": every(3600)}) as scheduler:
        scheduler.tick()
        entry = scheduler._entry("a", scheduler._entries["a"][1])
        for _ in range(2):
            scheduler._send(entry, "a@1900000000000")
    assert sent(server) == ["a@1900000000000"]


def test_who_starts_last_wins(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dehydrator_queue.beat.scheduler.LOOK", 0.2)
    with beat(server, {"a": every(3600), "b": every(3600)}) as old:
        old.tick()
        old.add(name="own", task="note", schedule=3600)
        with beat(server, {"a": every(60)}) as new:
            new.tick()
            assert names(server) == {"a", "own"}
            assert new.schedules.get("a").seconds == 60
        # Those that the server has lost come back.
        server.client.flushall()
        tick_until(lambda: names(server) == {"a", "b"}, old)


def test_entries_are_added_from_any_program(server: RealServer) -> None:
    with beat(server, lazy=True) as scheduler:
        pass
    scheduler = Scheduler(app_of(server), lazy=True)
    scheduler.add(name="x", task="note", schedule=3600, args=(1,))
    assert [one.payload["args"] for one in scheduler.schedules] == [(1,)]
    with pytest.raises(ValueError, match="JSON cannot store"):
        scheduler.add(name="y", task="note", schedule=1, args=(object(),))
    with pytest.raises(ValueError, match="no cron of five fields"):
        scheduler.add(name="y", task="note", schedule=solar("sunrise", 52, 13, app=scheduler.app))
    assert scheduler.schedules.remove("x")
    scheduler.close()


def test_arguments_that_json_cannot_tell_are_those_of_the_settings(server: RealServer) -> None:
    with beat(server, {"a": every(0.3, args=(Path("/x"),))}, task_serializer="pickle") as scheduler:
        scheduler.tick()
        # A beat without these settings leaves it to others.
        with beat(server) as other:
            other._is_declared = True
            wait_until(lambda: server.client.execute_command("DEHYDRATOR.LEN", f"{KEY}:schedules"))
            other.tick()
            assert sent(server) == []
        tick_until(lambda: sent(server), scheduler)


def test_what_is_no_cron_stays_with_celerys_own_beat(server: RealServer, caplog: pytest.LogCaptureFixture) -> None:
    entry = {"task": "note", "schedule": schedule(timedelta(seconds=0.2), relative=True)}
    with beat(server, {"own": entry, "ours": every(3600)}) as scheduler:
        tick_until(lambda: sent(server), scheduler)
        assert names(server) == {"ours"}
    assert "own is no cron and no interval" in caplog.text


def test_arguments_that_cannot_be_encoded_lose_one_occurrence_only(server: RealServer) -> None:
    with beat(server, {"bad": every(0.1, args=(object(),)), "good": every(0.1)}) as scheduler:
        tick_until(lambda: len(sent(server)) > 2, scheduler)
    assert all(id.startswith("good@") for id in sent(server))


def test_a_full_queue_delays_an_occurrence(server: RealServer, caplog: pytest.LogCaptureFixture) -> None:
    server.client.execute_command("DEHYDRATOR.PUSH", KEY, 60_000, "full", "full")
    server.client.execute_command("DEHYDRATOR.LIMIT", KEY, "LENGTH", 1)
    with beat(server, {"a": every(0.1)}) as scheduler:
        tick_until(lambda: "is tried again in 1 s" in caplog.text, scheduler)
        server.client.execute_command("DEHYDRATOR.REM", KEY, "full")
        tick_until(lambda: sent(server), scheduler)


def test_an_occurrence_is_not_sent_after_the_starting_deadline(server: RealServer) -> None:
    with beat(server, {"a": every(0.1)}, beat_cron_starting_deadline=1) as scheduler:
        scheduler.tick()
        server.client.execute_command("DEHYDRATOR.UNSCHEDULE", f"{KEY}:schedules", "a")
        server.client.execute_command("DEHYDRATOR.PURGE", f"{KEY}:schedules", "GROUP", "x")
        payload = scheduler._entries["a"][1]
        server.client.execute_command("DEHYDRATOR.PUSH", f"{KEY}:schedules", 0, payload, "a@1700000000000")
        tick_until(lambda: not server.client.execute_command("DEHYDRATOR.LEN", f"{KEY}:schedules"), scheduler)
    assert "a@1700000000000" not in sent(server)


def test_other_brokers_get_the_task_under_a_fixed_id(server: RealServer) -> None:
    app = celery.Celery("test", broker="memory://", set_as_current=False)
    app.conf.update(beat_schedule={"a": every(0.3)}, beat_max_loop_interval=0.2, dehydrator_beat_url=server.url)
    # A shared one is every later app's of this process.
    app.task(name="note", shared=False)(lambda: None)
    scheduler = Scheduler(app)
    with kombu.Connection("memory://") as connection:
        queue = kombu.Queue("celery")(connection.default_channel)
        message = wait_until(lambda: scheduler.tick() == 0 and queue.get(no_ack=True))
        assert re.fullmatch(r"a@\d{13}", message.headers["id"])
    scheduler.close()


def test_a_beat_without_a_server_says_so() -> None:
    app = celery.Celery("test", broker="memory://", set_as_current=False)
    with pytest.raises(celery.exceptions.ImproperlyConfigured, match="dehydrator_beat_url"):
        Scheduler(app).tick()


PROGRAM = """
import celery, sys
app = celery.Celery("test", broker=sys.argv.pop(1))
app.conf.update(
    broker_transport="dehydrator_queue.kombu:Transport",
    beat_scheduler="dehydrator_queue.beat:Scheduler",
    dehydrator_beat_missed="all",
    beat_schedule={"a": {"task": "note", "schedule": 0.1}},
)
@app.task(name="note")
def note(): ...
app.start(["beat", "--pidfile="])
"""


def start(server: RealServer) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, server.url], stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_beat_that_is_stopped_ends_well(own_server: RealServer, number: int) -> None:
    process = start(own_server)
    wait_until(lambda: sent(own_server))
    own_server.client.execute_command("DEHYDRATOR.UNSCHEDULE", f"{KEY}:schedules", "a")
    # It sleeps in the server.
    time.sleep(1)
    process.send_signal(number)
    _, told = process.communicate(timeout=120)
    assert (process.returncode, "CRITICAL" in told) == (0, False), told


@pytest.mark.slow
def test_beats_that_are_killed_leave_no_occurrence_out(own_server: RealServer) -> None:
    beats = [start(own_server) for _ in range(3)]
    try:
        for n in range(9):
            before = len(sent(own_server))
            wait_until(lambda before=before: len(sent(own_server)) > before + 3)
            beats[n % 3].kill()
            beats[n % 3].communicate()
            if n % 4 == 2:
                own_server.restart()
            beats[n % 3] = start(own_server)
        own_server.client.execute_command("DEHYDRATOR.PAUSE", f"{KEY}:schedules", "SCHEDULE", "a")
        wait_until(lambda: not own_server.client.execute_command("DEHYDRATOR.LEN", f"{KEY}:schedules"))
    finally:
        for one in beats:
            one.kill()
            one.communicate()
    moments = sorted(int(id[2:]) for id in sent(own_server))
    assert moments == list(range(moments[0], moments[-1] + 1, 100))
