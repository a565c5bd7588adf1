"""The delay of a failed job."""

from __future__ import annotations

import random
from dataclasses import dataclass

from dehydrator_queue.options import number


@dataclass(frozen=True)
class Backoff:
    """Grows with each attempt, with jitter, so that jobs that failed together do not retry together. In seconds."""

    first: float = 1.0
    factor: float = 2.0
    most: float = 3600.0
    #: From 0 to 1: the random share of the delay.
    jitter: float = 0.5

    def __post_init__(self) -> None:
        for name in ("first", "factor", "most"):
            number(name, getattr(self, name))
        number("jitter", self.jitter, most=1.0)

    def after(self, attempt: int) -> float:
        """Returns the delay after this attempt, counted from 1."""
        # After this many doublings, every delay is the longest; the power would overflow.
        wait = min(self.most, self.first * self.factor ** min(attempt - 1, 64))
        return wait * (1 - self.jitter * random.random())
