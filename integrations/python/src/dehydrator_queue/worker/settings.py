"""The settings of a worker, and the handling of failed jobs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dehydrator_queue.backoff import Backoff
from dehydrator_queue.errors import Retry
from dehydrator_queue.job import Job
from dehydrator_queue.options import Duration, in_seconds

#: How often a job is delivered where neither the queue nor the worker says.
USUAL = 5

#: `queue`: as often as the policy of the queue says, or USUAL if it has none yet. None: without limit.
Attempts = int | Literal["queue"] | None

#: Of all jobs of a worker, or of each.
Timeout = Duration | Callable[[Job], Duration | None] | None


@dataclass(frozen=True)
class Settings:
    """Durations in milliseconds, except for the back-off and the stop."""

    concurrency: int
    lease_ms: int
    block_ms: int
    attempts: int | None
    #: Whether the queue's own policy is in force, rather than `attempts`.
    by_queue: bool
    backoff: Backoff
    #: In seconds.
    stop_timeout: float
    timeout: Timeout = None
    #: Whether work that takes too long keeps its place until it ends.
    keep_place: bool = False

    @property
    def renewal(self) -> float:
        """Seconds between renewals: two may fail before a lease expires."""
        return self.lease_ms / 3000

    def time_of(self, job: Job) -> float:
        """Returns the seconds that the work of a job may take."""
        timeout = self.timeout(job) if callable(self.timeout) else self.timeout
        return math.inf if timeout is None else in_seconds("timeout", timeout)

    def delay(self, error: BaseException, attempt: int) -> float:
        """Returns the seconds until the next attempt of a job whose work raised an error."""
        return error.delay if isinstance(error, Retry) else self.backoff.after(attempt)


#: The reason of a job that a stop interrupted.
CUT_OFF = "the worker stopped before the work ended"
