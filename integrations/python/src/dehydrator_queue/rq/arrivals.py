"""Waiting for lists, whose elements stay there."""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import TimeoutError as SilentError

from dehydrator_queue.queue.library import REPLY

#: Seconds for which it blocks in the server.
BLOCK = 5


class Arrivals:
    """Waits until one of several lists has an element.

    Only commands that take elements block on several lists. So it has a connection for each list, which moves the
    list's first element to where it is.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._connections: dict[str, Any] = {}
        #: The lists on which a connection blocks, and since when.
        self._since: dict[str, float] = {}

    def wait(self, keys: Sequence[str], seconds: float) -> None:
        """Returns when a list may have an element, or after `seconds`, or earlier."""
        try:
            self._wait(keys, seconds)
        except BaseException:
            self.close()
            raise

    def _wait(self, keys: Sequence[str], seconds: float) -> None:
        with selectors.DefaultSelector() as selector:
            for key in keys:
                selector.register(self._ask(key)._sock, selectors.EVENT_READ, key)
            ready = [key.data for key, _ in selector.select(min(seconds, BLOCK))]
        for key in ready:
            del self._since[key]
            self._connections[key].read_response()
        if time.monotonic() > min(self._since.values(), default=time.monotonic()) + BLOCK + REPLY:
            raise SilentError("the server is silent")

    def _ask(self, key: str) -> Any:
        connection = self._connections.get(key) or self._connections.setdefault(key, self._pool.make_connection())
        if key not in self._since:
            connection.send_command("BLMOVE", key, key, "LEFT", "LEFT", BLOCK)
            self._since[key] = time.monotonic()
        return connection

    def close(self) -> None:
        connections, self._connections, self._since = self._connections, {}, {}
        for connection in connections.values():
            connection.disconnect()
