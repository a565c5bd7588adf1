"""The moments of schedules, beside those of a walk from minute to minute, and of croniter."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

import pytest
from croniter import croniter

from dehydrator_queue.occurrences import MOST_DUE, Cron, Interval, until

#: DEHYDRATOR_SCHEDULES=100000 takes fourteen minutes of a processor.
SCHEDULES = int(os.environ.get("DEHYDRATOR_SCHEDULES", "150"))
SEED = int(os.environ.get("DEHYDRATOR_SEED", random.SystemRandom().randrange(2**63)))
ZONES = sorted(available_timezones() - {"localtime", "Factory"})
BEGIN, YEARS = datetime(2026, 1, 1, tzinfo=timezone.utc), 10
MINUTE = 60_000
RANGES = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def berlin(*moment: int, fold: int = 0) -> int:
    return ms(datetime(*moment, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold))  # type: ignore[arg-type,misc]


# The oracle.


def values(field: str, text: str) -> set[int]:
    """Returns the values of a field."""
    low, high = RANGES[field]
    found = set()
    for term in text.split(","):
        span, _, step = term.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        a, b = (number(field, end) for end in (first, last or first))
        found |= set(range(a, (high if step and not last else b) + 1, int(step or 1)))
    return {value % 7 for value in found} if field == "weekday" else found


def number(field: str, text: str) -> int:
    names = {"month": ["", *MONTHS], "weekday": WEEKDAYS}.get(field, [])
    return names.index(text.upper()) if text.upper() in names else int(text)


class Walk:
    """Three days of a zone, minute by minute: bit n of a mask stands for the nth entry of `shown`."""

    def __init__(self, zone: str, begin: datetime) -> None:
        self.begin, self.minutes = begin, 3 * 1440
        real = [(n, (begin + timedelta(minutes=n)).astimezone(ZoneInfo(zone))) for n in range(self.minutes)]
        walls = [(n, wall.replace(tzinfo=None, fold=0)) for n, wall in real]
        self.running = Shown(walls)
        # For a fixed time of day, clocks never go back, and pass what they skip.
        passed, last = [], walls[0][1] - timedelta(minutes=1)
        for n, wall in walls:
            while last < wall:
                last += timedelta(minutes=1)
                passed.append((n, last))
        self.fixed = Shown(passed)

    def moments(self, text: str) -> list[int]:
        minute, hour, *_ = text.split()
        shown = self.running if minute[0] == "*" or hour[0] == "*" else self.fixed
        return [ms(self.begin) + n * MINUTE for n in shown.matching(text)]


class Shown:
    """The minutes at which clocks show a time, and the times."""

    def __init__(self, entries: list[tuple[int, datetime]]) -> None:
        self.minutes = [n for n, _ in entries]
        self.masks: dict[tuple[str, int], int] = {}
        for bit, (_, wall) in enumerate(entries):
            told = (wall.minute, wall.hour, wall.day, wall.month, wall.isoweekday() % 7)
            for key in zip(RANGES, told, strict=True):
                self.masks[key] = self.masks.get(key, 0) | 1 << bit

    def matching(self, text: str) -> list[int]:
        fields = dict(zip(RANGES, text.split(), strict=True))
        minute, hour, day, month, weekday = (self._any(field, values(field, told)) for field, told in fields.items())
        both = "*" in (fields["day"][0], fields["weekday"][0])
        found = minute & hour & month & ((day & weekday) if both else (day | weekday))
        bits = (bit for bit, digit in enumerate(reversed(bin(found)[2:])) if digit == "1")
        return sorted({self.minutes[bit] for bit in bits})

    def _any(self, field: str, wanted: set[int]) -> int:
        found = 0
        for value in wanted:
            found |= self.masks.get((field, value), 0)
        return found


walk = lru_cache(maxsize=64)(Walk)


@lru_cache(maxsize=8)
def changes(zone: str) -> list[datetime]:
    """Returns the days of a zone that begin a day before its clocks change."""
    days = [BEGIN + timedelta(days=n) for n in range(365 * YEARS)]
    offsets = [day.astimezone(ZoneInfo(zone)).utcoffset() for day in days]
    pairs = zip(days, offsets, offsets[1:], strict=False)
    return [day - timedelta(days=1) for day, before, after in pairs if before != after]


# Random texts.


def term(draw: random.Random, field: str) -> str:
    low, high = RANGES[field]
    a, b = sorted(draw.randint(low, high) for _ in range(2))
    match draw.randrange(6):
        case 0:
            return f"{a}-{b}"
        case 1:
            return f"{a}-{b}/{draw.randint(1, 9)}"
        case 2:
            return f"*/{draw.randint(2, 20)}"
        case 3 if field == "month":
            return draw.choice(MONTHS)
        case 3 if field == "weekday":
            return draw.choice(WEEKDAYS).lower()
        case _:
            return str(a)


def field(draw: random.Random, name: str, star: float) -> str:
    if draw.random() < star:
        return "*"
    return ",".join(term(draw, name) for _ in range(draw.choice((1, 1, 1, 2, 3))))


def texts(draw: random.Random) -> Iterator[str]:
    """Yields texts of all kinds, most of which occur on each day: the nights of changing clocks are what counts."""
    while True:
        hour = field(draw, "hour", 0.3) if draw.random() < 0.5 else str(draw.choice((0, 1, 2, 2, 3, 23)))
        rest = (field(draw, "day", 0.8), field(draw, "month", 0.9), field(draw, "weekday", 0.7))
        yield " ".join((field(draw, "minute", 0.1), hour, *rest))


def compare(seed: int, zones: list[str], schedules: int, windows: int | None) -> int:
    """Compares schedules of each zone around changes of clocks, all or some; returns how many moments were equal."""
    draw, equal = random.Random(seed), 0
    for zone in zones:
        some = [BEGIN + timedelta(days=draw.randrange(365 * YEARS)), *changes(zone)]
        if windows is not None:
            some = draw.sample(some, min(windows, len(some)))
        for text in islice(texts(draw), schedules):
            cron = Cron(text, zone)
            for begin in some:
                around = walk(zone, begin)
                # A moment of the walk, from which the next ones follow.
                after = ms(begin) + draw.randrange(36 * 60) * MINUTE + draw.choice((0, 0, -1, 1, 30_000))
                end = ms(begin) + around.minutes * MINUTE - 1
                expected = [moment for moment in around.moments(text) if moment > after][:8]
                found = list(islice(until(cron.after, cron.after(after), end), 8))
                assert found == expected, f"{text!r} in {zone} after {after}, seed {seed}"
                equal += len(found)
    return equal


def test_moments_are_those_of_a_walk_from_minute_to_minute() -> None:
    print(f"DEHYDRATOR_SEED={SEED}")
    zones = random.Random(SEED).sample(ZONES, len(ZONES))
    if SCHEDULES < 10_000:
        assert compare(SEED, zones[: SCHEDULES // 10], 10, 3) > SCHEDULES
        return
    each = -(-SCHEDULES // len(zones))
    with ProcessPoolExecutor() as pool:
        found = [pool.submit(compare, SEED + n, [zone], each, None) for n, zone in enumerate(zones)]
        print(sum(one.result() for one in found), "moments of", each * len(zones), "schedules")


def test_moments_without_a_zone_are_those_of_croniter() -> None:
    print(f"DEHYDRATOR_SEED={SEED}")
    draw, compared = random.Random(SEED), 0
    for text in islice(texts(draw), 600):
        _, _, day, _, weekday = text.split()
        # Of `*/2`, croniter says that it is not a star, of `0-6`, that it is one, and of the weekdays `3-3`, that they
        # are all.
        fields, _ = croniter.expand(text)
        if any((field[0] == "*") != (known == ["*"]) for field, known in ((day, fields[2]), (weekday, fields[4]))):
            continue
        if re.search(r"\b(\d+)-\1\b", text):
            continue
        after = ms(BEGIN) + draw.randrange(365 * YEARS * 1440) * MINUTE
        expected = croniter(text, datetime.fromtimestamp(after / 1000, timezone.utc))
        cron = Cron(text)
        for _ in range(3):
            found = cron.after(after)
            assert found == ms(expected.get_next(datetime)), f"{text!r} after {after}"
            after, compared = found or 0, compared + 1
    assert compared > 400


def test_a_fixed_time_comes_once_on_both_nights_of_changing_clocks() -> None:
    spring, autumn = berlin(2026, 3, 29), berlin(2026, 10, 25)
    cron = Cron("30 2 * * *", "Europe/Berlin")
    assert cron.after(spring) == berlin(2026, 3, 29, 3, 0)
    assert cron.after(berlin(2026, 3, 29, 3, 0)) == berlin(2026, 3, 30, 2, 30)
    assert cron.after(autumn) == berlin(2026, 10, 25, 2, 30)
    assert cron.after(berlin(2026, 10, 25, 2, 30)) == berlin(2026, 10, 26, 2, 30)
    several = Cron("0,15,30 2,3 * * *", "Europe/Berlin")
    assert several.due(berlin(2026, 3, 29, 3, 0), berlin(2026, 3, 29, 23)) == [
        berlin(2026, 3, 29, 3, minute) for minute in (0, 15, 30)
    ]


def test_an_hourly_time_follows_real_time_on_both_nights() -> None:
    cron = Cron("0 * * * *", "Europe/Berlin")
    for begin in (berlin(2026, 3, 29), berlin(2026, 10, 25)):
        assert cron.due(begin, begin + 6 * 60 * MINUTE) == [begin + n * 60 * MINUTE for n in range(7)]
    # Clocks change by half an hour there, which the library does not get right.
    zone = ZoneInfo("Australia/Lord_Howe")
    for text, day in (
        ("* 3 * * *", datetime(2026, 10, 4, 3, tzinfo=zone)),
        ("* 2 * * *", datetime(2026, 4, 5, 2, tzinfo=zone)),
    ):
        assert Cron(text, zone.key).after(ms(day) - 8 * 3_600_000) == ms(day)


def test_what_never_occurs_has_no_moment() -> None:
    assert Cron("0 0 29 2 *").after(berlin(2096, 3, 1)) == ms(datetime(2104, 2, 29, tzinfo=timezone.utc))
    with pytest.raises(ValueError, match="Bad day-of-month"):
        Cron("0 0 30 2 *")


@pytest.mark.parametrize("wrong", ["", "* * * *", "0 0 9 * * *", "60 * * * *", "* * * FOO *", "@daily", "1-0 * * * *"])
def test_a_wrong_text_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="cron"):
        Cron(wrong)


@pytest.mark.parametrize("wrong", ["", "Europe/Bärlin", "../etc/passwd", "CET+1", "\0"])
def test_a_wrong_zone_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="no time zone has the name"):
        Cron("0 9 * * *", wrong)


def test_an_interval_keeps_its_grid_however_much_was_missed() -> None:
    second = Interval(1000)
    assert second.after(500) == 1500
    year = second.due(500, 365 * 86_400_000)
    assert (len(year), year[-1]) == (365 * 86_400, 365 * 86_400_000 - 500)
    with pytest.raises(ValueError, match="at least a millisecond"):
        Interval(0)


def test_of_many_moments_of_a_cron_the_first_are_listed() -> None:
    assert Cron("* * * * *").due(0, 365 * 86_400_000) == [n * MINUTE for n in range(MOST_DUE)]
