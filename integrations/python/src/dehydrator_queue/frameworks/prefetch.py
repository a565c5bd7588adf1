"""How many jobs to lease at once for a framework of asyncio, which asks for one after the other.

It does not tell how many it has room for. Those that it is likely to ask for within AHEAD seconds are leased, judged by
the last ones, and what it has not asked for after STALE seconds is given back.
"""

from __future__ import annotations

import time

#: In seconds.
AHEAD, STALE = 0.01, 0.05

#: At once, as taskiq-redis.
MOST = 100


class Prefetch:
    """How fast the framework asks for jobs."""

    def __init__(self, most: int) -> None:
        self._most = most
        #: How many to lease next.
        self.count = 1

    def begin(self) -> None:
        """Some have been leased."""
        self._began, self._passed = time.monotonic(), 0

    def pass_on(self) -> None:
        """The framework has taken one of them, and asks for the next one."""
        self._passed += 1
        in_time = self._passed * AHEAD / max(time.monotonic() - self._began, 1e-6)
        self.count = max(1, int(min(self._most, 2 * self._passed, in_time)))
