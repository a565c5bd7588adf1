from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import huey
import pytest
from servers import RealServer, wait_until

from dehydrator_queue import ModuleMissing
from dehydrator_queue.huey import DehydratorHuey


@contextmanager
def consuming(app: huey.Huey) -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    consumer = app.create_consumer(workers=2, periodic=False, scheduler_interval=60)
    consumer.start()
    try:
        yield
    finally:
        consumer.stop(graceful=True)
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("utc", [True, False])
def test_delayed_tasks_are_run_once_none_early_and_soon(
    server: RealServer, monkeypatch: pytest.MonkeyPatch, utc: bool
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    app, late = DehydratorHuey(url=server.url, utc=utc), []

    @app.task()
    def note(n: int, due: float) -> None:
        late.append((n, time.time() - due))

    with consuming(app):
        for n in range(50):
            delay = 1 + n / 50
            note.schedule((n, time.time() + delay), delay=delay)
        wait_until(lambda: len(late) == 50)
    monkeypatch.undo()
    time.tzset()
    assert sorted(n for n, _ in late) == list(range(50))
    assert min(seconds for _, seconds in late) >= -0.001
    # Huey's own scheduler looks every minute here: half of its tasks would be later than that.
    assert statistics.median(seconds for _, seconds in late) < 15


def test_a_retry_waits_and_a_revoked_task_is_not_run(server: RealServer) -> None:
    app, ran = DehydratorHuey(url=server.url), []

    @app.task(retries=1, retry_delay=1)
    def fails(name: str) -> None:
        ran.append((name, time.time()))
        if len(ran) == 1:
            raise RuntimeError("once")

    with consuming(app):
        revoked = fails.schedule(("revoked",), delay=1)
        fails("fails")
        wait_until(lambda: app.scheduled_count() == 2)
        revoked.revoke()
        wait_until(lambda: len(ran) == 2 and app.scheduled_count() == 0)
        wait_until(lambda: not revoked.is_revoked() or app.pending_count() == 0)
    assert [name for name, _ in ran] == ["fails", "fails"]
    assert ran[1][1] - ran[0][1] >= 0.999


def test_a_scheduled_task_waits_in_the_server_without_a_worker(server: RealServer) -> None:
    app = DehydratorHuey(url=server.url)
    note = app.task()(print)
    results = [note.schedule((1,), delay=3600), app.enqueue(note.s(2, delay=3600).then(note, 3)), note(4)]
    assert (app.scheduled_count(), app.pending_count()) == (2, 1)
    assert results[0].revoke() is None
    assert [len(results[1]), results[2].id in {task.id for task in app.pending()}] == [2, True]


def test_what_waits_is_counted_listed_and_flushed_beside_that_of_hueys_own_storage(server: RealServer) -> None:
    app, own = DehydratorHuey(url=server.url), huey.RedisHuey(url=server.url)
    ran: list[Any] = []

    def note(n: int) -> None:
        ran.append(n)

    task, before = app.task(name="note")(note), own.task(name="note")(note)
    own.add_schedule(before.s(1, eta=datetime.now(timezone.utc).replace(tzinfo=None) + timedelta(hours=1)))
    for hours in (3, 2):
        app.add_schedule(task.s(hours, delay=3600 * hours))
    assert app.scheduled_count() == 3
    assert [waiting.args for waiting in app.scheduled()] == [(2,), (3,), (1,)]
    assert [waiting.args for waiting in app.scheduled(limit=1)] == [(2,)]
    app.storage.flush_schedule()
    assert app.scheduled_count() == 0
    own.add_schedule(before.s(4, eta=datetime(2020, 1, 1)))
    with consuming(app):
        wait_until(lambda: ran == [4])


def test_a_server_without_the_module_is_named(bare_server: RealServer) -> None:
    app = DehydratorHuey(url=bare_server.url)
    with pytest.raises(ModuleMissing):
        app.add_schedule(app.task()(print).s(delay=3600))
