"""Durations and moments, as Python has them and as the server wants them."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

Duration = float | timedelta


def milliseconds(duration: Duration) -> int:
    """Returns a duration in whole milliseconds, rounded up: never early."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    # Digits beyond a microsecond are those of the float, as in 0.1 * 3.
    return max(0, math.ceil(round(seconds * 1000, 3)))


def unix_milliseconds(moment: datetime | float) -> int:
    """Returns a moment, or a number of seconds since 1970, in milliseconds since 1970, rounded up."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("say in which time zone: datetime.now(timezone.utc), not datetime.now()")
        moment = moment.timestamp()
    return max(0, math.ceil(round(moment * 1000, 3)))
