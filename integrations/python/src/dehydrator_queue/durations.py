"""Converts durations and points in time for the server."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from numbers import Real

Duration = float | timedelta

#: The longest delay of a retry, in milliseconds: a hundred years.
LONGEST_MS = 100 * 365 * 86_400_000


def _finite(number: object, meant: str) -> float:
    # A bool is a number in Python, but a mistake here.
    if not isinstance(number, Real) or isinstance(number, bool):
        raise TypeError(f"{meant}, not {number!r}")
    if not math.isfinite(number):
        raise ValueError(f"{meant}, not {number!r}")
    return float(number)


def in_seconds(duration: Duration) -> float:
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    return _finite(duration, "a duration is a number of seconds, or a timedelta")


def milliseconds(duration: Duration) -> int:
    """Returns a duration in whole milliseconds, rounded up: never early."""
    # Digits beyond a microsecond are rounding errors, as in 0.1 * 3.
    return max(0, math.ceil(round(in_seconds(duration) * 1000, 3)))


def unix_milliseconds(moment: datetime | float) -> int:
    """Returns a point in time, or a number of seconds since 1970, in milliseconds since 1970, rounded up."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("say in which time zone: datetime.now(timezone.utc), not datetime.now()")
        moment = moment.timestamp()
    moment = _finite(moment, "a moment is a datetime with its time zone, or a number of seconds since 1970")
    return max(0, math.ceil(round(moment * 1000, 3)))
