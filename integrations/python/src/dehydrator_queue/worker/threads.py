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

    def __init__(self, count: int, serve: Callable[[Delivery], bool]) -> None:
        """`serve`: returns whether the thread goes on. One whose place another has taken ends."""
        self._serve = serve
        self._given: SimpleQueue[Delivery | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        #: The threads, with what each serves.
        self._threads: dict[threading.Thread, Delivery | None] = {}
        for _ in range(count):
            self.add()

    def add(self) -> None:
        """Starts one more, in the place of one whose work takes too long."""
        with self._lock:
            thread = threading.Thread(target=self._run, name=f"dehydrator-{self._count}", daemon=True)
            self._count += 1
            self._threads[thread] = None
        thread.start()

    def leave(self, delivery: Delivery) -> None:
        """Waits no longer for the thread that serves a delivery."""
        with self._lock:
            for thread, served in list(self._threads.items()):
                if served is delivery:
                    del self._threads[thread]

    def submit(self, delivery: Delivery) -> None:
        self._given.put(delivery)

    def end(self, is_over: Callable[[], bool]) -> bool:
        """Waits until all work has ended, or `is_over`; returns whether it has."""
        for _ in list(self._threads):
            self._given.put(None)
        while alive := [thread for thread in list(self._threads) if thread.is_alive()]:
            if is_over():
                return False
            alive[0].join(SLICE)
        return True

    def _run(self) -> None:
        own = threading.current_thread()
        while (delivery := self._given.get()) is not None:
            with self._lock:
                self._threads[own] = delivery
            goes_on = self._serve(delivery)
            if not goes_on:
                return
