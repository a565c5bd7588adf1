from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import pytest
from servers import RealServer, wait_until
from taskiq import AckableMessage, Context, SmartRetryMiddleware, TaskiqDepends, TaskiqMessage, TaskiqMiddleware
from taskiq.api import run_receiver_task

from dehydrator_queue import ModuleMissing
from dehydrator_queue.queue.commands import pairs
from dehydrator_queue.taskiq import DehydratorBroker
from dehydrator_queue.taskiq.schedules import plan_of

KEY = "taskiq:dehydrator"


async def until(true: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"it did not come true within {seconds} s"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def working(broker: DehydratorBroker) -> AsyncIterator[None]:
    # As in a worker's process.
    broker.is_worker_process = True
    receiving = asyncio.create_task(run_receiver_task(broker, run_startup=True))
    try:
        yield
    finally:
        receiving.cancel()
        with suppress(asyncio.CancelledError):
            await receiving
        await broker.shutdown()


def length(server: RealServer) -> int:
    return server.client.execute_command("DEHYDRATOR.LEN", KEY)


async def test_delayed_tasks_are_run_once_and_none_early(server: RealServer) -> None:
    broker, ran = DehydratorBroker(server.url, count=10), []

    @broker.task
    async def note(n: int, due: float) -> None:
        ran.append((n, time.time() - due))

    async with working(broker):
        for n in range(50):
            delay = 1 + n / 50
            await note.kicker().with_labels(delay_seconds=delay).kiq(n, time.time() + delay)
        await until(lambda: length(server) == 0)
    assert sorted(n for n, _ in ran) == list(range(50))
    assert min(late for _, late in ran) >= -0.001


async def test_a_task_may_be_too_late(server: RealServer) -> None:
    broker, ran = DehydratorBroker(server.url), []

    @broker.task(within_seconds=60)
    async def note(name: str) -> None:
        ran.append(name)

    await note.kicker().with_labels(delay_seconds=0.05, within_seconds=0.05).kiq("late")
    assert length(server) == 1
    await until(lambda: length(server) == 0)
    await note.kiq("in time")
    async with working(broker):
        await until(lambda: length(server) == 0)
    assert ran == ["in time"]


async def test_groups_of_tasks_take_turns_and_a_retry_keeps_its_group(server: RealServer) -> None:
    broker, ran = DehydratorBroker(server.url), []
    broker.add_middlewares(SmartRetryMiddleware(default_retry_count=3, default_delay=3600, default_retry_label=True))

    @broker.task(group="a")
    async def note(name: str) -> None:
        ran.append(name)
        if name == "a2":
            raise RuntimeError("again")

    for name in ("a1", "a2"):
        await note.kiq(name)
    for name, group in (("b1", "b"), ("-", "")):
        await note.kicker().with_labels(group=group).kiq(name)
    async with working(broker):
        # What waits for an hour is the retry, and no longer the task that failed.
        await until(lambda: len(ran) == 4 and server.client.execute_command("DEHYDRATOR.TTN", KEY) > 3_000_000)
    assert ran == ["a1", "b1", "-", "a2"]
    assert server.client.execute_command("DEHYDRATOR.LEN", KEY, "GROUP", "a") == 1


async def test_a_retry_waits_for_as_long_as_its_middleware_says(server: RealServer) -> None:
    broker, ran = DehydratorBroker(server.url), []
    broker.add_middlewares(SmartRetryMiddleware(default_retry_count=3, default_delay=1, default_retry_label=True))

    @broker.task
    async def fails() -> None:
        ran.append(time.time())
        raise RuntimeError("again")

    @broker.task(delay=3600)
    async def note() -> None:
        ran.append(time.time())

    async with working(broker):
        await fails.kiq()
        await until(lambda: len(ran) == 3)
        # This label sets the delay of its retries.
        await note.kiq()
        await until(lambda: len(ran) == 4)
    assert all(later - earlier >= 0.999 for earlier, later in itertools.pairwise(ran[:3]))


async def test_a_task_longer_than_its_lease_runs_once(server: RealServer) -> None:
    broker, ran = DehydratorBroker(server.url, lease=6.0), []

    @broker.task
    async def slow() -> None:
        ran.append(1)
        await asyncio.sleep(9)

    async with working(broker):
        await slow.kiq()
        await until(lambda: length(server) == 0)
    assert ran == [1]


async def test_what_was_not_acknowledged_is_given_back_at_the_end(server: RealServer) -> None:
    broker = DehydratorBroker(server.url, count=5)

    @broker.task
    async def note() -> None: ...

    for _ in range(3):
        await note.kiq()
    listening = broker.listen()
    await (await anext(listening)).ack()
    await anext(listening)
    assert server.client.execute_command("DEHYDRATOR.INFO", KEY)[3] == 0
    await listening.aclose()
    await broker.shutdown()
    told = pairs(server.client.execute_command("DEHYDRATOR.INFO", KEY))
    # One was passed on, and may have begun.
    assert (told["due"], told["given-out"]) == (2, 1)


@pytest.mark.parametrize("keys", [None, 2])
async def test_short_tasks_are_taken_many_at_a_time(server: RealServer, keys: int | None) -> None:
    broker, ran = DehydratorBroker(server.url, keys=keys), []

    @broker.task
    async def note(n: int) -> None:
        ran.append(n)

    for n in range(600):
        await note.kiq(n)
    server.client.config_resetstat()
    async with working(broker):
        while await broker.queue().length():
            await asyncio.sleep(0.02)
    assert sorted(ran) == list(range(600))
    assert calls(server, "poll") < 400


def calls(server: RealServer, command: str) -> int:
    return server.client.info("commandstats")[f"cmdstat_dehydrator.{command}"]["calls"]


async def test_acks_at_the_same_time_are_one_command(server: RealServer) -> None:
    broker = DehydratorBroker(server.url)

    @broker.task
    async def note() -> None: ...

    for _ in range(20):
        await note.kiq()
    listening = broker.listen()
    messages = [await anext(listening) for _ in range(20)]
    server.client.config_resetstat()
    await asyncio.gather(*(message.ack() for message in messages))
    assert length(server) == 0
    assert calls(server, "settle") <= 2
    await listening.aclose()
    await broker.shutdown()


async def test_an_ack_that_is_refused_raises_and_later_ones_are_sent(server: RealServer) -> None:
    broker = DehydratorBroker(server.url)

    @broker.task
    async def note() -> None: ...

    for _ in range(3):
        await note.kiq()
    listening = broker.listen()
    messages = [await anext(listening) for _ in range(3)]
    server.client.rename(KEY, "aside")
    server.client.set(KEY, "a string")
    refused = await asyncio.gather(*(message.ack() for message in messages[:2]), return_exceptions=True)
    assert all("WRONGTYPE" in str(error) for error in refused)
    server.client.rename("aside", KEY)
    await messages[2].ack()
    assert length(server) == 2
    await listening.aclose()
    await broker.shutdown()


async def test_tasks_that_a_worker_has_no_room_for_are_given_back_in_their_place(server: RealServer) -> None:
    broker, another, names = DehydratorBroker(server.url), DehydratorBroker(server.url, count=1), []

    async def note(n: int) -> None: ...

    for each in (broker, another):
        task = each.register_task(note, "note")

    def name_of(message: AckableMessage) -> int:
        return broker.formatter.loads(message.data).args[0]

    for n in range(40):
        await task.kiq(n)
    listening = broker.listen()
    # The receiver asks until more are leased than it has asked for, and then has no room.
    while in_hand(server) == len(names):
        names.append(name_of(await anext(listening)))
    await until(lambda: in_hand(server) == len(names))
    told = pairs(server.client.execute_command("DEHYDRATOR.INFO", KEY))
    assert told["given-out"] == len(names)
    others = another.listen()
    names += [name_of(await anext(others)) for _ in range(40 - len(names))]
    assert names == list(range(40))
    # The first one has room again.
    await task.kiq(40)
    assert name_of(await anext(listening)) == 40
    for each in (listening, others):
        await each.aclose()
    for each in (broker, another):
        await each.shutdown()


async def test_no_task_waits_in_a_busy_worker_while_another_is_idle(server: RealServer) -> None:
    busy, idle = DehydratorBroker(server.url), DehydratorBroker(server.url)
    done, finish = [], asyncio.Event()

    async def note(n: int) -> None:
        if n == 200:
            await finish.wait()
        done.append(n)

    task = busy.register_task(note, "note")
    idle.register_task(note, "note")
    # Short tasks, so that the first worker takes many at a time, then a long one, and those behind it.
    for n in range(300):
        await task.kiq(n)
    busy.is_worker_process = True
    receiving = asyncio.create_task(run_receiver_task(busy, run_startup=True, max_async_tasks=1))
    await until(lambda: len(done) == 200)
    async with working(idle):
        await until(lambda: len(done) == 299)
        finish.set()
        await until(lambda: length(server) == 0)
    receiving.cancel()
    with suppress(asyncio.CancelledError):
        await receiving
    await busy.shutdown()
    assert sorted(done) == list(range(300))


async def test_a_message_that_nobody_acknowledges_comes_again(server: RealServer) -> None:
    dead, alive = DehydratorBroker(server.url, lease=0.5), DehydratorBroker(server.url, lease=60)

    async def note() -> None: ...

    alive.register_task(note, "note")
    await dead.register_task(note, "note").kiq()
    listening = dead.listen()
    first = await anext(listening)
    dead._renewing.cancel()
    second = await asyncio.wait_for(anext(alive.listen()), 240)
    assert first.data == second.data
    await first.ack()
    assert length(server) == 1
    await second.ack()
    assert length(server) == 0


async def test_a_task_that_waits_is_cancelled_by_its_id(server: RealServer) -> None:
    broker = DehydratorBroker(server.url)

    @broker.task
    async def note() -> None: ...

    sent = await note.kicker().with_labels(delay_seconds=60).kiq()
    assert await broker.cancel(sent.task_id)
    assert not await broker.cancel(sent.task_id)
    assert length(server) == 0


async def test_a_task_that_is_being_worked_on_is_not_cancelled(server: RealServer) -> None:
    broker, ran, go_on = DehydratorBroker(server.url), [], asyncio.Event()

    @broker.task
    async def waits() -> None:
        ran.append("begun")
        await go_on.wait()
        ran.append("ended")

    async with working(broker):
        sent = await waits.kiq()
        await until(lambda: ran)
        assert not await broker.cancel(sent.task_id)
        assert length(server) == 1
        go_on.set()
        await until(lambda: length(server) == 0)
    assert ran == ["begun", "ended"]


async def test_a_broker_goes_on_when_the_server_restarts(own_server: RealServer) -> None:
    broker, ran = DehydratorBroker(own_server.url), []

    @broker.task
    async def note(n: int) -> None:
        ran.append(n)

    async with working(broker):
        for n in range(50):
            await note.kicker().with_labels(delay_seconds=n / 25).kiq(n)
        await until(lambda: len(ran) > 5)
        await asyncio.to_thread(own_server.restart)
        await until(lambda: own_server.client.execute_command("DEHYDRATOR.LEN", KEY) == 0)
    assert sorted(ran) == list(range(50))


async def test_what_cannot_be_decoded_is_a_dead_letter_and_work_goes_on(server: RealServer) -> None:
    broker, ran = DehydratorBroker(server.url, count=3), []

    @broker.task
    async def note() -> None:
        ran.append(1)

    server.client.execute_command("DEHYDRATOR.PUSH", KEY, 0, b"\xff{", "bad")
    await note.kiq()
    async with working(broker):
        await until(lambda: length(server) == 0)
    assert ran == [1]
    ((_, letter),) = server.client.xrange(f"{KEY}:dead")
    assert (letter[b"id"], letter[b"element"]) == (b"bad", b"\xff{")
    assert letter[b"reason"].startswith(b"it cannot be decoded")


async def test_a_task_that_the_worker_does_not_know_is_a_dead_letter(server: RealServer) -> None:
    newer, older, ran = DehydratorBroker(server.url), DehydratorBroker(server.url), []

    async def note() -> None:
        ran.append(1)

    older.register_task(note, "note")
    await newer.register_task(note, "another").kiq()
    await newer.register_task(note, "note").kiq()
    async with working(older):
        await until(lambda: length(server) == 0)
    assert ran == [1]
    ((_, letter),) = server.client.xrange(f"{KEY}:dead")
    assert letter[b"reason"] == b"there is no task another"


async def test_a_broker_shuts_down_while_the_server_is_away(own_server: RealServer) -> None:
    broker = DehydratorBroker(own_server.url, count=2, patience=0.3)

    @broker.task
    async def note() -> None: ...

    for _ in range(2):
        await note.kiq()
    listening = broker.listen()
    in_hand = [await anext(listening) for _ in range(2)]
    own_server.kill()
    await broker.shutdown()
    assert broker._renewing.done()
    assert len(in_hand) == 2


async def test_a_server_without_the_module_is_named(bare_server: RealServer) -> None:
    with pytest.raises(ModuleMissing):
        await DehydratorBroker(bare_server.url).startup()


def in_hand(server: RealServer) -> int:
    _, length, _, due, *_ = server.client.execute_command("DEHYDRATOR.INFO", KEY)
    return length - due


async def test_a_reply_on_its_way_to_a_cancelled_listener_is_given_back(server: RealServer) -> None:
    broker = DehydratorBroker(server.url)
    listening = asyncio.ensure_future(anext(broker.listen()))
    await until(lambda: server.client.info("clients")["blocked_clients"] == 1)
    # The server replies, and this loop has no time to read it.
    server.client.execute_command("DEHYDRATOR.PUSH", KEY, 0, "x", "a")
    wait_until(lambda: in_hand(server) == 1)
    listening.cancel()
    with suppress(asyncio.CancelledError):
        await listening
    assert in_hand(server) == 0
    assert length(server) == 1
    assert pairs(server.client.execute_command("DEHYDRATOR.INFO", KEY))["given-out"] == 0
    await broker.shutdown()


async def test_what_a_cancelled_receiver_had_in_hand_is_given_back(server: RealServer) -> None:
    broker, ran = DehydratorBroker(server.url, count=10), []

    @broker.task
    async def slow() -> None:
        ran.append(1)
        await asyncio.sleep(30)

    for _ in range(5):
        await slow.kiq()
    broker.is_worker_process = True
    receiving = asyncio.create_task(run_receiver_task(broker, run_startup=True, max_async_tasks=2, max_prefetch=2))
    await until(lambda: len(ran) == 2)
    receiving.cancel()
    with suppress(asyncio.CancelledError):
        await receiving
    await broker.shutdown()
    assert in_hand(server) == 0
    # An interrupted job does not count as done.
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert length(server) == 5
    assert len(ran) == 2


async def test_a_message_that_its_receiver_dropped_comes_again(
    server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest's reference to it would keep the message alive.
    monkeypatch.setattr(logging.getLogger("asyncio"), "disabled", True)
    seen = []

    class Fails(TaskiqMiddleware):
        def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
            seen.append(time.monotonic())
            if len(seen) == 1:
                raise RuntimeError("once")
            return message

    broker = DehydratorBroker(server.url, lease=4).with_middlewares(Fails())

    @broker.task
    async def note() -> None: ...

    async with working(broker):
        await note.kiq()
        await until(lambda: seen)
        # The receiver keeps a reference to the last message, and an error one to its frames.
        await note.kiq()
        await until(lambda: gc.collect() >= 0 and length(server) == 0)
    assert len(seen) == 3
    assert seen[2] - seen[0] >= 3.9


def scheduled(server: RealServer, ran: list[Any], schedule: Any, **labels: Any) -> DehydratorBroker:
    broker = DehydratorBroker(server.url, schedules=True, count=10)

    @broker.task("note", schedule=schedule, **labels)
    async def note(name: str, context: Annotated[Context, TaskiqDepends()]) -> None:
        ran.append((name, context.message.task_id, context.message.labels, time.time()))

    return broker


async def test_workers_serve_the_schedules_of_labels(server: RealServer) -> None:
    ran: list[Any] = []
    schedule = [{"interval": timedelta(seconds=0.2), "args": ["anna"], "labels": {"a": 1}, "missed": "all"}]
    brokers = [scheduled(server, ran, schedule, b="2") for _ in range(3)]
    async with working(brokers[0]), working(brokers[1]), working(brokers[2]):
        await until(lambda: len(ran) >= 20)
    moments = sorted(int(id.removeprefix("note@")) for _, id, _, _ in ran)
    # Each occurrence once, and none early.
    assert moments == list(range(moments[0], moments[-1] + 1, 200))
    assert all(at * 1000 >= int(id.removeprefix("note@")) for _, id, _, at in ran)
    name, _, labels, _ = ran[0]
    assert (name, labels["a"], labels["b"], labels["schedule_id"]) == ("anna", 1, "2", "note")


async def test_schedules_that_leave_the_labels_leave_the_server(server: RealServer) -> None:
    def stored() -> set[str]:
        rows = server.client.execute_command("DEHYDRATOR.SCHEDULES", f"{KEY}:schedules")
        return {row[1].decode() for row in rows}

    cron = {"cron": "0 9 * * 1-5", "cron_offset": "Europe/Berlin", "args": ["x"]}
    async with working(scheduled(server, [], [cron, {"interval": 3600, "args": ["y"], "schedule_id": "hourly"}])):
        await until(lambda: stored() == {"note", "hourly"})
        async with working(scheduled(server, [], [cron])):
            await until(lambda: stored() == {"note"})
    with pytest.raises(ValueError, match="time zone"):
        plan_of({**cron, "cron_offset": timedelta(hours=1)})


async def test_a_schedule_for_one_moment_runs_once(server: RealServer) -> None:
    ran: list[Any] = []
    schedule = [{"time": datetime.now(timezone.utc) + timedelta(seconds=0.5), "args": ["once"]}]
    async with working(scheduled(server, ran, schedule)):
        await until(lambda: ran)
    async with working(scheduled(server, ran, schedule)):
        await asyncio.sleep(1.5)
    assert len(ran) == 1


async def test_middlewares_see_the_tasks_of_schedules(server: RealServer) -> None:
    sent: list[str] = []

    class Noting(TaskiqMiddleware):
        def pre_send(self, message: TaskiqMessage) -> TaskiqMessage:
            message.labels["seen"] = "yes"
            return message

        async def post_send(self, message: TaskiqMessage) -> None:
            sent.append(message.task_id)

    ran: list[Any] = []
    broker = scheduled(server, ran, [{"interval": 1, "args": ["x"]}]).with_middlewares(Noting())
    async with working(broker):
        await until(lambda: ran)
    assert ran[0][1] == sent[0]
    assert ran[0][2]["seen"] == "yes"
