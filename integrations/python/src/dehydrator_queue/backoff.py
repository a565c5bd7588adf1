"""How long a job waits that failed."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Doubles with each attempt, with a jitter, so that what failed together is not tried together. In seconds."""

    first: float = 1.0
    factor: float = 2.0
    most: float = 3600.0
    #: From 0 to 1: which part of the wait is left to chance.
    jitter: float = 0.5

    def after(self, attempt: int) -> float:
        """Returns how long to wait after the attempt of this number, from 1 on."""
        # Beyond that many doublings every wait is the longest; the power would overflow.
        wait = min(self.most, self.first * self.factor ** min(attempt - 1, 64))
        return wait * (1 - self.jitter * random.random())
