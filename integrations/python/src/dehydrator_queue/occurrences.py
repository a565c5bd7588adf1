"""The moments at which a schedule occurs, in milliseconds since 1970: by cron in a time zone, or at intervals.

On the nights when clocks change, cron is that of Debian. A fixed time of day that is skipped comes right after the gap,
and one that occurs twice comes the first time. Where the minute or the hour begins with `*`, real time counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Protocol
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from cronsim import CronSim

#: The maximum number of occurrences that `due` of a cron lists at once, within some 50 ms.
MOST_DUE = 1000

_DAY = 86_400_000
_EPOCH = datetime(1970, 1, 1)
_MILLISECOND = timedelta(milliseconds=1)


class Occurrences(Protocol):
    def after(self, moment: int) -> int | None:
        """Returns the first occurrence after an occurrence, or for cron after any moment. None: there is none."""

    def due(self, first: int, last: int) -> Sequence[int]:
        """Returns the occurrences from `first`, which is one, until `last`; if they are many, the first of them."""


class Interval:
    """Every so many milliseconds."""

    def __init__(self, ms: int) -> None:
        if ms < 1:
            raise ValueError("the interval of a schedule is at least a millisecond")
        self.ms = ms

    def after(self, moment: int) -> int:
        return moment + self.ms

    def due(self, first: int, last: int) -> Sequence[int]:
        return range(first, last + 1, self.ms)


class Cron:
    """A crontab's five fields, in a time zone.

    The library finds the times of day, without a zone: with one, it is wrong where clocks change by half an hour.
    """

    def __init__(self, text: str, zone: str = "UTC") -> None:
        """Raises ValueError for a wrong text or zone."""
        if len(text.split()) != 5:
            raise ValueError(f"a cron has five fields, such as '0 9 * * 1-5', and not {text!r}")
        # The library takes `2-2/5` for `2/5`.
        self.text = re.sub(r"\b(\w+)-\1/\d+", r"\1", text.upper())
        self.zone = zone_of(zone)
        self._parse(_EPOCH)
        minute, hour, *_ = text.split()
        self._is_fixed = not minute.startswith("*") and not hour.startswith("*")

    def after(self, moment: int) -> int | None:
        return self._after_fixed(moment) if self._is_fixed else self._after_running(moment)

    def due(self, first: int, last: int) -> Sequence[int]:
        return list(islice(until(self.after, first, last), MOST_DUE))

    def _after_fixed(self, moment: int) -> int | None:
        for time in self._parse(self._wall(moment)):
            # Of a time that occurs twice, the first one. In a gap, the offset before it: a moment after its end.
            found = _ms(time) - _offset_at(time.replace(tzinfo=self.zone))
            if self._wall(found) != time:
                found = self._change(_ms(time) - _offset_at(time.replace(tzinfo=self.zone, fold=1)), found)
            if found > moment:
                return found
        return None

    def _after_running(self, moment: int) -> int | None:
        while True:
            # The offset that counts from the next millisecond on.
            offset = self._offset(moment + 1)
            time = next(self._parse(_EPOCH + (moment + offset) * _MILLISECOND), None)
            if time is None:
                return None
            found = _ms(time) - offset
            end = min(found, moment + _DAY)
            if self._offset(end) != offset:
                moment = self._change(moment + 1, end) - 1
            elif end == found:
                return found
            else:
                moment = max(end, found - _DAY)

    def _change(self, low: int, high: int) -> int:
        """Returns the moment after `low`, and not after `high`, at which clocks change."""
        before = self._offset(low)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._offset(middle) == before else (low, middle)
        return high

    def _parse(self, wall: datetime) -> CronSim:
        """Returns the times of day after this one."""
        from cronsim import CronSim, CronSimError

        try:
            return CronSim(self.text, wall)
        except CronSimError as error:
            raise ValueError(f"cron {self.text!r}: {error}") from None

    def _wall(self, moment: int) -> datetime:
        """Returns what clocks show at a moment."""
        return _EPOCH + (moment + self._offset(moment)) * _MILLISECOND

    def _offset(self, moment: int) -> int:
        return _offset_at(moment_in(self.zone, moment))


def until(after: Callable[[int], int | None], first: int | None, last: int) -> Iterator[int]:
    """Yields the occurrences from `first`, which is one, until `last`."""
    while first is not None and first <= last:
        yield first
        first = after(first)


def zone_of(name: str) -> tzinfo:
    try:
        return timezone.utc if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"no time zone has the name {name!r}; one is Europe/Berlin") from None


def moment_in(zone: tzinfo, moment: int) -> datetime:
    return (_EPOCH + moment * _MILLISECOND).replace(tzinfo=timezone.utc).astimezone(zone)


def has_cron() -> bool:
    """Returns whether the library for cron is installed."""
    return find_spec("cronsim") is not None


def require_cron() -> None:
    if not has_cron():
        raise ImportError("schedules need the library cronsim: install dehydrator-queue[cron]")


def _ms(wall: datetime) -> int:
    return (wall - _EPOCH) // _MILLISECOND


def _offset_at(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return offset // _MILLISECOND
