"""Dramatiq and taskiq with queues on several nodes of a cluster: of one key each, and of several keys."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import dramatiq
import pytest
from servers import RealServer, wait_until
from taskiq import Context, SmartRetryMiddleware, TaskiqDepends, TaskiqMessage, TaskiqMiddleware
from test_dramatiq import working
from test_taskiq import until
from test_taskiq import working as taskiq_working
from topologies import Cluster
from workers import Fleet

from dehydrator_queue import Queue
from dehydrator_queue.dramatiq import DehydratorBroker, every
from dehydrator_queue.taskiq import DehydratorBroker as TaskiqBroker

#: For how long a consumer sleeps in the server, in seconds, where a test distinguishes that from being woken.
BLOCK = 10.0
#: Without `keys`, these queues are on three nodes.
NAMES = ["default", "mail", "import", "report"]


slow = partial(pytest.param, marks=pytest.mark.slow)
ON_NODES = pytest.mark.parametrize("place", ["cluster with keys", slow("cluster")], indirect=True)


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer of several keys waits so long when it is closed."""
    monkeypatch.setattr("dehydrator_queue.dramatiq.broker.LONGEST_BLOCK", 0.2)


@pytest.fixture(params=["server with keys", slow("cluster with keys"), slow("cluster")])
def place(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options of a broker."""
    at, *has_keys = request.param.split()
    return {"url": request.getfixturevalue(at).url, "keys": (2 if at == "server" else "auto") if has_keys else None}


@pytest.fixture
def broker(place: dict[str, Any]) -> Iterator[DehydratorBroker]:
    broker = DehydratorBroker(**place)
    yield broker
    broker.close()


def lengths(at: RealServer | Cluster) -> list[int]:
    """Returns how much each node has."""
    nodes = at.nodes if isinstance(at, Cluster) else [at]
    queues = [[key for key in node.client.scan_iter() if key.endswith(b"}")] for node in nodes]
    return [
        sum(node.client.execute_command("DEHYDRATOR.LEN", key) for key in keys)
        for node, keys in zip(nodes, queues, strict=True)
    ]


@ON_NODES
def test_dramatiq_runs_each_message_of_all_nodes_once_and_none_early(
    broker: DehydratorBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dehydrator_queue.dramatiq.broker.LONGEST_BLOCK", BLOCK)
    ran: list[tuple[int, float]] = []
    actors = [
        dramatiq.actor(
            lambda n, due: ran.append((n, time.time() - due)), actor_name=name, queue_name=name, broker=broker
        )
        for name in NAMES
    ]
    with working(broker):
        for n in range(80):
            delay = 5 * n
            actors[n % 4].send_with_options(args=(n, time.time() + delay / 1000), delay=delay)
        for name in NAMES:
            broker.join(name, timeout=240_000)
    assert Counter(n for n, _ in ran) == Counter(range(80))
    assert min(late for _, late in ran) >= -0.001
    # Each key wakes the worker: without that, half of them would be later.
    assert statistics.median(late for _, late in ran) < BLOCK / 2


def test_queues_and_keys_of_dramatiq_are_on_all_nodes(cluster: Cluster) -> None:
    for keys in (None, "auto"):
        broker = DehydratorBroker(url=cluster.url, keys=keys)
        for n in range(40):
            name = "default" if keys else NAMES[n % 4]
            broker.enqueue(dramatiq.Message(name, "note", (n,), {}, {}), delay=60_000)
        assert all(lengths(cluster))
        assert sum(lengths(cluster)) == 40
        for name in NAMES:
            broker.flush(name)
        assert sum(lengths(cluster)) == 0
        broker.close()


def test_dramatiq_takes_no_more_than_its_prefetch_of_all_keys(broker: DehydratorBroker) -> None:
    for n in range(12):
        broker.enqueue(dramatiq.Message("default", "note", (n,), {}, {}))
    consumer = broker.consume("default", prefetch=5, timeout=60_000)

    def held() -> int:
        return int(broker.queue().info()["leased"])

    taken = [next(consumer) for _ in range(5)]
    assert next(consumer) is None
    assert held() == 5
    consumer.ack(taken.pop())
    consumer.nack(taken.pop())
    taken += [next(consumer), next(consumer)]
    assert held() == 5
    consumer.requeue(taken[:1])
    consumer.close()
    assert (held(), len(broker.queue()), len(broker.queue().dead_letters())) == (4, 10, 1)
    again = broker.consume("default", prefetch=6, timeout=60_000)
    # What was given back was no attempt.
    assert {m.message_id for m in [next(again) for _ in range(6)]}.isdisjoint(m.message_id for m in taken[1:])
    again.close()


def test_dramatiq_retries_buries_and_cancels(broker: DehydratorBroker) -> None:
    ran: list[str] = []

    @dramatiq.actor(broker=broker, max_retries=1, min_backoff=50, max_backoff=50)
    def note(what: str) -> None:
        ran.append(what)
        if what == "fails":
            raise RuntimeError("no such mailbox")

    @dramatiq.actor(broker=broker, priority=-1)
    def first() -> None:
        ran.append("first")

    waiting = [note.send_with_options(args=("later",), delay=60_000) for _ in range(6)]
    # Under the same message id: in another key, if there are several.
    copy = broker.enqueue(waiting[0].copy(args=("copy",)), delay=60_000)
    assert [broker.cancel(message) for message in waiting] == [True] * 6
    assert [broker.cancel(message) for message in (waiting[0], copy, copy)] == [False, True, False]
    for n in range(4):
        note.send(f"{n}")
    first.send()
    for n in range(4):
        broker.queue().put(b"{not json", id=f"bad:{n}")
    note.send("fails")
    with working(broker, worker_threads=1):
        broker.join("default", timeout=240_000)
    assert Counter(ran) == Counter(["0", "1", "2", "3", "first", "fails", "fails"])
    reasons = sorted(letter.reason for letter in broker.queue().dead_letters())
    assert reasons[0] == "RuntimeError: no such mailbox"
    assert [reason[:20] for reason in reasons[1:]] == ["it cannot be decoded"] * 4


@pytest.mark.slow
def test_dramatiq_follows_a_change_of_the_keys(server: RealServer) -> None:
    broker, ran = DehydratorBroker(url=server.url, keys=2), []
    note = dramatiq.actor(ran.append, actor_name="note", broker=broker)
    with working(broker):
        sent = [note.send_with_options(args=(n,), delay=600) for n in range(10)]
        broker.queue().set_keys(4)
        assert broker.cancel(sent[3])
        for n in range(10, 20):
            note.send(n)
        broker.join("default", timeout=240_000)
        assert broker.queue().forget_keys() == 0
    assert sorted(ran) == [n for n in range(20) if n != 3]
    broker.close()


@ON_NODES
async def test_taskiq_runs_each_task_of_all_nodes_once_and_none_early(place: dict[str, Any]) -> None:
    broker, ran = TaskiqBroker(**place, count=10, block=BLOCK), []

    @broker.task
    async def note(n: int, due: float) -> None:
        ran.append((n, time.time() - due))

    async with taskiq_working(broker):
        for n in range(60):
            await note.kicker().with_labels(delay_seconds=n / 100).kiq(n, time.time() + n / 100)
        while await broker.queue().length():
            await asyncio.sleep(0.02)
    assert Counter(n for n, _ in ran) == Counter(range(60))
    assert min(late for _, late in ran) >= -0.001
    assert statistics.median(late for _, late in ran) < BLOCK / 2


async def test_taskiq_takes_its_count_of_all_keys_and_gives_back_what_nobody_asked_for(place: dict[str, Any]) -> None:
    broker = TaskiqBroker(**place, count=3, block=0.3)

    @broker.task
    async def note() -> None: ...

    for _ in range(9):
        await note.kiq()
    listening = broker.listen()
    first = await anext(listening)
    second = await anext(listening)
    for _ in range(10):
        await asyncio.sleep(0.02)
        # Two were passed on; the listener asks for what takes the place of the second when it is asked itself.
        assert (await broker.queue().info())["leased"] <= 4
    await first.ack()
    await listening.aclose()
    assert (await broker.queue().info())["leased"] == 1
    assert await broker.queue().length() == 8
    await second.ack()
    assert await broker.queue().length() == 7
    await broker.shutdown()


async def test_tasks_of_several_keys_that_a_worker_has_no_room_for_are_given_back(server: RealServer) -> None:
    broker, messages = TaskiqBroker(server.url, keys=2, block=0.2), []

    @broker.task
    async def note() -> None: ...

    async def leased() -> int:
        return (await broker.queue().info())["leased"]

    # On a busy machine, that takes some hundred.
    for _ in range(tasks := 600):
        await note.kiq()
    listening = broker.listen()
    # The receiver asks until more are leased than it has asked for, and then has no room.
    while await leased() <= len(messages) + 1:
        messages.append(await anext(listening))
        assert len(messages) < tasks
    end = time.monotonic() + 120
    while await leased() > len(messages):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
    # It has room again.
    messages.append(await anext(listening))
    await listening.aclose()
    for message in messages:
        await message.ack()
    assert await broker.queue().length() == tasks - len(messages)
    await broker.shutdown()


async def test_taskiq_retries_buries_and_cancels(place: dict[str, Any]) -> None:
    broker, ran = TaskiqBroker(**place, count=5, block=0.2), []
    broker.add_middlewares(SmartRetryMiddleware(default_retry_count=2, default_delay=0.05, default_retry_label=True))

    @broker.task
    async def note(n: int) -> None:
        ran.append(n)
        if n == 4:
            raise RuntimeError("again")

    waiting = [await note.kicker().with_labels(delay_seconds=60).kiq(0) for _ in range(6)]
    assert [await broker.cancel(task.task_id) for task in waiting] == [True] * 6
    assert not await broker.cancel(waiting[0].task_id)
    for n in range(5):
        await broker.queue().put(b"{not json", id=f"bad:{n}")
        await note.kiq(n)
    async with taskiq_working(broker):
        await until(lambda: len(ran) == 6)
        while await broker.queue().length():
            await asyncio.sleep(0.02)
    assert sorted(ran) == [0, 1, 2, 3, 4, 4]
    assert len(await broker.queue().dead_letters()) == 5


@pytest.mark.slow
async def test_taskiq_renews_the_leases_of_all_keys(place: dict[str, Any]) -> None:
    broker, ran = TaskiqBroker(**place, lease=6.0, count=6, block=0.2), []

    @broker.task
    async def note(n: int) -> None:
        ran.append(n)
        await asyncio.sleep(9)

    for n in range(6):
        await note.kiq(n)
    async with taskiq_working(broker):
        while await broker.queue().length():
            await asyncio.sleep(0.02)
    assert sorted(ran) == list(range(6))


@pytest.mark.slow
async def test_tasks_of_several_queues_are_on_several_nodes(cluster: Cluster) -> None:
    brokers = [TaskiqBroker(cluster.url, name, block=0.2) for name in NAMES]
    ran: list[int] = []
    for broker in brokers:
        broker.task(task_name="note")(lambda n: ran.append(n))
    for n in range(20):
        task = brokers[0].find_task("note")
        await task.kicker().with_labels(queue_name=NAMES[n % 4]).kiq(n)
    assert [bool(node.client.keys()) for node in cluster.nodes] == [True, True, False]
    async with AsyncExitStack() as stack:
        for broker in brokers:
            await stack.enter_async_context(taskiq_working(broker))
        await until(lambda: len(ran) == 20)
    assert sorted(ran) == list(range(20))


def grid(ids: Any, name: str, step: int) -> bool:
    """Returns whether each occurrence of a schedule, from the first to the last one, is there."""
    moments = sorted({int(id.partition("@")[2]) for id in ids if id.startswith(f"{name}@")})
    return len(moments) > 0 and moments == list(range(moments[0], moments[-1] + 1, step))


def fail_over(cluster: Cluster) -> None:
    """Makes the node of the slot and its replica switch roles, which loses no write."""
    old = cluster.owner()
    new = wait_until(lambda: next((node for node in cluster.nodes if cluster.is_replica_of(node, old)), None))
    new.client.execute_command("CLUSTER", "FAILOVER")
    wait_until(lambda: cluster.owner() is new)


def test_dramatiq_sends_what_occurs(place: dict[str, Any]) -> None:
    broker, ran = DehydratorBroker(schedules=True, **place), []

    class Notes(dramatiq.Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            ran.append(message.message_id)

    broker.add_middleware(Notes())
    for name in ("default", "mail"):
        dramatiq.actor(
            lambda: None, actor_name=name, queue_name=name, broker=broker, periodic=every(0.05, missed="all")
        )
    with working(broker):
        wait_until(lambda: all(len([id for id in ran if id.startswith(name)]) > 9 for name in ("default", "mail")))
        assert broker.schedules().pause("default")
        [schedule] = broker.schedules("mail")
        assert broker.schedules("mail").pause(schedule.name)
        for name in ("default", "mail"):
            broker.join(name, timeout=240_000)
    assert all(grid(ran, name, 50) for name in ("default", "mail"))
    broker.close()


async def test_taskiq_sends_what_occurs(place: dict[str, Any]) -> None:
    broker, ran, sent = TaskiqBroker(schedules=True, block=0.2, **place), [], []

    class Notes(TaskiqMiddleware):
        def pre_send(self, message: TaskiqMessage) -> TaskiqMessage:
            sent.append(message.task_id)
            return message

    broker.add_middlewares(Notes())

    @broker.task(task_name="tick", schedule=[{"interval": 0.05, "missed": "all"}])
    async def tick(context: Annotated[Context, TaskiqDepends()]) -> None:
        ran.append(context.message.task_id)

    async with taskiq_working(broker):
        await until(lambda: len(ran) > 9)
        assert await broker.schedules().pause("tick")
        while await broker.queue().length():
            await asyncio.sleep(0.02)
    assert grid(ran, "tick", 50)
    assert set(ran) <= set(sent)


PROGRAMS = {
    "dramatiq": """
import sys, time, dramatiq, redis
from dehydrator_queue import Queue
from dehydrator_queue.dramatiq import DehydratorBroker
broker, done = DehydratorBroker(url=sys.argv[1], keys=3, lease=2), redis.Redis(port=int(sys.argv[2]))
@dramatiq.actor(broker=broker, actor_name="note")
def note(n, due):
    done.rpush("done", f"{n} {time.time() - due}")
dramatiq.Worker(broker, worker_threads=2).start()
time.sleep(600)
""",
    "taskiq": """
import asyncio, sys, time, redis.asyncio
from dehydrator_queue.taskiq import DehydratorBroker
from taskiq.api import run_receiver_task
broker, done = DehydratorBroker(sys.argv[1], keys=3, lease=2, count=4), redis.asyncio.Redis(port=int(sys.argv[2]))
@broker.task(task_name="note")
async def note(n: int, due: float) -> None:
    await done.rpush("done", f"{n} {time.time() - due}")
broker.is_worker_process = True
asyncio.run(run_receiver_task(broker, run_startup=True))
""",
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["dramatiq", "taskiq"])
async def test_workers_are_killed_nodes_fail_over_and_all_is_done(
    tmp_path: Path, server: RealServer, kind: str
) -> None:
    size, kills = 600, 8
    queue = "dramatiq:default" if kind == "dramatiq" else "taskiq:dehydrator"
    cluster = Cluster(tmp_path, f"{{{queue}:0}}")

    command = [sys.executable, "-c", PROGRAMS[kind], cluster.url, str(server.port)]
    with closing(cluster), closing(Fleet(lambda _: subprocess.Popen(command, start_new_session=True), 3)) as fleet:
        for n in range(size):
            delay = n / 20
            if kind == "dramatiq":
                if n == 0:
                    broker = DehydratorBroker(url=cluster.url, keys=3, patience=60)
                message = dramatiq.Message("default", "note", (n, time.time() + delay), {}, {})
                broker.enqueue(message, delay=int(1000 * delay))
            else:
                if n == 0:
                    broker = TaskiqBroker(cluster.url, keys=3, patience=60)
                    note = broker.task(task_name="note")(lambda n, due: None)
                await note.kicker().with_labels(delay_seconds=delay).kiq(n, time.time() + delay)
        for n in range(kills):
            before = server.client.llen("done")
            wait_until(lambda before=before: server.client.llen("done") > before + 20)
            if n % 2:
                fail_over(cluster)
            fleet.kill_one()
        with Queue(cluster.url, queue, keys=3, patience=60) as jobs:
            wait_until(lambda: len(jobs) == 0)
            assert jobs.dead_letters() == []
    done = [line.decode().split() for line in server.client.lrange("done", 0, -1)]
    counts = Counter(int(n) for n, _ in done)
    print(len(done), "runs")
    assert set(counts) == set(range(size))
    assert min(float(late) for _, late in done) >= -0.001
    # What a killed worker had: it takes at most four at a time.
    assert len(done) - size <= 4 * kills
