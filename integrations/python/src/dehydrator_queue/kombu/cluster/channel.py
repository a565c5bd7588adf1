"""A channel to a cluster."""

from __future__ import annotations

import logging
import os
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty
from sys import maxsize
from time import monotonic
from typing import Any

import redis
from kombu.transport import redis as base
from kombu.utils.objects import cached_property

from dehydrator_queue.kombu.channel import Dehydrated
from dehydrator_queue.kombu.cluster.client import CONNECT, REPLY, ClusterClient, LeaseClient
from dehydrator_queue.kombu.cluster.poll import Poll
from dehydrator_queue.queue.library import AskError, look_up_slots, passes, reply_in

log = logging.getLogger("dehydrator_queue.kombu")

#: Seconds for which a command is sent again: a node that is gone is replaced in that time.
PATIENCE = 10.0

#: Seconds between two attempts after an error, and between two looks at the slots.
PAUSE = 0.5


class ClusterChannel(Dehydrated):
    """Takes messages by one poll for each queue. All other commands go through the library's client of a cluster.

    Without a node, the connection to the broker lasts: only the polls of its queues wait.
    """

    #: The priorities of a queue are in one slot, and so on one node.
    queue_key = "dehydrator:{{{queue}}}"

    #: Scripts have several of these keys.
    keyprefix_queue = "{_kombu}.binding.%s"
    keyprefix_binding_deadlines = "{_kombu}.binding_deadlines"
    keyprefix_binding_permanent = "{_kombu}.binding_permanent.%s"

    supports_batch_publish = False

    socket_timeout: float | None = None

    #: Older versions of kombu have no such option.
    brpop_timeout: float = 1

    keyprefix_fanout: str
    _in_listen: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._polls: dict[str, Poll] = {}
        self._looked_at = self._listen_at = self._revoke_at = 0.0
        super().__init__(*args, **kwargs)

    # Clients

    @cached_property
    def cluster(self) -> ClusterClient:
        """The client that all channels of the transport share."""
        transport = self.connection
        if transport.cluster is None:
            with self._reconnecting():
                transport.cluster = self.create_client(self.socket_timeout or min(REPLY, reply_in(self._lease_ms)))
                transport.cluster.patience = PATIENCE
        self.keyprefix_fanout = self.keyprefix_fanout.format(db=0)
        return transport.cluster  # type: ignore[no-any-return]

    def create_client(self, timeout: float) -> Any:
        at = self.connection.client
        names = ("socket_keepalive", "socket_keepalive_options", "health_check_interval", "client_name")
        options = {name: value for name in names if (value := getattr(self, name, None)) is not None}
        options |= {"ssl": True, **at.ssl} if isinstance(at.ssl, dict) else {"ssl": bool(at.ssl)}
        return ClusterClient(
            at.hostname.partition("://")[2],
            self.global_keyprefix,
            username=at.userid,
            password=at.password,
            socket_timeout=timeout,
            socket_connect_timeout=self.socket_connect_timeout or CONNECT,
            max_connections=2**31,
            **options,
        )

    def _create_client(self, asynchronous: bool = False) -> Any:
        return self.cluster

    def _create_lease_client(self) -> Any:
        return LeaseClient(self.cluster)

    def client_at(self, node: Any, poll: Poll) -> Any:
        """Returns a client for a poll, with a connection of its own."""
        client = redis.Redis(connection_pool=self.cluster.get_redis_connection(node).connection_pool)
        client.connection = self._connection(client.connection_pool, poll)
        return client

    @cached_property
    def subclient(self) -> Any:
        """Subscribes at any node: the nodes tell each other what is published."""
        pool = self.cluster.get_redis_connection(random.choice(self.cluster.get_primaries())).connection_pool
        subclient = base.PrefixedRedisPubSub(pool, global_keyprefix=self.global_keyprefix)
        subclient.connection = self._connection(pool, self)
        return subclient

    def _connection(self, pool: Any, part: Any) -> Any:
        """Returns a connection that the poller forgets when it ends. `part`: the poll, or this channel."""
        poller = self.connection.cycle

        class Connection(pool.connection_class):
            def disconnect(self, *args: Any, **kwargs: Any) -> None:
                # A forked process shares the poller of the event loop.
                if os.getpid() == self.pid:
                    poller.forget(part, self)
                    part.lost(self)
                super().disconnect(*args, **kwargs)

        return Connection(**pool.connection_kwargs)

    def lost(self, connection: Any) -> None:
        """Is called when a connection ends."""
        if self._in_listen is connection:
            self._in_listen = None

    @contextmanager
    def _reconnecting(self) -> Iterator[None]:
        try:
            yield
        except base.Transport.connection_errors:
            raise
        except Exception as error:
            if passes(error):
                raise base.get_redis_ConnectionError()(str(error)) from error
            raise

    def doubt_slots(self, error: Exception) -> None:
        """Looks up which node has which slots. Raises the error if that is no remedy."""
        if not isinstance(error, (AskError, *base.Transport.connection_errors)) and not passes(error):
            raise error
        if monotonic() < self._looked_at + PAUSE:
            return
        self._looked_at = monotonic()
        log.info("looking up the slots of the cluster: %s", error)
        try:
            look_up_slots(self.cluster)
        except Exception as failure:
            if not passes(failure):
                raise

    def _after_fork(self) -> None:
        # A thread of the parent may hold its lock.
        self.__dict__.pop("cluster", None)
        if self.connection is not None:
            self.connection.cluster = None
        super()._after_fork()

    def close(self) -> None:
        for poll in self._polls.values():
            poll.close()
        self._polls.clear()
        super().close()

    # Taking

    def start_polls(self, register: Callable[[Poll], None]) -> None:
        """Sends the polls that are not under way, if the prefetch count permits. The queues take turns."""
        self._try_revoked()
        queues = self._queue_cycle.consume(len(self.active_queues))
        for queue in self._polls.keys() - set(queues):
            if self._polls[queue].is_idle():
                self._polls.pop(queue).disconnect()
        polls = [self._polls.setdefault(queue, Poll(self, queue)) for queue in queues]
        idle = [poll for poll in polls if poll.is_idle()]
        for left, poll in zip(range(len(idle), 0, -1), idle, strict=True):
            if (free := self._free()) < 1:
                return
            poll.start(min(self._room(), max(1, free // left)), register)

    def _free(self) -> int:
        """Returns how many messages there is room for, besides those for which polls have reserved it."""
        if "can_consume" in vars(self.qos):
            free = int(self.qos.can_consume())
        else:
            free = self.qos.can_consume_max_estimate() if self.qos.prefetch_count else maxsize
        return free - sum(poll.reserved for poll in self._polls.values())

    def _deliver_all(self, queue: str, messages: deque[dict[str, Any]]) -> None:
        """Delivers messages, and gives back at once those for which there is no room."""
        excess: deque[dict[str, Any]] = deque()
        while len(messages) > max(0, self._free()):
            excess.appendleft(messages.pop())
        try:
            super()._deliver_all(queue, messages)
        finally:
            self._release_all(excess)

    def _try_revoked(self) -> None:
        if self.revoked and monotonic() >= self._revoke_at:
            try:
                self._deliver_revoked()
            except base.Transport.connection_errors as error:
                log.warning("revoking %s is tried again: %s", self.revoked[0], error)
                self._revoke_at = monotonic() + PAUSE

    # Listening

    def listen(self, register: Callable[[ClusterChannel], None]) -> None:
        """Subscribes, if that is not done."""
        if monotonic() < self._listen_at:
            return
        try:
            register(self)
        except Exception as error:
            self._listen_elsewhere(error)

    def _receive(self) -> Any:
        try:
            return super()._receive()
        except base.Transport.connection_errors as error:
            self._listen_elsewhere(error)
            raise Empty() from None

    def _listen_elsewhere(self, error: Exception) -> None:
        subclient = self.__dict__.pop("subclient", None)
        if subclient is not None and subclient.connection is not None:
            connection, subclient.connection = subclient.connection, None
            connection.disconnect()
        self._listen_at = monotonic() + PAUSE
        self.doubt_slots(error)
