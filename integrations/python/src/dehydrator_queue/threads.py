"""The threads of a worker's jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from dehydrator_queue.job import Delivery

#: Seconds between two checks whether the wait for threads is over.
SLICE = 0.1


class Threads:
    """Daemon threads, so that a process can end while one still works. Those of concurrent.futures prevent that."""

    def __init__(self, count: int, serve: Callable[[Delivery], None]) -> None:
        self._serve = serve
        self._given: SimpleQueue[Delivery | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._run, name=f"dehydrator-{n}", daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, delivery: Delivery) -> None:
        self._given.put(delivery)

    def end(self, is_over: Callable[[], bool]) -> bool:
        """Waits until all work has ended, or `is_over`; returns whether it has."""
        for _ in self._threads:
            self._given.put(None)
        for thread in self._threads:
            while thread.is_alive():
                if is_over():
                    return False
                thread.join(SLICE)
        return True

    def _run(self) -> None:
        while (delivery := self._given.get()) is not None:
            self._serve(delivery)
