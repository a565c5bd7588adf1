from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq.errors import QueueJoinTimeout
from servers import RealServer, wait_until

from dehydrator_queue.dramatiq import DehydratorBroker
from dehydrator_queue.queue.commands import pairs

KEY = "dramatiq:default"


@pytest.fixture
def broker(server: RealServer) -> Iterator[DehydratorBroker]:
    broker = DehydratorBroker(url=server.url)
    dramatiq.set_broker(broker)
    yield broker
    broker.close()


@contextmanager
def working(broker: DehydratorBroker, **options: Any) -> Iterator[dramatiq.Worker]:
    worker = dramatiq.Worker(broker, **{"worker_timeout": 100, "worker_threads": 4, **options})
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


def dead(server: RealServer) -> list[dict[bytes, bytes]]:
    return [entry for _, entry in server.client.xrange(f"{KEY}:dead")]


def test_delayed_messages_are_run_once_and_none_early(broker: DehydratorBroker) -> None:
    ran = []

    @dramatiq.actor
    def note(n: int, due: float) -> None:
        ran.append((n, time.time() - due))

    with working(broker):
        for n in range(50):
            delay = 1000 + 20 * n
            note.send_with_options(args=(n, time.time() + delay / 1000), delay=delay)
        broker.join("default", timeout=240_000)
    assert sorted(n for n, _ in ran) == list(range(50))
    assert min(late for _, late in ran) >= -0.001


def test_the_server_may_be_named_as_that_of_the_redis_broker_is(server: RealServer) -> None:
    broker = DehydratorBroker(host="127.0.0.1", port=server.port, db=1)
    broker.ask("SET", "here", 1)
    broker.close()
    with redis.Redis(port=server.port, db=1) as client:
        assert client.exists("here")


@pytest.mark.parametrize(("options", "most"), [({}, 10_000), ({"keep_dead": 3}, 3), ({"keep_dead": None}, 0)])
def test_the_number_of_dead_letters_is_limited(server: RealServer, options: dict[str, Any], most: int) -> None:
    broker = DehydratorBroker(url=server.url, **options)
    server.client.execute_command("DEHYDRATOR.PUSH", KEY, 0, "{not json", "new")
    assert next(broker.consume("default", timeout=100)) is None
    assert [entry[b"id"] for entry in dead(server)] == [b"new"]
    assert broker.queue("default").info()["policy"]["maxlen"] == most


def test_no_queue_of_delayed_messages_is_declared(broker: DehydratorBroker) -> None:
    broker.declare_queue("default")
    assert broker.get_declared_queues() == {"default"}
    assert broker.get_declared_delay_queues() == set()


def test_an_actor_longer_than_the_lease_runs_once(server: RealServer) -> None:
    broker, ran = DehydratorBroker(url=server.url, lease=6.0), []
    dramatiq.set_broker(broker)

    @dramatiq.actor
    def slow() -> None:
        ran.append(1)
        time.sleep(9)

    with working(broker):
        slow.send()
        broker.join("default", timeout=240_000)
    broker.close()
    assert ran == [1]


def test_what_fails_is_tried_again_and_then_a_dead_letter(broker: DehydratorBroker, server: RealServer) -> None:
    ran = []

    @dramatiq.actor(max_retries=2, min_backoff=100, max_backoff=100)
    def fails() -> None:
        ran.append(1)
        raise RuntimeError("no such mailbox")

    with working(broker):
        sent = fails.send()
        broker.join("default", timeout=240_000)
    assert len(ran) == 3
    (letter,) = dead(server)
    assert letter[b"reason"] == b"RuntimeError: no such mailbox"
    assert dramatiq.Message.decode(letter[b"element"]).message_id == sent.message_id


def test_a_message_of_an_unknown_actor_is_a_dead_letter(broker: DehydratorBroker, server: RealServer) -> None:
    broker.declare_queue("default")
    broker.enqueue(dramatiq.Message("default", "nobody", (), {}, {}))
    with working(broker):
        broker.join("default", timeout=240_000)
    assert len(dead(server)) == 1


def test_what_cannot_be_decoded_is_a_dead_letter_and_work_goes_on(broker: DehydratorBroker, server: RealServer) -> None:
    ran = []

    @dramatiq.actor
    def note() -> None:
        ran.append(1)

    server.client.execute_command("DEHYDRATOR.PUSH", KEY, 0, b"\xff{", "bad")
    note.send()
    with working(broker):
        broker.join("default", timeout=240_000)
    assert ran == [1]
    (letter,) = dead(server)
    assert (letter[b"id"], letter[b"element"]) == (b"bad", b"\xff{")
    assert letter[b"reason"].startswith(b"it cannot be decoded")


def test_a_stop_gives_back_what_was_not_begun(broker: DehydratorBroker, server: RealServer) -> None:
    @dramatiq.actor
    def slow() -> None:
        time.sleep(1)

    for _ in range(12):
        slow.send()
    with working(broker, worker_threads=1):
        wait_until(lambda: server.client.execute_command("DEHYDRATOR.INFO", KEY)[5])
    told = pairs(server.client.execute_command("DEHYDRATOR.INFO", KEY))
    assert told["due"] == told["length"] >= 2
    # It counts nothing.
    assert told["given-out"] == 0


def test_what_a_consumer_took_and_did_not_pass_on_counts_nothing(broker: DehydratorBroker, server: RealServer) -> None:
    @dramatiq.actor
    def note() -> None: ...

    for _ in range(3):
        note.send()
    consumer = broker.consume("default", prefetch=3)
    first = next(consumer)
    consumer.close()
    told = pairs(server.client.execute_command("DEHYDRATOR.INFO", KEY))
    assert (told["due"], told["given-out"]) == (2, 1)
    consumer.requeue([first])
    told = pairs(server.client.execute_command("DEHYDRATOR.INFO", KEY))
    assert (told["due"], told["given-out"]) == (3, 0)


def test_a_full_consumer_takes_more_once_half_of_its_messages_have_ended(
    broker: DehydratorBroker, server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dehydrator_queue.dramatiq.broker.PAUSE", 60.0)

    @dramatiq.actor
    def note() -> None: ...

    for _ in range(6):
        note.send()
    consumer = broker.consume("default", prefetch=4, timeout=240_000)
    consumer.block = 60.0
    held = [next(consumer) for _ in range(4)]
    ack = threading.Timer(0.2, lambda: [consumer.ack(message) for message in held[:2]])
    began = time.monotonic()
    ack.start()
    assert next(consumer) is not None
    assert next(consumer) is not None
    assert 0.1 < time.monotonic() - began < 30
    ack.join()
    # With nothing ended it gives the worker a chance to stop.
    monkeypatch.setattr("dehydrator_queue.dramatiq.broker.PAUSE", 0.01)
    assert next(consumer) is None


def test_a_message_may_be_too_late(broker: DehydratorBroker, server: RealServer) -> None:
    ran = []

    @dramatiq.actor(max_retries=1, min_backoff=50)
    def note(name: str) -> None:
        ran.append(name)
        if len(ran) == 1:
            raise RuntimeError("again")

    note.send_with_options(args=("late",), within=50, delay=50)
    wait_until(lambda: server.client.execute_command("DEHYDRATOR.LEN", KEY) == 0)
    note.send_with_options(args=("in time",), within=60_000)
    with working(broker):
        broker.join("default", timeout=240_000)
    assert ran == ["in time", "in time"]
    assert dead(server) == []


def test_groups_of_messages_take_turns_and_a_retry_keeps_its_own(broker: DehydratorBroker, server: RealServer) -> None:
    ran = []

    @dramatiq.actor(max_retries=1, min_backoff=3_600_000, max_backoff=3_600_000)
    def note(name: str) -> None:
        ran.append(name)
        if name == "a2":
            raise RuntimeError("again")

    for name in ("a1", "a2", "b1", "-"):
        note.send_with_options(args=(name,), **({} if name == "-" else {"group": name[0]}))
    with working(broker, worker_threads=1):
        wait_until(lambda: len(ran) == 4 and server.client.execute_command("DEHYDRATOR.LEN", KEY) == 1)
    assert ran == ["a1", "b1", "-", "a2"]
    assert server.client.execute_command("DEHYDRATOR.LEN", KEY, "GROUP", "a") == 1


def test_what_a_killed_worker_had_comes_again(broker: DehydratorBroker, server: RealServer) -> None:
    program = (
        "import dramatiq, time\n"
        "from dehydrator_queue.dramatiq import DehydratorBroker\n"
        f"dramatiq.set_broker(DehydratorBroker(url='{server.url}', lease=1.0))\n"
        "@dramatiq.actor\n"
        "def note():\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(60)\n"
        "dramatiq.Worker(dramatiq.get_broker(), worker_timeout=100).start()\n"
        "time.sleep(60)\n"
    )
    ran = []

    @dramatiq.actor
    def note() -> None:
        ran.append(1)

    note.send()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        process.kill()
    with working(broker):
        broker.join("default", timeout=240_000)
    assert ran == [1]


def test_a_broker_goes_on_when_the_server_restarts(own_server: RealServer) -> None:
    broker = DehydratorBroker(url=own_server.url)
    dramatiq.set_broker(broker)
    ran = []

    @dramatiq.actor
    def note(n: int) -> None:
        ran.append(n)

    with working(broker):
        for n in range(100):
            note.send_with_options(args=(n,), delay=10 * n)
        wait_until(lambda: len(ran) > 20)
        own_server.restart()
        wait_until(lambda: own_server.client.execute_command("DEHYDRATOR.LEN", KEY) == 0)
    assert sorted(ran) == list(range(100))


def test_a_message_that_is_being_worked_on_is_not_cancelled(broker: DehydratorBroker, server: RealServer) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @dramatiq.actor
    def waits() -> None:
        begun.set()
        assert go_on.wait(240)

    with working(broker):
        sent = waits.send()
        assert begun.wait(240)
        assert not broker.cancel(sent)
        assert server.client.execute_command("DEHYDRATOR.LEN", KEY) == 1
        go_on.set()
        broker.join("default", timeout=240_000)


def test_what_failed_while_the_server_is_away_is_a_dead_letter_and_runs_once(own_server: RealServer) -> None:
    # Patience ends before the server is there again, and Dramatiq calls nack once more.
    broker, ran = DehydratorBroker(url=own_server.url, lease=60.0, patience=0.5), []
    dramatiq.set_broker(broker)

    @dramatiq.actor(max_retries=0)
    def fails() -> None:
        ran.append(1)
        own_server.kill()
        raise RuntimeError("no such mailbox")

    with working(broker):
        fails.send()
        wait_until(lambda: ran and own_server.process.poll() is not None)
        time.sleep(1)
        own_server.start()
        wait_until(lambda: own_server.client.execute_command("DEHYDRATOR.LEN", KEY) == 0)
    assert ran == [1]
    (letter,) = dead(own_server)
    assert letter[b"reason"] == b"RuntimeError: no such mailbox"
    broker.close()


def test_messages_are_cancelled_flushed_and_waited_for(broker: DehydratorBroker, server: RealServer) -> None:
    @dramatiq.actor
    def note() -> None: ...

    sent = note.send_with_options(delay=60_000)
    again = broker.enqueue(sent, delay=60_000)
    assert server.client.execute_command("DEHYDRATOR.LEN", KEY) == 2
    assert broker.cancel(sent)
    assert not broker.cancel(sent)
    assert server.client.execute_command("DEHYDRATOR.LEN", KEY) == 1
    with pytest.raises(QueueJoinTimeout):
        broker.join("default", timeout=200)
    broker.flush_all()
    broker.join("default", timeout=240_000)
    assert not broker.cancel(again)
