"""Acks in an event loop such as Celery's, which settle in one write with the next poll."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import kombu
import pytest
import redis
from address import Address
from kombu.asynchronous import Hub
from servers import RealServer, wait_until
from test_kombu import connect, length, publish

CHANNEL = "dehydrator_queue.kombu.channel"


class Loop:
    """A consumer that acknowledges each message a moment after it has come."""

    def __init__(self, connection: kombu.Connection, seconds: float) -> None:
        self.hub, self.connection, self.seconds = Hub(), connection, seconds
        self.acked: list[Any] = []
        channel = connection.channel()
        channel.basic_qos(0, 8, False)
        self.consumer = kombu.Consumer(channel, [kombu.Queue("work")], callbacks=[self._arrived])
        self.consumer.consume()
        connection.register_with_event_loop(self.hub)
        self.loop = self.hub.create_loop()

    def _arrived(self, body: Any, message: Any) -> None:
        self.hub.call_later(self.seconds, self.ack, body, message)

    def ack(self, body: Any, message: Any) -> None:
        message.ack()
        self.acked.append(body)

    def run_until(self, true: Callable[[], Any]) -> None:
        def is_true() -> Any:
            next(self.loop)
            return true()

        wait_until(is_true)


@contextmanager
def counting(server: RealServer) -> Iterator[Counter[tuple[bool, str]]]:
    """Counts the commands, by whether their connection is one that polls, and by name."""
    seen: list[tuple[str, str]] = []
    counts: Counter[tuple[bool, str]] = Counter()
    with redis.Redis(port=server.port).monitor() as monitor:

        def listen() -> None:
            for command in monitor.listen():
                seen.append((command["client_port"], command["command"].split()[0]))
                if seen[-1][1] == "ECHO":
                    return

        thread = threading.Thread(target=listen)
        thread.start()
        yield counts
        server.client.echo("the end")
        thread.join()
    polling = {port for port, name in seen if name == "DEHYDRATOR.MPOLL"}
    counts.update((port in polling, name) for port, name in seen)


@pytest.mark.parametrize(("lull", "are_together"), [(5.0, True), (0.000_001, False)])
def test_an_ack_that_comes_soon_goes_with_the_next_poll(
    server: RealServer, monkeypatch: pytest.MonkeyPatch, lull: float, are_together: bool
) -> None:
    monkeypatch.setattr(f"{CHANNEL}.LULL", lull)
    with connect(server) as connection, counting(server) as counts:
        loop = Loop(connection, 0.001)
        for n in range(20):
            publish(connection, n)
            loop.run_until(lambda n=n: len(loop.acked) > n)
        # The reply to the last one is read, too.
        loop.run_until(lambda: loop.consumer.channel._settled is None)
        assert loop.acked == list(range(20))
        assert length(server) == 0
    # It is not known of the first that it will come soon.
    together = 19 if are_together else 0
    assert (counts[True, "DEHYDRATOR.SETTLE"], counts[False, "DEHYDRATOR.SETTLE"]) == (together, 20 - together)


def test_a_poll_does_not_wait_long_for_an_ack(server: RealServer) -> None:
    with connect(server) as connection:
        loop = Loop(connection, 0.0)
        publish(connection, 0)
        loop.run_until(lambda: loop.acked == [0])
        # This one takes long: others come meanwhile.
        loop.seconds = 3600
        for n in (1, 2):
            publish(connection, n)
            loop.run_until(lambda n=n: len(loop.consumer.channel.leases) == n)


def test_an_ack_whose_connection_breaks_is_sent_again(
    own_server: RealServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(f"{CHANNEL}.LULL", 60.0)
    address = Address(own_server)
    with connect(address) as connection:
        loop = Loop(connection, 0.001)
        publish(connection, 0)
        loop.run_until(lambda: loop.acked == [0])
        publish(connection, 1)
        loop.run_until(lambda: len(loop.consumer.channel.leases) == 1)
        address.fall_silent()
        loop.run_until(lambda: loop.acked == [0, 1])
        assert loop.consumer.channel._settled is not None
        assert length(own_server) == 1
        address.lead_to(own_server, cut=True)
        with suppress(connection.connection_errors):
            loop.run_until(lambda: loop.consumer.channel._settled is None)
        wait_until(lambda: length(own_server) == 0)
    assert "another's" not in caplog.text
    address.close()


def test_an_ack_that_was_late_is_told(
    own_server: RealServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(f"{CHANNEL}.LULL", 60.0)
    with connect(own_server) as connection:
        loop = Loop(connection, 0.001)
        publish(connection, 0)
        loop.run_until(lambda: loop.acked == [0])
        publish(connection, 1)
        loop.run_until(lambda: len(loop.consumer.channel.leases) == 1)
        own_server.client.flushall()
        loop.run_until(lambda: loop.acked == [0, 1] and loop.consumer.channel._settled is None)
    assert "another's" in caplog.text
