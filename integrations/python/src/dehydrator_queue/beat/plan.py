"""The plan of a periodic task: a line that tells when it occurs, for any beat to read.

Celery's own classes find the moments. They are asked as if now were the moment of the last occurrence, so that the
result depends neither on when it is computed, nor on the clock of the beat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from celery.schedules import BaseSchedule, crontab, schedule, solar

from dehydrator_queue.occurrences import MOST_DUE, Interval, Occurrences, until

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)

#: Where Celery finds no later moment than the one it was asked for, it is asked from somewhat later on, up to a day.
_FURTHER = [0, 1000, 60_000, 3_600_000, 86_400_000]


class UnknownScheduleError(Exception):
    """The schedule is of a class of its own, which only a beat with the same settings has."""


def moment_of(ms: int, zone: Any = timezone.utc) -> datetime:
    return (EPOCH + ms * MILLISECOND).astimezone(zone)


def plan_of(when: BaseSchedule) -> bytes:
    """Writes a plan. Plans of equal schedules are equal."""
    told: dict[str, Any]
    if type(when) is crontab:
        minute, hour, *days = when._orig_minute, when._orig_hour, when._orig_day_of_week, when._orig_day_of_month
        told = {
            "crontab": [_field(one) for one in (minute, hour, *days, when._orig_month_of_year)],
            "zone": _zone(when),
        }
    elif type(when) is schedule and not when.relative:
        told = {"ms": _interval(when)}
    elif type(when) is schedule:
        told = {"ms": _interval(when), "relative": True, "zone": _zone(when)}
    elif type(when) is solar:
        told = {"solar": [when.event, when.lat, when.lon]}
    else:
        # Without its address in memory.
        shown = re.sub(r" at 0x[0-9a-f]+", "", repr(when))
        told = {"class": f"{type(when).__module__}.{type(when).__qualname__}", "shown": shown}
    # A field that a worker of queues does not know: it leaves the entry to a beat.
    return json.dumps({"by": "celery", **told}, sort_keys=True, separators=(",", ":")).encode()


def schedule_of(plan: bytes, app: Any) -> BaseSchedule:
    """Reads a plan."""
    told = json.loads(plan)
    when: BaseSchedule
    if "crontab" in told:
        when = crontab(*told["crontab"], app=app)
    elif "ms" in told:
        when = schedule(timedelta(milliseconds=told["ms"]), told.get("relative", False), app=app)
    elif "solar" in told:
        when = solar(*told["solar"], app=app)
    else:
        raise UnknownScheduleError(told.get("class"))
    if told.get("zone", "local") != "local":
        vars(when)["tz"] = ZoneInfo(told["zone"])
    return when


def occurrences_of(when: BaseSchedule, most: int = MOST_DUE) -> Occurrences | None:
    """Returns None for a schedule that decides by itself, when it is asked, whether it is due.

    `most`: how many due moments are computed at a time.
    """
    if type(when).is_due not in (crontab.is_due, schedule.is_due, solar.is_due):
        return None
    if type(when) is schedule and not when.relative:
        return Interval(_interval(when))
    return Computed(when, most)


def _ms(moment: datetime) -> int:
    """Returns a moment in milliseconds, rounded up."""
    return -int((EPOCH - moment) // MILLISECOND)


class Computed:
    """The moments that Celery computes."""

    def __init__(self, when: BaseSchedule, most: int) -> None:
        self._most = most
        self.zone = when.tz
        # Not a copy by its constructor, which knows nothing of attributes that a subclass adds.
        self._when = object.__new__(type(when))
        self._when.__dict__.update(vars(when))
        self._is_cron = getattr(type(when), "remaining_estimate", None) is crontab.remaining_estimate

    def after(self, moment: int) -> int:
        for further in _FURTHER:
            found = self._ask(moment + further)
            if found <= moment:
                # In an hour that occurs twice, Celery may find the first of two, and would send task after task.
                found = _ms(moment_of(found, self.zone).replace(fold=1))
            if found > moment:
                return found
        raise ValueError(f"{self._when!r} has no moment after {moment_of(moment)}")

    def _ask(self, moment: int) -> int:
        at = moment_of(moment, self.zone)
        self._when.nowfun = lambda: at
        if self._is_cron:
            # Before Celery 5.7, what remains is wrong by an hour where clocks change in between.
            start, delta, _ = self._when.remaining_delta(at)
            return _ms((start + delta).astimezone(timezone.utc))
        return _ms(at.astimezone(timezone.utc) + self._when.remaining_estimate(at))

    def due(self, first: int, last: int) -> Sequence[int]:
        return list(islice(until(self.after, first, last), self._most))


def _interval(when: schedule) -> int:
    return max(1, round(float(when.run_every / MILLISECOND)))


def _field(value: Any) -> Any:
    return value if isinstance(value, (int, str)) else sorted(value)


def _zone(when: BaseSchedule) -> str:
    name = str(when.tz)
    return name if name == "UTC" or isinstance(when.tz, ZoneInfo) else "local"
