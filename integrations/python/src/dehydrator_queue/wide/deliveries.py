"""What is taken from the keys of a queue for a framework, which asks for one after the other."""

from __future__ import annotations

import math
import threading
import time
from queue import Empty, SimpleQueue
from typing import Any

from dehydrator_queue.backoff import Backoff
from dehydrator_queue.hooks import Hooks
from dehydrator_queue.job import Delivery
from dehydrator_queue.queue.server import Server
from dehydrator_queue.wide.pollers import Pollers
from dehydrator_queue.worker.settings import Settings

#: The maximum number of messages per POLL.
MOST_AT_ONCE = 100


def settings_of(most: int, lease_ms: int, block_ms: int) -> Settings:
    """Returns the settings of a consumer, to which attempts and delays are no matter."""
    return Settings(most, lease_ms, block_ms, None, False, Backoff(), math.inf)


class Deliveries:
    """Up to `most` are taken, and not ended yet.

    Nothing is taken for what has ended before somebody asks for the next one: a worker that stops only waits.
    """

    def __init__(self, queue: Any, most: int, lease_ms: int, block_ms: int) -> None:
        self._given: SimpleQueue[Delivery | Exception | None] = SimpleQueue()
        self._stopping = threading.Event()
        server = Server(queue._server.client, patience=math.inf)
        settings = settings_of(most, lease_ms, block_ms)
        hooks, is_over = Hooks(), self._stopping.is_set
        self._pollers = Pollers(
            [queue], settings, block_ms, MOST_AT_ONCE, server, server, None, hooks, is_over, self._given.put
        )
        self._thread = threading.Thread(target=self._run, name=f"dehydrator-{queue.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._pollers.run()
        except Exception as error:
            self._given.put(error)

    def take(self, timeout: float) -> Delivery | None:
        """Waits for the next one. Raises permanent errors."""
        end = time.monotonic() + timeout
        while True:
            try:
                given = self._given.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                return None
            if isinstance(given, Exception):
                raise given
            if given is not None:
                return given
            self._pollers.permits.release()

    def end(self) -> None:
        """Makes room for another one."""
        self._given.put(None)

    def stop(self) -> None:
        """Takes no more; what comes while it is still blocked in the server is given back."""
        self._stopping.set()

    def close(self) -> list[Delivery]:
        """Returns what was taken and nobody has asked for."""
        self.stop()
        self._thread.join()
        left = []
        while not self._given.empty():
            if isinstance(given := self._given.get(), Delivery):
                left.append(given)
        return left
