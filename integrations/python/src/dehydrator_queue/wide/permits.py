"""The capacity of a worker, shared by its keys."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable


class Permits:
    """Gives permits to the keys that have something due: those of earlier queues first, the others in turns."""

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._waiting: list[tuple[int, int, int, Callable[[int], object]]] = []
        self._turns = itertools.count()
        self._lock = threading.Lock()
        #: Calls a function now or, if it can, when the jobs that end together have ended: one POLL takes as many.
        self.soon: Callable[[Callable[[], None]], object] = lambda share: share()

    def ask(self, rank: int, most: int, give: Callable[[int], object]) -> None:
        """Calls `give` with a number of permits, as soon as there is one. `rank`: the lowest is first."""
        with self._lock:
            heapq.heappush(self._waiting, (rank, next(self._turns), most, give))
        self.soon(self._share)

    def take_one(self, rank: int) -> bool:
        """Takes a permit if one is free, and nobody of an earlier rank waits for it."""
        with self._lock:
            has_one = self._free > 0 and not (self._waiting and self._waiting[0][0] < rank)
            self._free -= has_one
        return has_one

    def release(self, count: int = 1) -> None:
        with self._lock:
            self._free += count
        self.soon(self._share)

    def resize(self, count: int) -> None:
        """Changes how many there are. If that is less, those that are in use are not replaced."""
        with self._lock:
            self._free += count - self._count
            self._count = count
        self.soon(self._share)

    def _share(self) -> None:
        with self._lock:
            while self._free > 0 and self._waiting:
                rank, _, most, give = heapq.heappop(self._waiting)
                equals = sum(other == rank for other, *_ in self._waiting) + 1
                # A share of what is free just now would soon be one, with a POLL for each job.
                count = min(self._free, -(-self._count // equals), most)
                self._free -= count
                give(count)
