"""A channel of kombu's Redis transport whose queues are dehydrators."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty
from threading import get_ident
from time import monotonic
from typing import Any

from kombu.transport import redis as base
from kombu.transport import virtual
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

from dehydrator_queue.errors import reason_of
from dehydrator_queue.frameworks.ids import names_of_task, take
from dehydrator_queue.frameworks.leases import RENEWER, Lease, Leases
from dehydrator_queue.job import Delivery, id_text
from dehydrator_queue.kombu.celery_pool import is_stopping, kept_of
from dehydrator_queue.kombu.eta import forget_future
from dehydrator_queue.kombu.qos import QoS, release_in_order
from dehydrator_queue.kombu.sending import Sending
from dehydrator_queue.options import milliseconds
from dehydrator_queue.queue.commands import KEEP, Keep, check_deliveries, keep_words, limit_words, new_token, reject
from dehydrator_queue.queue.library import passes, reply_in
from dehydrator_queue.queue.server import NEWEST, Server, explain, knows

log = logging.getLogger("dehydrator_queue.kombu")


#: Transport options in addition to those of the Redis transport.
OPTIONS = ("queue_key", "keep_dead", "lease", "deliveries")

#: Seconds. The Redis transport's `visibility_timeout` defaults to an hour, because nothing renews it.
LEASE = 300

#: The most messages of one reply. More would save no more of the server's time.
MOST = 8

#: Seconds. After a reply, the next poll waits so long for an ack, if the last one came that soon: both go in one write,
#: which wakes the server once.
LULL = 0.003


def _check(options: dict[str, Any]) -> None:
    """Checks our own transport options."""
    check_deliveries(options.get("deliveries"))
    keep_words(options.get("keep_dead"))
    if (lease := options.get("lease")) is not None:
        milliseconds("lease", lease, 100)


class Dehydrated(Sending):
    """Sends messages with PUSH, takes them with MPOLL and a lease, and acknowledges them with SETTLE.

    Exchanges, bindings, fanout and connections are those of the Redis transport.
    """

    QoS = QoS
    connection: Any

    #: In seconds. It is renewed while the worker lives, however long a task takes: this is how soon another worker
    #: gets its tasks when it dies. The default is `visibility_timeout`, if that is given, or else LEASE.
    lease: float | None = None

    #: How many dead letters to keep.
    keep_dead: Keep = KEEP

    #: How often a message is delivered before it is a dead letter, such as a task that kills its process; by default
    #: without limit.
    deliveries: int | None = None

    #: In seconds: without one, nobody would notice that a route is lost.
    socket_timeout: float | None = 10.0

    from_transport_options = (*base.Channel.from_transport_options, *OPTIONS)

    _lease_pool: Any = None

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        _check(connection.client.transport_options or {})
        #: Ids of revoked tasks that may wait here.
        self.revoked: deque[str] = deque()
        self._token = new_token()
        #: When the last messages arrived, and until when the next poll waits for an ack of one.
        self._arrived_at = self._asks_at = 0.0
        #: Whether the last ack came soon after its message.
        self._is_brief = False
        self._loop_thread = 0
        #: What was settled in one write with the poll, until the reply is read.
        self._settled: Lease | None = None
        self._polled: dict[str, str] = {}
        self._no_ack: set[str] = set()
        self._lease_lock = threading.Lock()
        #: The tags of messages whose work goes on although the channel ends.
        self.kept: set[str] = set()
        super().__init__(connection, **kwargs)
        self.leases = Leases(self._create_lease_client, self._lease_ms, self._prolong_held)
        if not self.ack_emulation:
            # As on Redis, delivered messages are gone.
            self.QoS = virtual.QoS
        try:
            self._check_module()
        except Exception:
            self.connection.cycle.discard(self)
            # In older versions of kombu, the end of its connections would end the polling of other channels.
            self.connection = None
            self._disconnect_pools()
            raise

    @property
    def _lease_ms(self) -> int:
        lease = vars(self).get("visibility_timeout", LEASE) if self.lease is None else self.lease
        return max(100, int(float(lease) * 1000))

    def _check_module(self) -> None:
        # The first command writes, which a replica refuses, so that no connection to a replica is used.
        for words in (("DEHYDRATOR.REM", key := self._key("no queue", 0), "no message"), (NEWEST, key)):
            try:
                with self.conn_or_acquire() as client:
                    client.execute_command(*words)
            except self.ResponseError as error:
                if not knows(error):
                    raise explain(error, words[0]) from None

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        with super().conn_or_acquire(client) as acquired, self._reconnecting():
            yield acquired

    @contextmanager
    def _reconnecting(self) -> Iterator[None]:
        """Treats it as a broken connection if a server is no longer a primary, or not ready.

        A worker ends at such a reply, but reconnects, perhaps to another server, when a connection breaks.
        """
        try:
            yield
        except self.ResponseError as error:
            if passes(error):
                raise base.get_redis_ConnectionError()(str(error)) from error
            raise

    def close(self) -> None:
        self.kept = kept_of(self.leases.tags())
        try:
            super().close()
        finally:
            # This may end early if a connection is broken, and the messages would be held forever.
            self.leases.release_all(but=self.kept)
            self._settle_again()
            if is_stopping() and self._qos is not None and self._qos.prefetch_count:
                # The pool has ended. What earlier channels kept, it has not begun, or it was interrupted.
                for leases in list(RENEWER.outliving):
                    release_in_order(leases, leases.tags())
            if self.kept:
                # What runs is renewed, and acknowledged, although the channel has ended.
                self.leases.outlive()
            else:
                self._lease_pool = None

    def _create_lease_client(self) -> Any:
        """Creates a client for leases. One of kombu's waits for a reply without limit."""
        with self._lease_lock:
            if self._lease_pool is None:
                self._lease_pool = self._create_pool(reply_in(self.leases.lease_ms))
            return self.Client(connection_pool=self._lease_pool)

    def create_client(self, timeout: float) -> Any:
        """Creates a client of the same server with a pool of its own. `timeout`: for replies, in seconds."""
        return self.Client(connection_pool=self._create_pool(timeout))

    def _create_pool(self, timeout: float) -> Any:
        sentinels = getattr(self, "_sentinel_manager", None)
        pool = self._get_pool()
        pool.connection_kwargs["socket_timeout"] = timeout
        if sentinels is not None:
            # It is for kombu, which closes those of its own pool.
            self._sentinel_manager = sentinels
        return pool

    def _disconnect_pools(self) -> None:
        super()._disconnect_pools()
        # It connects again for a late ack.
        if self._lease_pool is not None:
            self._lease_pool.disconnect()

    def _after_fork(self) -> None:
        # The renewing thread may have held it.
        self._lease_lock = threading.Lock()
        super()._after_fork()
        self.leases.forget()
        self._settled = None

    # Taking

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        if no_ack:
            self._no_ack.add(queue)
        else:
            self._no_ack.discard(queue)
            self._limit_deliveries(queue)
        return super().basic_consume(queue, no_ack, *args, **kwargs)

    def _limit_deliveries(self, queue: str) -> None:
        """Sets the policy of a queue, unless it has one."""
        for key in self._keys(queue) if self.deliveries is not None else ():
            with self.conn_or_acquire() as client:
                try:
                    client.execute_command(*limit_words(key, f"{key}:dead", self.deliveries, self.keep_dead, "NX"))
                except self.ResponseError as error:
                    if passes(error):
                        raise
                    log.error("%s: deliveries are not limited: %s", key, error)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        message = super().basic_get(queue, no_ack, **kwargs)
        if message is not None and no_ack:
            self.leases.settle(message.delivery_tag)
        return message

    def _poll_words(self, keys: list[str], token: str, count: int = 1) -> list[Any]:
        lease = ["COUNT", count, "LEASE", self.leases.lease_ms, "TOKEN", token]
        return ["DEHYDRATOR.MPOLL", len(keys), *keys, *lease]

    def _brpop_start(self, timeout: float | None = None) -> None:
        if monotonic() >= self._asks_at:
            self._ask(timeout)

    def _ask(self, timeout: float | None = None, settled: Lease | None = None) -> None:
        """Sends a poll, and before it, in the same write, what settles a message."""
        self._settle_again()
        if timeout is None:
            # Older versions of kombu have no such option.
            timeout = getattr(self, "brpop_timeout", 1)
        self._deliver_revoked()
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        self._polled = {self._key(queue, pri): queue for pri in self.priority_steps for queue in queues}
        self._in_poll = self.client.connection
        self._brpop_sent_at = monotonic()
        # If the last reply was lost with its connection, this is its token: the reply is repeated.
        words = [*self._poll_words(list(self._polled), self._token, self._room()), "BLOCK", int((timeout or 0) * 1000)]
        commands = [words] if settled is None else [settled.settle_words(), words]
        self._settled = settled
        connection = self.client.connection
        connection.send_packed_command(connection.pack_commands(commands))

    def settle(self, tag: str) -> None:
        """Settles a message: together with the next poll, if that waits for it."""
        now = monotonic()
        self._is_brief = now - self._arrived_at < LULL
        is_waited_for = now < self._asks_at and get_ident() == self._loop_thread and not self._in_poll
        lease = self.leases.drop(tag) if is_waited_for and self.active_queues and self.qos.can_consume() else None
        if lease is None:
            self.leases.settle(tag)
            return
        self._asks_at = 0.0
        try:
            self._ask(settled=lease)
        except self.connection_errors:
            # The loop connects and asks again.
            self._end_poll()

    def _end_poll(self) -> None:
        self._in_poll = None
        self.client.connection.disconnect()
        self._settle_again()

    def _read_settled(self) -> None:
        """Reads the reply to what was settled with the poll. Its own reply may come much later."""
        connection = self.client.connection
        try:
            if self.client.parse_response(connection, "DEHYDRATOR.SETTLE") == [0] and self._settled is not None:
                self._settled.tell_lost()
            self._settled = None
        except self.connection_errors:
            self._end_poll()
            raise
        except self.ResponseError as error:
            if passes(error):
                self._settle_again()
            else:
                log.error("SETTLE is refused: %s", error)
                self._settled = None
        if not connection.can_read(timeout=0):
            raise Empty()

    def _settle_again(self) -> None:
        """Settles once more what was settled with a poll whose connection has ended."""
        lease, self._settled = self._settled, None
        if lease is not None:
            self.leases.settle_again(lease)

    def _wait_for_ack(self) -> None:
        """Lets the next poll wait for an ack, if one is expected soon."""
        loop = getattr(self.connection, "loop", None)
        if loop is not None and self._is_brief and self.leases:
            self._loop_thread, self._asks_at = get_ident(), monotonic() + LULL
            # The loop looks whether to poll when it wakes.
            loop.call_later(LULL, lambda: None)

    def _room(self) -> int:
        """Returns how many messages one reply may have."""
        # Celery's `worker_disable_prefetch` counts by itself, and is asked before each message. Without a prefetch
        # count, kombu promises one message for each call of `drain_events`.
        if "can_consume" in vars(self.qos) or not self.qos.prefetch_count:
            return 1
        return min(self.qos.can_consume_max_estimate() or 1, MOST)

    def _brpop_read(self, **options: Any) -> bool:
        if self._settled is not None:
            self._read_settled()
        try:
            try:
                with self._reconnecting():
                    reply = self._read_poll(**options)
            except self.connection_errors:
                # The next poll reconnects.
                self.client.connection.disconnect()
                raise
            self._token = new_token()
            if not reply:
                raise Empty()
            self._arrived_at = monotonic()
            self._deliver_reply(self._polled[bytes_to_str(reply[0])], reply, self._brpop_sent_at)
            self._wait_for_ack()
            return True
        finally:
            self._in_poll = None
            flush = getattr(self, "_flush_brpop_reauth", None)
            if flush is not None:
                flush()

    def _deliver_reply(self, queue: str, reply: Any, sent_at: float) -> None:
        """Delivers the messages of a reply to a poll."""
        if self._closing:
            # The pool would begin them, and others too.
            self.give_back(reply)
            raise Empty()
        self._queue_cycle.rotate(queue)
        # Replies are not read while the prefetch count is reached: the lease may have expired by now.
        stale = monotonic() - sent_at > self.leases.lease_ms / 2000
        messages = deque(self._messages(bytes_to_str(reply[0]), reply[1], stale))
        if not messages:
            raise Empty()
        self._deliver_all(queue, messages)

    def _messages(self, key: str, rows: list[Any], stale: bool) -> Iterator[dict[str, Any]]:
        for row in rows:
            with suppress(Empty):
                yield self._message(key, row, stale)

    def _deliver_all(self, queue: str, messages: deque[dict[str, Any]]) -> None:
        try:
            while messages:
                message = messages.popleft()
                if queue in self._no_ack or not self.ack_emulation:
                    self.leases.settle(message["properties"]["delivery_tag"])
                elif lifetimes := self._lifetimes(queue, self.leases.lease_ms):
                    self._prolong(self._create_client(), lifetimes)
                self.connection._deliver(message, queue)
        finally:
            # If the worker stops amid them, others have the rest at once.
            self._release_all(messages)

    def give_back(self, reply: Any) -> None:
        """Gives back the messages of a reply, as if they had not been given out."""
        self._release_all(deque(self._messages(bytes_to_str(reply[0]), reply[1], stale=False)))

    def _release_all(self, messages: deque[dict[str, Any]]) -> None:
        """Gives back messages, as if they had not been given out."""
        # Each goes in front of all that were due in the same millisecond.
        for message in reversed(messages):
            self.leases.release(message["properties"]["delivery_tag"], counted=False)

    def _read_poll(self, **options: Any) -> Any:
        try:
            return self.client.parse_response(self.client.connection, "DEHYDRATOR.MPOLL", **options)
        except self.ResponseError as error:
            if str(error).startswith("UNBLOCKED"):
                raise Empty() from None
            raise

    def _poll_error(self, type: str, **options: Any) -> None:
        if type == "LISTEN":
            self.subclient.parse_response()
        else:
            self.client.parse_response(self.client.connection, "DEHYDRATOR.MPOLL")

    def _get(self, queue: str) -> dict[str, Any]:
        with self.conn_or_acquire() as client:
            reply = client.execute_command(*self._poll_words(self._keys(queue), new_token()))
            self._prolong(client, self._lifetimes(queue, self.leases.lease_ms if reply else 0))
        if not reply:
            raise Empty()
        message = self._message(bytes_to_str(reply[0]), reply[1][0], stale=False)
        if not self.ack_emulation:
            self.leases.settle(message["properties"]["delivery_tag"])
        return message

    def _message(self, key: str, row: Any, stale: bool) -> dict[str, Any]:
        """Parses delivered messages, and holds their leases from now on."""
        id, element, deliveries, token = row
        token = id_text(token)
        delivery = Delivery(key, id, element, deliveries, token)
        if stale:
            with self.conn_or_acquire() as client:
                if client.execute_command("DEHYDRATOR.RENEW", key, self.leases.lease_ms, token, id) == [0]:
                    raise Empty()
        try:
            message: dict[str, Any] = loads(bytes_to_str(element))
            properties = message["properties"]
            tag = properties["delivery_tag"]
        except Exception as error:
            self._bury(delivery, f"it cannot be decoded: {reason_of(error)}")
            raise Empty() from None
        if tag in self.leases:
            # One message may be in several queues of this channel.
            tag = properties["delivery_tag"] = f"{tag}:{token}"
        forget_future(message)
        if deliveries > 1:
            if isinstance(message.get("headers"), dict):
                message["headers"]["redelivered"] = True
            properties.setdefault("delivery_info", {})["redelivered"] = True
        # While the connection still has the address: an ack may be sent after its end.
        self._create_lease_client()
        self.leases.add(tag, Lease(key, id, token, deliveries))
        return message

    def _bury(self, delivery: Delivery, reason: str) -> None:
        """Moves unreadable messages to the stream of dead letters."""
        log.error("%s: %s is a dead letter: %s", delivery.key, id_text(delivery.id), reason)
        with self.conn_or_acquire() as client:
            try:
                told = (delivery.key, f"{delivery.key}:dead", delivery.token, delivery.id, reason)
                Server(client, 0).follow(reject(*told, self.deliveries, self.keep_dead))
            except self.ResponseError as error:
                if passes(error):
                    raise
                # This would end Celery's worker.
                log.error("%s: %s stays until its lease is over: %s", delivery.key, id_text(delivery.id), error)

    # Revoking

    def _deliver_revoked(self) -> None:
        """Removes revoked tasks from the queues, and passes them to the worker, which knows that they are revoked."""
        while self.revoked:
            names = names_of_task(self.revoked[0])
            for queue in self.active_queues:
                for key in self._keys(queue):
                    for element in self._take_free(key, *names):
                        self.connection._deliver(loads(bytes_to_str(element)), queue)
            self.revoked.popleft()

    def _take_free(self, key: str, *names: str) -> Any:
        """Takes waiting messages, but not those that a worker has."""
        with self.conn_or_acquire() as client:
            return Server(client, 0).follow(take(key, *names))


class Channel(Dehydrated):
    """A channel to one server."""


class SentinelChannel(Dehydrated, base.SentinelChannel):
    """A channel to the server that Sentinel reports."""

    from_transport_options = (*base.SentinelChannel.from_transport_options, *OPTIONS)
