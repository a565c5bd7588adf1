"""What was given out under a limit of rate: at most `rate` elements in any `per` milliseconds.

The next element may go to the millisecond. Where `per` exceeds 1,024, the server may give it a thousandth of it later.
"""

from __future__ import annotations

from bisect import bisect_right


class Log:
    def __init__(self) -> None:
        #: When each element was given out, as far as that counted when the last one was.
        self._moments: list[int] = []

    def record(self, now: int, count: int, per: int) -> None:
        self._moments += [now] * count
        self.adapt(per)

    def adapt(self, per: int) -> None:
        """Adapts to a limit that has changed: what counts under it goes on to count."""
        if self._moments:
            del self._moments[: bisect_right(self._moments, self._moments[-1] - per)]

    def room(self, now: int, rate: int, per: int) -> int:
        """Returns how many elements can be given out now."""
        return max(0, rate - len(self._moments) + bisect_right(self._moments, now - per))

    def next(self, rate: int, per: int) -> int:
        """Returns the moment at which the next element can be given out. One that is over: now."""
        return self._moments[-rate] + per if len(self._moments) >= rate else 0
