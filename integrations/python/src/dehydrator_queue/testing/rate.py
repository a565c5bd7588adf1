"""What was given out under a limit of rate: at most `rate` elements in any `per` milliseconds.

The next element may go to the millisecond. Where `per` exceeds 1,024, the server may give it a thousandth of it later.
"""

from __future__ import annotations


class Log:
    def __init__(self) -> None:
        #: When each element was given out, as far as that counted when the last one was.
        self._moments: list[int] = []

    def record(self, now: int, count: int, per: int) -> None:
        self._moments += [now] * count
        self.adapt(per)

    def adapt(self, per: int) -> None:
        """Adapts to a limit that has changed: what counts under it goes on to count."""
        self._moments = [at for at in self._moments if at + per > self._moments[-1]]

    def room(self, now: int, rate: int, per: int) -> int:
        """Returns how many elements can be given out now."""
        return max(0, rate - sum(at + per > now for at in self._moments))

    def next(self, rate: int, per: int) -> int:
        """Returns the moment at which the next element can be given out. One that is over: now."""
        return self._moments[-rate] + per if len(self._moments) >= rate else 0
