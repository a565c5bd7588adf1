"""A broker for Dramatiq: delayed messages wait in the server, not in a worker's memory.

dramatiq.set_broker(DehydratorBroker(url="redis://127.0.0.1:6379/0"))
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from dramatiq import Broker, Consumer, Message, MessageProxy, Middleware
from dramatiq.errors import ConnectionClosed, QueueJoinTimeout

from dehydrator_queue.codec import Raw
from dehydrator_queue.dramatiq.schedules import Periodic, cron, every, schedules_of
from dehydrator_queue.errors import reason_of
from dehydrator_queue.frameworks.ids import look_words, names_of_message, push_words, take
from dehydrator_queue.frameworks.leases import Lease, Leases
from dehydrator_queue.job import Delivery, id_text
from dehydrator_queue.options import Duration, milliseconds, patience_of, whole
from dehydrator_queue.queue.commands import (
    KEEP,
    Flow,
    Keep,
    Question,
    as_bytes,
    check_deliveries,
    keep_words,
    limit_words,
    new_token,
    poll,
    reject,
)
from dehydrator_queue.queue.library import Client, connect, is_cluster, passes, reply_in
from dehydrator_queue.queue.opening import dead_of
from dehydrator_queue.queue.queue import Queue
from dehydrator_queue.queue.schedules import Schedules
from dehydrator_queue.queue.server import Server
from dehydrator_queue.wide.deliveries import Deliveries
from dehydrator_queue.wide.directory import Keys, keys_of

__all__ = ["DehydratorBroker", "DehydratorConsumer", "cron", "every"]

#: In the options of a message: distinguishes messages with one id.
OPTION = "dehydrator_id"

#: In the options of a message: it is dropped if no worker has got it in this many milliseconds after it was due.
WITHIN = "within"

#: In the options of a message: its group. Messages of several groups are delivered in turns.
GROUP = "group"

#: Seconds. Acks are sent between two polls, so none blocks longer.
LONGEST_BLOCK = 1.0

#: Seconds after which a full consumer takes what fits, even if that is less than half. To take each message alone
#: costs the server more.
PAUSE = 0.02


class DehydratorBroker(Broker):
    """Sends messages with PUSH, takes them with POLL and a renewed lease, and acknowledges them with SETTLE.

    A rejected message goes to the stream of dead letters, with the reason: `dramatiq:<queue>:dead`.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        client: Client | None = None,
        middleware: list[Middleware] | None = None,
        namespace: str = "dramatiq",
        lease: Duration = 60.0,
        patience: float = 10.0,
        keep_dead: Keep = KEEP,
        deliveries: int | None = None,
        schedules: bool = False,
        keys: Keys | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of the client library, for example `host` and `port` instead of a URL.

        `keep_dead`: how many dead letters to keep; None: all of them. `deliveries`: how often a message is delivered
        before it is a dead letter, such as one that kills its worker; by default without limit. `schedules`: whether
        actors can have the option `periodic`, and workers serve it. `keys`: of each queue, as those of
        `dehydrator_queue.Queue`.
        """
        keep_words(keep_dead)
        check_deliveries(deliveries)
        if keys is not None:
            keys_of(keys)
        self.keep_dead, self.deliveries = keep_dead, deliveries
        super().__init__(middleware=middleware)
        self.namespace = namespace
        self.queues: set[str] = set()
        self._keys, self._patience = keys, patience_of(patience)
        self._opened: dict[str, Queue[Any]] = {}
        self.client: Client = client or connect(url, timeout=LONGEST_BLOCK + 5, **options)
        self.server = Server(self.client, patience)
        lease_ms = milliseconds("lease", lease, 100)
        own: Client = client or connect(url, timeout=reply_in(lease_ms), **options)
        self._clients = [self.client, own]
        self.leases = Leases(lambda: own, lease_ms, are_apart=is_cluster(own))
        if schedules:
            self.add_middleware(Periodic())
        if keys is not None:
            self.add_middleware(Stops())

    def key(self, queue_name: str) -> str:
        """Returns the name of a queue's key: on a cluster, in the slot of its dead letters. With `keys`, it is none."""
        name = f"{self.namespace}:{queue_name}"
        return f"{{{name}}}" if is_cluster(self.client) and self._keys is None else name

    def queue(self, queue_name: str = "default") -> Queue[Any]:
        """Returns a queue as other programs see it, for example to change its keys, or revive its dead letters."""
        if queue_name not in self._opened:
            terms: dict[str, Any] = {"keep_dead": self.keep_dead, "patience": self._patience, "keys": self._keys}
            self._opened[queue_name] = Queue(self.client, self.key(queue_name), codec=Raw(), **terms)
        return self._opened[queue_name]

    def ask(self, *words: Any, queue_name: str | None = None) -> Any:
        """Retries a command until it arrives. `queue_name`: it is about a queue, which can have several keys."""
        server = self.server if queue_name is None else self.queue(queue_name)._server
        try:
            return server.ask(Question(words, lambda reply: reply))
        except Exception as error:
            if passes(error):
                raise ConnectionClosed(error) from None
            raise

    def follow(self, flow: Flow[Any], queue_name: str) -> Any:
        """Asks the questions of a flow about a queue."""
        try:
            return self.queue(queue_name)._server.follow(flow)
        except Exception as error:
            if passes(error):
                raise ConnectionClosed(error) from None
            raise

    def close(self) -> None:
        for client in self._clients:
            if (closing := getattr(client, "close", None)) is not None:
                closing()

    def declare_queue(self, queue_name: str) -> None:
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues.add(queue_name)
            self.emit_after("declare_queue", queue_name)

    def get_declared_queues(self) -> set[str]:
        return self.queues.copy()

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        """Sends a message with a delay of `delay` milliseconds. Its id is that of the message, if that is free.

        With the option `within`, it is dropped if no worker has got it in that many milliseconds after it was due. A
        retry has as long again. With the option `group`, it takes turns with the messages of other groups.
        """
        message = self.prepare(message, delay)
        for name in names_of_message(message.message_id, message.options[OPTION]):
            words = self.push_words(message, name, delay)
            _, key, _, element, *_ = words
            pushed = self.ask(*words, queue_name=message.queue_name) is not None
            if pushed or self._element(message.queue_name, key, name) == element:
                break
        self.emit_after("enqueue", message, delay)
        return message

    def prepare(self, message: Message[Any], delay: int | None = None) -> Message[Any]:
        """Returns a message that can be sent. Calls the middleware."""
        message = message.copy(options={OPTION: str(uuid4())})
        self.emit_before("enqueue", message, delay)
        return message

    def push_words(self, message: Message[Any], name: str, delay: int | None = None) -> tuple[Any, ...]:
        """Returns the words that send a message under an id, unless that exists."""
        within, group = message.options.get(WITHIN), message.options.get(GROUP)
        if within is not None:
            whole(WITHIN, within)
        key = self.key(message.queue_name)
        return push_words(key, max(0, delay or 0), message.encode(), name, within, group)

    def schedules(self, queue_name: str = "default") -> Schedules:
        """Returns the schedules of a queue, to list, pause or run them. Those of actors are named after them."""
        return schedules_of(self, queue_name)

    def cancel(self, message: Message[Any]) -> bool:
        """Cancels a message that no worker has; returns whether it existed."""
        key = self.key(message.queue_name)
        element = message.encode()
        for name in names_of_message(message.message_id, message.options.get(OPTION, "")):
            if self._element(message.queue_name, key, name) == element:
                return bool(self.follow(take(key, name), message.queue_name))
        return False

    def _element(self, queue_name: str, key: str, name: str) -> bytes:
        return as_bytes(self.ask(*look_words(key, name), queue_name=queue_name) or b"")

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        if self.deliveries is not None and self._keys is None:
            key = self.key(queue_name)
            self.ask(*limit_words(key, dead_of(key, self.client), self.deliveries, self.keep_dead, "NX"))
        kind = DehydratorConsumer if self._keys is None else ConsumerOfKeys
        return kind(self, queue_name, prefetch, timeout)

    def flush(self, queue_name: str) -> None:
        """Drops all messages of a queue, including those that workers have."""
        self.ask("UNLINK", self.key(queue_name), queue_name=queue_name)

    def flush_all(self) -> None:
        for queue_name in self.queues:
            self.flush(queue_name)

    def join(self, queue_name: str, *, interval: int = 100, timeout: int | None = None) -> None:
        """Waits until a queue is empty: nothing due, delayed or with a worker."""
        deadline = None if timeout is None else time.monotonic() + timeout / 1000
        while self.ask("DEHYDRATOR.LEN", self.key(queue_name), queue_name=queue_name):
            if deadline is not None and time.monotonic() >= deadline:
                raise QueueJoinTimeout(queue_name)
            time.sleep(interval / 1000)


class DehydratorConsumer(Consumer):
    """Takes the messages of one queue."""

    def __init__(self, broker: DehydratorBroker, queue_name: str, prefetch: int, timeout: int) -> None:
        self.broker = broker
        self.key = broker.key(queue_name)
        self.prefetch = prefetch
        self.block = min(timeout / 1000, LONGEST_BLOCK)
        self.tags: set[str] = set()
        #: Workers tell through it that they have ended a message.
        self.ended = threading.Condition()
        self.taken: list[Delivery] = []
        self.token = new_token()

    def __next__(self) -> MessageProxy | None:
        while True:
            if not self.taken:
                self._take()
            if not self.taken:
                return None
            delivery = self.taken.pop(0)
            lease = Lease(delivery.key, delivery.id, delivery.token, delivery.deliveries)
            try:
                message: Message[Any] = Message.decode(delivery.element)
                tag = message.options[OPTION] = f"{message.options.get(OPTION, '')}/{delivery.token}"
            except Exception as error:
                self._bury(lease, f"it cannot be decoded: {reason_of(error)}")
                self._make_room()
                continue
            self.broker.leases.add(tag, lease)
            self.tags.add(tag)
            return MessageProxy(message)

    def _room(self) -> int:
        return self.prefetch - len(self.tags)

    def _end(self, tag: str) -> None:
        with self.ended:
            if tag in self.tags:
                self.tags.discard(tag)
                self._make_room()
            self.ended.notify()

    def _make_room(self) -> None:
        """Is called when a message has ended."""

    def _take(self) -> None:
        if self._room() <= 0:
            half = (self.prefetch + 1) // 2
            with self.ended:
                self.ended.wait_for(lambda: self._room() >= half, min(PAUSE, self.block))
            if self._room() <= 0:
                return
        lease_ms = self.broker.leases.lease_ms
        question = poll([self.key], self._room(), lease_ms, self.token, milliseconds("block", self.block))
        try:
            # The same token gets the messages of a reply that was lost.
            self.taken = self.broker.server.ask(question)
        except Exception as error:
            if passes(error):
                raise ConnectionClosed(error) from None
            raise
        self.token = new_token()

    def ack(self, message: MessageProxy) -> None:
        tag = message.options.get(OPTION, "")
        try:
            self.broker.leases.settle(tag)
        finally:
            self._end(tag)

    def nack(self, message: MessageProxy) -> None:
        """Moves a message to the dead letters, with its actor's error."""
        tag = message.options.get(OPTION, "")
        lease = self.broker.leases.get(tag)
        if lease is None:
            self._end(tag)
            return
        error = message._exception
        reason = "rejected" if error is None else reason_of(error)
        # While the server is down, Dramatiq calls this again: until then the lease is held.
        self._bury(lease, reason)
        self.broker.leases.drop(tag)
        self._end(tag)

    def _bury(self, lease: Lease, reason: str) -> None:
        broker, dead = self.broker, dead_of(lease.key, self.broker.client)
        broker.logger.error("%s: %s is a dead letter: %s", lease.key, id_text(lease.id), reason)
        try:
            flow = reject(lease.key, dead, lease.token, lease.id, reason, broker.deliveries, broker.keep_dead)
            broker.server.follow(flow)
        except Exception as error:
            if passes(error):
                raise ConnectionClosed(error) from None
            raise

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Gives back messages that were not begun, which counts nothing."""
        # Each goes in front of all that were due in the same millisecond.
        for message in reversed(list(messages)):
            tag = message.options.get(OPTION, "")
            self.broker.leases.release(tag, counted=False)
            self._end(tag)

    def close(self) -> None:
        """Gives back messages that were taken and not passed on."""
        while self.taken:
            delivery = self.taken.pop()
            self.broker.ask("DEHYDRATOR.RELEASE", delivery.key, 0, delivery.token, delivery.id, "UNCOUNTED")


class ConsumerOfKeys(DehydratorConsumer):
    """Takes the messages of a queue of several keys, up to `prefetch` of all of them together."""

    def __init__(self, broker: DehydratorBroker, queue_name: str, prefetch: int, timeout: int) -> None:
        super().__init__(broker, queue_name, prefetch, timeout)
        lease_ms, block_ms = broker.leases.lease_ms, milliseconds("block", LONGEST_BLOCK)
        self._deliveries = Deliveries(broker.queue(queue_name), prefetch, lease_ms, block_ms)

    def _take(self) -> None:
        delivery = self._deliveries.take(self.block)
        self.taken = [] if delivery is None else [delivery]

    def _make_room(self) -> None:
        self._deliveries.end()

    def stop(self) -> None:
        self._deliveries.stop()

    def close(self) -> None:
        self.taken += self._deliveries.close()
        super().close()


class Stops(Middleware):
    """Tells all consumers of a worker that stops, before it closes one after the other, which waits for each."""

    def before_consumer_thread_shutdown(self, broker: Any, thread: Any) -> None:
        if isinstance(thread.consumer, ConsumerOfKeys):
            thread.consumer.stop()
