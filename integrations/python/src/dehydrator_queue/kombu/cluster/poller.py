"""The poller of all connections."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kombu.transport import redis as base


class Poller(base.MultiChannelPoller):
    """Waits for the replies to several polls of a channel. If a node is away, the others go on.

    kombu's own ends the connection to the broker with any of its connections.
    """

    def __init__(self) -> None:
        super().__init__()
        #: Removes the number of a file that is about to be closed from the event loop, if there is one.
        self.remove: Callable[[int], Any] = lambda number: self.poller.unregister(number)

    def get(self, callback: Any, timeout: float | None = None) -> None:
        # When all nodes are away, no reply would end the wait.
        super().get(callback, 1.0 if timeout is None else min(timeout, 1.0))

    def forget(self, part: Any, connection: Any) -> None:
        """Forgets a connection of a poll, or of a channel, that is about to end."""
        if (socket := connection._sock) is None:
            return
        number = socket.fileno()
        if self._fd_to_chan.get(number, (None,))[0] is part:
            del self._fd_to_chan[number]
            with suppress(KeyError, OSError, ValueError):
                self.remove(number)
        for ident in [ident for ident, one in self._chan_to_sock.items() if one is socket]:
            del self._chan_to_sock[ident]

    def _register_BRPOP(self, channel: Any) -> None:
        channel.start_polls(super()._register_BRPOP)

    def _register_LISTEN(self, channel: Any) -> None:
        channel.listen(super()._register_LISTEN)
