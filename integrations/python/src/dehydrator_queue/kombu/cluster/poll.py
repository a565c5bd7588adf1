"""A command that takes messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty
from time import monotonic
from typing import Any

from dehydrator_queue.queue.commands import new_token
from dehydrator_queue.queue.library import BROKEN, REPLY

#: Seconds until the next attempt after an error: the first time, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5


class Poll:
    """An MPOLL of one queue, on a connection of its own to the node that serves it.

    To kombu's poller it is a channel. While it sleeps, it reserves nothing of the prefetch count.
    """

    def __init__(self, channel: Any, queue: str) -> None:
        self.queue = queue
        self.client: Any = None
        self.handlers: dict[str, Callable[[], Any]] = {"BRPOP": self.read}
        # The poller asks it before it reads a reply. An excess message must be read, too, to give it back.
        self.qos = self
        #: How many messages it asks for without sleeping.
        self.reserved = 0
        #: The connection whose reply is due.
        self._in_poll: Any = None
        self._channel = channel
        self._keys = channel._keys(queue)
        self._node: Any = None
        self._token = new_token()
        #: Whether the last one found nothing. Then the next one sleeps.
        self._found_nothing = False
        self._sent_at = self._again_at = 0.0
        self._pause = FIRST_PAUSE

    def can_consume(self) -> bool:
        return True

    def is_idle(self) -> bool:
        """Returns whether it can be sent now."""
        if self._in_poll and monotonic() > self._sent_at + self._channel.brpop_timeout + REPLY:
            # The machine of the node may be gone: then no end of the connection is reported.
            self._fail(TimeoutError(f"no reply from {self._node.name}"))
        return not self._in_poll and monotonic() >= self._again_at

    def start(self, count: int, register: Callable[[Poll], None]) -> None:
        """Sends it. `register`: connects it, and calls `_brpop_start`."""
        self.reserved = 0 if self._found_nothing else count
        try:
            node = self._channel.cluster.get_node_from_key(self._keys[0])
            if self._channel.cluster.is_away(node):
                self.reserved = 0
                return
            if node != self._node:
                self.disconnect()
                self._node, self.client = node, self._channel.client_at(node, self)
            register(self)
        except Exception as error:
            self._fail(error)

    def _brpop_start(self) -> None:
        connection = self.client.connection
        self._in_poll, self._sent_at = connection, monotonic()
        # If the last reply was lost with its connection, this is its token: the reply is repeated.
        words = self._channel._poll_words(self._keys, self._token, self.reserved or 1)
        block = () if self.reserved else ("BLOCK", int(self._channel.brpop_timeout * 1000))
        connection.send_command(*words, *block)

    def read(self) -> bool:
        """Reads the reply, and delivers its messages."""
        try:
            reply = self.client.parse_response(self.client.connection, "DEHYDRATOR.MPOLL")
        except Exception as error:
            self._fail(error)
            raise Empty() from None
        self._in_poll, self.reserved = None, 0
        self._token, self._pause = new_token(), FIRST_PAUSE
        self._found_nothing = not reply
        if not reply:
            raise Empty()
        self._channel._deliver_reply(self.queue, reply, self._sent_at)
        return True

    def _poll_error(self, type: str) -> None:
        self.read()

    def _fail(self, error: Exception) -> None:
        """Tries again later, perhaps at another node. Raises permanent errors."""
        self.disconnect()
        if isinstance(error, BROKEN) and self._pause > FIRST_PAUSE:
            self._channel.cluster.set_away(self._node, error)
        self._again_at = monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._channel.doubt_slots(error)

    def lost(self, connection: Any) -> None:
        """Is called when a connection ends."""
        if self._in_poll is connection:
            self._in_poll, self.reserved = None, 0

    def disconnect(self) -> None:
        self._in_poll, self.reserved = None, 0
        if self.client is not None:
            self.client.connection.disconnect()

    def close(self) -> None:
        """Ends it. Others get what it gets while it ends."""
        if self._in_poll:
            with suppress(Exception):
                if reply := self.client.parse_response(self.client.connection, "DEHYDRATOR.MPOLL"):
                    self._channel.give_back(reply)
        self.disconnect()
