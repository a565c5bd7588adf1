"""Celery's beat with our scheduler: many of them, killed, with different settings."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import celery
import kombu
import pytest
from celery.beat import BeatLazyFunc
from celery.schedules import BaseSchedule, crontab, schedule, solar
from dehydrator_queue.plan import Plan
from servers import RealServer, wait_until
from test_celery import FOLDER, PYTHONPATH, done, killed_worker
from topologies import Cluster, Pair, Sentinels

from dehydrator_queue import Queue, Raw, Worker, deploys
from dehydrator_queue.beat import Scheduler
from dehydrator_queue.beat import scheduler as scheduler_module
from dehydrator_queue.beat.plan import EPOCH, MILLISECOND, moment_of, occurrences_of, plan_of, schedule_of
from dehydrator_queue.verbs import pairs

KEY = "dehydrator:celery"
ENTRIES = f"{KEY}:schedules"


def application(server: RealServer, entries: Any = None, **settings: Any) -> celery.Celery:
    app = celery.Celery("beat", broker=f"{server.url}/0", set_as_current=False)
    app.conf.update(
        broker_transport="dehydrator_queue.kombu:Transport",
        # Or there is an entry for the clean-up of results.
        result_expires=None,
        beat_schedule=entries or {},
        beat_max_loop_interval=0.1,
    )
    app.conf.update(settings)
    return app


@contextmanager
def ticking(*schedulers: Scheduler) -> Iterator[None]:
    """Runs beats in threads."""
    stopped = threading.Event()

    def beat(scheduler: Scheduler) -> None:
        while not stopped.is_set():
            stopped.wait(scheduler.tick())
        scheduler.close()

    threads = [threading.Thread(target=beat, args=[scheduler]) for scheduler in schedulers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def messages(server: RealServer, key: str = KEY) -> list[dict[str, Any]]:
    rows = server.client.execute_command("DEHYDRATOR.RANGE", key, "-", "+", "WITHELEMENTS")[1]
    return [{"id": row[0].decode(), "deadline": row[1], **json.loads(row[5])} for row in rows]


def names(server: RealServer) -> set[str]:
    return {row[0].decode() for row in server.client.execute_command("DEHYDRATOR.RANGE", ENTRIES, "-", "+")[1]}


def rewind(server: RealServer, name: str, ms: int) -> None:
    """Moves the next occurrence of an entry into the past."""
    state, rest = server.client.execute_command("DEHYDRATOR.LOOK", ENTRIES, name).split(b"\n", 1)
    told = json.loads(state)
    told["next"] -= ms
    element = json.dumps(told, separators=(",", ":")).encode() + b"\n" + rest
    server.client.execute_command("DEHYDRATOR.PUSH", ENTRIES, 0, element, name, "REPLACE", "AT", told["next"])


# Moments


def of_celery(when: Any, start: int, count: int) -> list[int]:
    """Returns the moments at which Celery's own beat would send, on a clock of its own that is never late."""
    now = [moment_of(start, when.tz)]
    when.nowfun = lambda: now[0]
    last, moments = now[0], []
    while len(moments) < count:
        due, wait = when.is_due(last)
        if due:
            last = now[0]
            moments.append(-((EPOCH - last) // MILLISECOND))
        now[0] = (now[0].astimezone(timezone.utc) + timedelta(seconds=max(wait, 0.001))).astimezone(when.tz)
    return moments


def ours(when: Any, start: int, count: int) -> list[int]:
    occurrences, moments = occurrences_of(when), [start]
    for _ in range(count):
        moments.append(occurrences.after(moments[-1]))
    return moments[1:]


def since(text: str) -> int:
    return -((EPOCH - datetime.fromisoformat(text).replace(tzinfo=timezone.utc)) // MILLISECOND)


CRONTABS: list[Callable[[Any], Any]] = [
    lambda app: crontab(minute=30, hour=2, app=app),
    lambda app: crontab(app=app),
    lambda app: crontab(minute="*/15", app=app),
    lambda app: crontab(minute=0, hour="*/2", app=app),
    lambda app: crontab(minute=15, hour="1-3", day_of_week="sun", app=app),
    lambda app: crontab(minute={0, 45}, app=app),
    lambda app: crontab(minute=0, hour=0, day_of_month="25-31", app=app),
    lambda app: crontab(minute=10, hour=2, day_of_month=31, month_of_year="3,10", app=app),
    lambda app: schedule(timedelta(hours=1), relative=True, app=app),
    lambda app: schedule(timedelta(days=1), relative=True, app=app),
]


@pytest.mark.parametrize("make", CRONTABS, ids=[str(n) for n in range(len(CRONTABS))])
@pytest.mark.parametrize(
    ("zone", "starts"),
    [
        ("UTC", ["2026-12-31T23:59:59.999"]),
        ("Europe/Berlin", ["2026-03-28T23:17:03.123", "2026-10-24T23:10", "2026-10-25T00:40"]),
        ("America/New_York", ["2026-03-07T23:17", "2026-11-01T04:59:59.999"]),
        ("Australia/Lord_Howe", ["2026-04-04T14:20", "2026-10-03T14:20"]),
    ],
)
def test_moments_are_those_of_celery_on_nights_when_clocks_change(make: Any, zone: str, starts: list[str]) -> None:
    app = celery.Celery(set_as_current=False)
    app.conf.timezone = zone
    for start in map(since, starts):
        when = make(app)
        there_and_back = schedule_of(plan_of(when), app)
        assert plan_of(there_and_back) == plan_of(when)
        moments = ours(when, start, 12)
        assert moments == ours(there_and_back, start, 12)
        if celery.VERSION >= (5, 7):
            # Earlier ones are wrong by an hour, until they look again.
            assert moments == of_celery(make(app), start, 12)


def test_an_hour_that_occurs_twice_has_each_minute_once() -> None:
    """Celery's own schedule would be due again and again for an hour."""
    app = celery.Celery(set_as_current=False)
    app.conf.timezone = "Europe/Berlin"
    start = since("2026-10-25T01:30:30")
    assert ours(crontab(app=app), start, 40) == [start + 30_000 + n * 60_000 for n in range(40)]


def test_a_beat_in_another_zone_keeps_the_zone_of_an_entry() -> None:
    here, there = celery.Celery(set_as_current=False), celery.Celery(set_as_current=False)
    here.conf.timezone, there.conf.timezone = "Asia/Kolkata", "America/New_York"
    when, start = crontab(minute=0, hour=9, app=here), since("2026-06-01T00:00")
    assert ours(schedule_of(plan_of(when), there), start, 3) == ours(when, start, 3)


def test_workers_of_queues_cannot_read_a_plan() -> None:
    """They would put the entry itself as a job."""
    for when in (schedule(1), crontab()):
        with pytest.raises(TypeError):
            Plan.decode(plan_of(when))


@pytest.mark.parametrize("event", ["sunrise", "solar_noon", "dusk_astronomical"])
def test_solar_events_occur_once(event: str) -> None:
    pytest.importorskip("ephem")
    if event.startswith("dusk") and celery.VERSION < (5, 7):
        pytest.skip("Celery fails in summer")
    app = celery.Celery(set_as_current=False)
    start = since("2026-03-01T00:00")
    moments = ours(solar(event, 52.5, 13.4, app=app), start, 400)
    assert moments == ours(schedule_of(plan_of(solar(event, 52.5, 13.4, app=app)), app), start, 400)
    assert moments[:50] == of_celery(solar(event, 52.5, 13.4, app=app), start, 50)
    # There is no dusk in Berlin's summer nights.
    assert all(after - before > 23 * 3_600_000 for before, after in pairwise(moments))


# One beat


def test_an_entry_is_sent_with_its_options(server: RealServer) -> None:
    options = {"queue": "mail", "priority": 3, "expires": 60, "headers": {"dehydrator_group": "anna"}}
    entry = {"task": "t.a", "schedule": 0.2, "args": (1, "b"), "kwargs": {"c": [2]}, "options": options}
    app = application(server, {"a": entry})
    scheduler = Scheduler(app)
    with ticking(scheduler):
        found = wait_until(lambda: messages(server, f"dehydrator:mail{chr(6)}{chr(22)}3"))[0]
    moment = int(found["id"].removeprefix("a@"))
    assert found["headers"]["id"] == found["properties"]["correlation_id"] == found["id"]
    assert found["headers"]["task"] == "t.a"
    assert found["headers"].get("celery_beat_task") is (True if celery.VERSION >= (5, 5) else None)
    assert found["headers"]["expires"]
    assert found["headers"]["argsrepr"] == "[1, 'b']"
    assert found["headers"]["kwargsrepr"] == "{'c': [2]}"
    assert found["deadline"] >= moment
    # They are those of the settings, and as they were.
    assert app.conf.beat_schedule["a"]["options"]["headers"] == {"dehydrator_group": "anna"}
    shown = Scheduler(app, lazy=True).schedule["a"]
    assert shown.total_run_count >= 1
    assert shown.last_run_at >= moment_of(moment)


def test_periodic_tasks_of_on_after_finalize_are_stored(server: RealServer) -> None:
    app = application(server)

    @app.task(name="t.finalized", shared=False)
    def b() -> None:
        pass

    @app.on_after_finalize.connect
    def setup(sender: celery.Celery, **_: Any) -> None:
        sender.add_periodic_task(0.2, b.s(), name="every fifth")

    app.finalize()
    with ticking(Scheduler(app)):
        wait_until(lambda: messages(server))
    assert names(server) == {"every fifth"}
    assert messages(server)[0]["headers"]["task"] == "t.finalized"


def test_entries_are_added_and_removed_at_run_time(server: RealServer) -> None:
    app = application(server, {"settings": {"task": "t.a", "schedule": 3600}})
    scheduler = Scheduler(app)
    with ticking(scheduler):
        wait_until(lambda: names(server) == {"settings"})
        other = Scheduler(app, lazy=True)
        other.add(name="added", task="t.b", schedule=0.1, kwargs={"n": 1}, options={"expires": 60})
        wait_until(lambda: messages(server))
        assert list(other.schedule) == ["added", "settings"] or list(other.schedule) == ["settings", "added"]
        # The same once more changes nothing; another interval takes effect.
        before = server.client.execute_command("DEHYDRATOR.LOOK", ENTRIES, "settings")
        other.add(name="added", task="t.b", schedule=3600)
        del other.schedule["settings"]
        with pytest.raises(KeyError):
            del other.schedule["settings"]
        assert before is not None
        count = len(messages(server))
        time.sleep(0.5)
        assert len(messages(server)) == count
        assert names(server) == {"added"}
        other.close()


def test_arguments_that_json_cannot_tell_are_those_of_the_settings(server: RealServer) -> None:
    calls: list[int] = []

    def call() -> int:
        calls.append(1)
        return len(calls)

    entries = {"lazy": {"task": "t.a", "schedule": 0.2, "kwargs": {"n": BeatLazyFunc(call)}}}
    app = application(server, entries)
    with ticking(Scheduler(app)):
        wait_until(lambda: len(messages(server)) >= 2)
    assert [one["headers"]["kwargsrepr"] for one in messages(server)][:2] == ["{'n': 1}", "{'n': 2}"]
    # A beat without these settings leaves it to others, and can show it.
    count = len(messages(server))
    other = Scheduler(application(server), lazy=True)
    with ticking(other):
        time.sleep(1)
    assert len(messages(server)) == count
    assert other.schedule["lazy"].task == "t.a"
    with pytest.raises(ValueError, match="no beat could send"):
        other.add(name="x", task="t.x", schedule=1, args=[object()])
    other.close()


class Odd(BaseSchedule):
    """Is due at each second look."""

    looks = 0

    def is_due(self, last_run_at: datetime) -> tuple[bool, float]:
        self.looks += 1
        return self.looks % 2 == 0, 0.1


class Broken(Odd):
    def is_due(self, last_run_at: datetime) -> tuple[bool, float]:
        raise RuntimeError("no idea")


def test_schedules_of_other_classes_are_asked_whether_they_are_due(server: RealServer) -> None:
    odd = Odd()
    entries = {"broken": {"task": "t.a", "schedule": Broken()}, "odd": {"task": "t.b", "schedule": odd}}
    with ticking(Scheduler(application(server, entries))):
        wait_until(lambda: len(messages(server)) >= 3)
    assert {one["headers"]["task"] for one in messages(server)} == {"t.b"}
    assert len(messages(server)) == odd.looks // 2


def test_arguments_that_cannot_be_encoded_lose_one_occurrence_only(server: RealServer) -> None:
    entries = {"bad": {"task": "t.a", "schedule": 0.2, "args": [object()]}, "good": {"task": "t.b", "schedule": 0.2}}
    with ticking(Scheduler(application(server, entries))):
        wait_until(lambda: len(messages(server)) >= 3)
    assert {one["headers"]["task"] for one in messages(server)} == {"t.b"}


def test_a_full_queue_delays_an_occurrence(server: RealServer) -> None:
    server.client.execute_command("DEHYDRATOR.LIMIT", KEY, "LENGTH", 1)
    server.client.execute_command("DEHYDRATOR.PUSH", KEY, 0, "x", "first")
    with ticking(Scheduler(application(server, {"a": {"task": "t.a", "schedule": 0.2}}))):
        wait_until(lambda: names(server))
        time.sleep(1.5)
        server.client.execute_command("DEHYDRATOR.REM", KEY, "first")
        wait_until(lambda: messages(server))
    assert len(messages(server)) == 1


def test_the_messages_of_an_occurrence_are_sent_to_all_queues_or_none(server: RealServer) -> None:
    options = {"exchange": "both", "routing_key": "x"}
    app = application(server, {"a": {"task": "t.a", "schedule": 0.2, "options": options}}, dehydrator_beat_missed="all")
    with app.connection() as connection:
        for name in ("one", "two"):
            kombu.Queue(name, kombu.Exchange("both"), "x")(connection.default_channel).declare()
    one, two = "dehydrator:one", "dehydrator:two"
    server.client.execute_command("DEHYDRATOR.LIMIT", two, "LENGTH", 1)
    server.client.execute_command("DEHYDRATOR.PUSH", two, 0, "x", "first")
    with ticking(Scheduler(app)):
        wait_until(lambda: names(server))
        time.sleep(0.5)
        assert messages(server, one) == []
        server.client.execute_command("DEHYDRATOR.REM", two, "first")
        server.client.execute_command("DEHYDRATOR.LIMIT", two, "LENGTH", 1000)
        wait_until(lambda: len(messages(server, two)) >= 3)
    assert [it["id"] for it in messages(server, one)] == [it["id"] for it in messages(server, two)]
    check_grid([it["id"] for it in messages(server, one)], 200)


@pytest.mark.parametrize(("missed", "sent"), [("one", 1), ("all", 6), ("none", 0)])
def test_missed_occurrences(server: RealServer, missed: str, sent: int) -> None:
    app = application(server, {"a": {"task": "t.a", "schedule": 600}}, dehydrator_beat_missed=missed)
    with ticking(Scheduler(app)):
        wait_until(lambda: names(server))
    # The last of six was two minutes ago.
    rewind(server, "a", 6 * 600_000 + 120_000)
    with ticking(Scheduler(app)):
        wait_until(lambda: state_of(server)["next"] > time.time() * 1000)
    assert len(messages(server)) == sent
    assert state_of(server).get("missed", 0) + sent == 6


def test_each_missed_occurrence_of_a_cron_is_sent(server: RealServer) -> None:
    app = application(server, {"a": {"task": "t.a", "schedule": crontab()}}, dehydrator_beat_missed="all")
    with ticking(Scheduler(app)):
        wait_until(lambda: names(server))
    rewind(server, "a", 5 * 60_000)
    with ticking(Scheduler(app)):
        wait_until(lambda: state_of(server)["next"] > time.time() * 1000)
    assert len(messages(server)) >= 5
    check_grid([one["id"] for one in messages(server)], 60_000)


def state_of(server: RealServer, name: str = "a") -> Any:
    return json.loads(server.client.execute_command("DEHYDRATOR.LOOK", ENTRIES, name).split(b"\n")[0])


@pytest.mark.parametrize(("deadline", "sent"), [(None, 1), (30, 0), (400 * 86400, 1)])
def test_a_cron_is_not_sent_after_its_starting_deadline(server: RealServer, deadline: Any, sent: int) -> None:
    entry = {"task": "t.a", "schedule": crontab(0, 0, day_of_month=1, month_of_year=1)}
    app = application(server, {"a": entry}, beat_cron_starting_deadline=deadline)
    with ticking(Scheduler(app)):
        wait_until(lambda: names(server))
    year = datetime.now(timezone.utc).year
    rewind(server, "a", since(f"{year + 1}-01-01") - since(f"{year}-01-01"))
    with ticking(Scheduler(app)):
        wait_until(lambda: state_of(server)["next"] == since(f"{year + 1}-01-01"))
    assert len(messages(server)) == sent
    # Yearly, and looked at each month.
    deadline_ms = server.client.execute_command("DEHYDRATOR.RANGE", ENTRIES, "-", "+")[1][0][1]
    assert deadline_ms <= (time.time() + 30 * 86400) * 1000


def test_events_are_sent_after_the_message(server: RealServer) -> None:
    listening = server.client.pubsub()
    listening.psubscribe("*celeryev*")
    app = application(server, {"a": {"task": "t.a", "schedule": 0.2}}, task_send_sent_event=True)
    with ticking(Scheduler(app)):
        wait_until(lambda: "task.sent" in str(listening.get_message(ignore_subscribe_messages=True)))
        assert messages(server)
    listening.close()


def test_other_brokers_get_the_task_under_a_fixed_id(server: RealServer) -> None:
    app = application(
        server, {"a": {"task": "t.a", "schedule": 0.2}}, broker_transport="redis", dehydrator_beat_url=f"{server.url}/3"
    )
    with ticking(Scheduler(app)):
        wait_until(lambda: server.client.llen("celery") >= 2)
    with kombu.Connection(f"{server.url}/0") as connection:
        queue = connection.SimpleQueue("celery")
        ids = [queue.get(timeout=120).headers["id"] for _ in range(2)]
    moments = [int(id.removeprefix("a@")) for id in ids]
    assert moments[1] - moments[0] == 200


def test_a_beat_without_a_server_says_so(server: RealServer) -> None:
    with pytest.raises(celery.exceptions.ImproperlyConfigured, match="dehydrator_beat_url"):
        Scheduler(application(server, broker_transport="redis")).tick()


# Several beats


@contextmanager
def taking(server: RealServer) -> Iterator[list[str]]:
    """Takes the messages, so that a second one of the same id is not refused, and yields their ids."""
    ids: list[str] = []

    def note(job: Any) -> None:
        # The clock of this process is the server's.
        assert int(job.id.split("@")[1]) <= time.time() * 1000
        ids.append(job.id)

    worker = Worker(Queue(server.url, KEY, codec=Raw()), note, attempts=1, schedules=False)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield ids
        wait_until(lambda: not server.client.execute_command("DEHYDRATOR.LEN", KEY))
    finally:
        worker.stop()
        thread.join()
    assert not server.client.exists(f"{KEY}:dead")


@pytest.mark.parametrize("lease", [5000, 1])
def test_each_occurrence_is_one_task_of_five_beats(
    server: RealServer, monkeypatch: pytest.MonkeyPatch, lease: int
) -> None:
    """With a lease of a millisecond, another beat gets an entry before the first has sent it."""
    monkeypatch.setattr(scheduler_module, "LEASE", lease)
    entries = {f"e{n}": {"task": "t.a", "schedule": 0.1} for n in range(3)}
    app = application(server, entries, dehydrator_beat_missed="all")
    with taking(server) as ids, ticking(*(Scheduler(app) for _ in range(5))):
        wait_until(lambda: len(ids) >= 60)
    check_grid(ids, 100)


def check_grid(ids: list[str], step: int) -> None:
    """Checks that each entry has one task for each of its moments."""
    assert [id for id, count in Counter(ids).items() if count > 1] == []
    for name in {id.split("@")[0] for id in ids}:
        moments = sorted(int(id.split("@")[1]) for id in ids if id.startswith(f"{name}@"))
        assert moments == list(range(moments[0], moments[-1] + 1, step)), name


def test_old_settings_do_not_fight_with_new_ones(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploys, "PRESENCE", 0.1)
    monkeypatch.setattr(deploys, "ABSENCE", 6)
    hourly = {"task": "t.a", "schedule": 3600}
    old = application(server, {"kept": hourly, "dropped": hourly})
    new = application(server, {"kept": {**hourly, "schedule": 7200}, "made": hourly})

    def interval() -> Any:
        return json.loads(server.client.execute_command("DEHYDRATOR.LOOK", ENTRIES, "kept").split(b"\n")[1])["ms"]

    with ExitStack() as stack:
        with ticking(Scheduler(old)):
            wait_until(lambda: names(server) == {"kept", "dropped"})
            Scheduler(old, lazy=True).add(name="added", task="t.a", schedule=3600)
            stack.enter_context(ticking(Scheduler(new)))
            wait_until(lambda: names(server) == {"kept", "made", "added"})
            # An old one that starts again, as after a crash.
            with ticking(Scheduler(old)):
                time.sleep(1.5)
                assert names(server) == {"kept", "made", "added"}
                assert interval() == 7_200_000
        # The old ones are gone. A rollback waits until the new ones are, too.
        rollback = stack.enter_context(ExitStack())
        rollback.enter_context(ticking(Scheduler(old)))
        time.sleep(0.3)
        assert interval() == 7_200_000
    with ticking(Scheduler(old)):
        wait_until(lambda: names(server) == {"kept", "dropped", "added"})
        assert interval() == 3_600_000


def test_entries_come_back_when_the_server_has_lost_them(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploys, "PRESENCE", 0.1)
    with ticking(Scheduler(application(server, {"a": {"task": "t.a", "schedule": 3600}}))):
        wait_until(lambda: names(server))
        server.client.flushall()
        wait_until(lambda: names(server))
        server.client.delete(ENTRIES)
        wait_until(lambda: names(server))


def start_beat(server: RealServer, **environment: str) -> subprocess.Popen[bytes]:
    log = (server.folder / "celery.log").open("a")
    return subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "celery_app", "beat", "--loglevel", "info", "--pidfile="],
        env={**os.environ, "URL": server.url, "PYTHONPATH": PYTHONPATH, **environment},
        cwd=FOLDER,
        stdout=log,
        stderr=log,
    )


@pytest.mark.slow
def test_beats_that_are_killed_send_each_occurrence_once(own_server: RealServer) -> None:
    entries = {f"e{n}": {"task": "t.a", "schedule": 1} for n in range(10)}
    environment = {"BEAT": json.dumps(entries), "MISSED": "all"}
    kills = 0
    with taking(own_server) as ids:
        beats = [start_beat(own_server, **environment) for _ in range(3)]
        try:
            wait_until(lambda: len(ids) >= 10)
            end = time.monotonic() + 40
            while time.monotonic() < end:
                time.sleep(1)
                place = random.randrange(3)
                beats[place].kill()
                beats[place].wait()
                beats[place] = start_beat(own_server, **environment)
                kills += 1
                if kills == 15:
                    own_server.restart()
            now = time.time() * 1000
            wait_until(lambda: all(state_of(own_server, name)["last"] > now for name in entries))
        finally:
            for beat in beats:
                beat.kill()
                beat.wait()
    print("occurrences", len(ids), "kills", kills)
    assert {id.split("@")[0] for id in ids} - {"celery.backend_cleanup"} == set(entries)
    check_grid([id for id in ids if id.startswith("e")], 1000)


@pytest.mark.slow
def test_beats_follow_sentinel_to_another_server(pair: Pair, tmp_path: Path) -> None:
    with closing(Sentinels(tmp_path, pair)) as sentinels:
        app = application(
            pair.primary,
            {"a": {"task": "t.a", "schedule": 0.2}},
            broker_url=sentinels.celery_url,
            broker_transport="dehydrator_queue.kombu:SentinelTransport",
            broker_transport_options={"master_name": "mine"},
            dehydrator_beat_missed="all",
        )
        old, new = pair.primary, pair.replica
        with ticking(*(Scheduler(app) for _ in range(2))):
            wait_until(lambda: messages(old))
            old.client.wait(1, 10000)
            old.kill()
            wait_until(lambda: new.client.role()[0] == b"master")
            moved = len(messages(new))
            wait_until(lambda: len(messages(new)) > moved + 10)
        check_grid([one["id"] for one in messages(new)], 200)


@pytest.mark.slow
def test_beats_have_their_entries_on_a_cluster(server: RealServer, tmp_path: Path) -> None:
    entries = f"{{{KEY}}}:schedules"
    with closing(Cluster(tmp_path, entries)) as cluster:
        app = application(
            server,
            {"a": {"task": "t.a", "schedule": 0.2}, "b": {"task": "t.b", "schedule": crontab()}},
            broker_transport=None,
            dehydrator_beat_url=cluster.url,
            dehydrator_beat_missed="all",
        )

        def sent() -> list[str]:
            return [json.loads(one)["headers"]["id"] for one in server.client.lrange("celery", 0, -1)[::-1]]

        def some_more() -> None:
            before = len(sent())
            wait_until(lambda: len(sent()) > before + 5)

        with ticking(*(Scheduler(app) for _ in range(3))):
            some_more()
            # The slot moves, and then the server that has it hands it to its replica.
            owner = cluster.owner()
            away = next(node for node in cluster.nodes[:3] if node is not owner)
            cluster.move(away)
            some_more()
            cluster.move(owner)
            cluster.replica.client.execute_command("CLUSTER", "FAILOVER")
            wait_until(lambda: cluster.owner() is cluster.replica)
            some_more()
            stored = Scheduler(app, lazy=True)
            assert set(stored.schedule) == {"a", "b"}
            stored.close()
        check_grid([id for id in sent() if id.startswith("a@")], 200)


@pytest.mark.slow
def test_twenty_workers_with_a_beat_each_do_each_occurrence_once(own_server: RealServer) -> None:
    entries = {f"e{n}": {"task": "celery_app.note", "schedule": 1, "args": [f"e{n}"]} for n in range(3)}
    environment = {"BEAT": json.dumps(entries), "MISSED": "all"}
    with ExitStack() as stack:
        for n in range(20):
            pool = ["-P", "prefork", "-c", "1"] if n % 2 else ["-P", "threads", "-c", "1"]
            options = [*pool, "-B", "-n", f"w{n}@%h", "--without-gossip", "--without-mingle"]
            stack.enter_context(killed_worker(own_server, *options, **environment))
        wait_until(lambda: own_server.client.execute_command("CLIENT", "LIST").count(b"cmd=dehydrator.poll") == 20)
        before = len(done(own_server))
        wait_until(lambda: len(done(own_server)) >= before + 30)
        own_server.client.execute_command("DEHYDRATOR.PAUSE", ENTRIES)
        wait_until(lambda: not pairs(own_server.client.execute_command("DEHYDRATOR.INFO", ENTRIES))["leased"])
        sent = {name: state_of(own_server, name)["count"] for name in entries}
        wait_until(lambda: len(done(own_server)) >= sum(sent.values()))
        wait_until(lambda: not own_server.client.execute_command("DEHYDRATOR.LEN", KEY))
        assert Counter(name for name, _, _ in done(own_server)) == sent
