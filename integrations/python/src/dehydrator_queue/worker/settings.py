"""The settings of a worker, and the handling of failed jobs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from dehydrator_queue.backoff import Backoff
from dehydrator_queue.durations import Duration, in_seconds, milliseconds
from dehydrator_queue.errors import Retry
from dehydrator_queue.job import Job

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

    @classmethod
    def of(
        cls,
        concurrency: int,
        lease: Duration,
        block: Duration,
        attempts: Attempts,
        backoff: Backoff | None,
        stop_timeout: Duration | None,
        timeout: Timeout = None,
    ) -> Settings:
        stop_in = math.inf if stop_timeout is None else in_seconds(stop_timeout)
        by_queue = attempts == "queue"
        most: Any = USUAL if by_queue else attempts
        settings = cls(
            *(concurrency, milliseconds(lease), milliseconds(block), most, by_queue, backoff or Backoff(), stop_in),
            timeout,
        )
        _check_count("concurrency", concurrency)
        if most is not None:
            _check_count("attempts", most)
        if settings.lease_ms < 100:
            raise ValueError("a lease is at least 0.1 seconds: it is renewed three times in its time")
        if most is not None and most > 65535:
            raise ValueError("attempts is from 1 to 65535, or None for no limit")
        if timeout is not None and not callable(timeout) and in_seconds(timeout) <= 0:
            raise ValueError("timeout is more than 0 seconds")
        return settings

    @property
    def renewal(self) -> float:
        """Seconds between renewals: two may fail before a lease expires."""
        return self.lease_ms / 3000

    def time_of(self, job: Job) -> float:
        """Returns the seconds that the work of a job may take."""
        timeout = self.timeout(job) if callable(self.timeout) else self.timeout
        return math.inf if timeout is None else in_seconds(timeout)

    def delay(self, error: BaseException, attempt: int) -> float:
        """Returns the seconds until the next attempt of a job whose work raised an error."""
        return error.delay if isinstance(error, Retry) else self.backoff.after(attempt)


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} is at least 1")


#: The reason of a job that a stop interrupted.
CUT_OFF = "the worker stopped before the work ended"
