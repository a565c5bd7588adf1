"""The settings of a worker, and the handling of failed jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dehydrator_queue.backoff import Backoff
from dehydrator_queue.errors import Reject, Retry
from dehydrator_queue.job import Delivery
from dehydrator_queue.moment import Duration, in_seconds, milliseconds


@dataclass(frozen=True)
class Terms:
    """Durations in milliseconds, except for the back-off and the stop."""

    concurrency: int
    lease_ms: int
    block_ms: int
    attempts: int | None
    backoff: Backoff
    #: In seconds.
    stop_timeout: float

    @classmethod
    def of(
        cls,
        concurrency: int,
        lease: Duration,
        block: Duration,
        attempts: int | None,
        backoff: Backoff | None,
        stop_timeout: Duration | None,
    ) -> Terms:
        stop_in = math.inf if stop_timeout is None else in_seconds(stop_timeout)
        terms = cls(concurrency, milliseconds(lease), milliseconds(block), attempts, backoff or Backoff(), stop_in)
        if concurrency < 1:
            raise ValueError("concurrency is at least 1")
        if terms.lease_ms < 100:
            raise ValueError("a lease is at least 0.1 seconds: it is renewed three times in its time")
        if attempts is not None and not 1 <= attempts <= 65535:
            raise ValueError("attempts is from 1 to 65535, or None for no limit")
        return terms

    @property
    def renewal(self) -> float:
        """Seconds between renewals: two may fail before a lease expires."""
        return self.lease_ms / 3000

    def of_job(self, attempts: int | None) -> Terms:
        """Returns the terms of a job, which may have attempts of its own."""
        return self if attempts is None else replace(self, attempts=attempts)

    def is_last(self, delivery: Delivery) -> bool:
        """Returns whether this is the last attempt."""
        return self.attempts is not None and delivery.deliveries >= self.attempts


@dataclass(frozen=True)
class Again:
    """To be delivered again in `delay` seconds."""

    delay: float


@dataclass(frozen=True)
class Dead:
    """To become a dead letter now."""

    reason: str


def reason_of(error: BaseException) -> str:
    """Returns the reason of a failure, in one line."""
    text = str(error)
    if isinstance(error, Reject):
        return text or "rejected"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


#: The reason of a dead letter whose last attempt a stop interrupted.
CUT_OFF = "the worker stopped before the work ended"


def verdict(error: BaseException, delivery: Delivery, terms: Terms) -> Again | Dead:
    """Returns the fate of a job whose work raised `error`."""
    if isinstance(error, Reject):
        return Dead(reason_of(error))
    if terms.is_last(delivery):
        return Dead(reason_of(error))
    return Again(error.delay if isinstance(error, Retry) else terms.backoff.after(delivery.deliveries))
