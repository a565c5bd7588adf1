"""Writes crons, zones, moments, and the next occurrences, by cronsim for Python, for occurrences.test.ts.

usage: occurrences.py count first-year seed | gzip -9n > occurrences.tsv.gz      (the one here: 2000 2012 1)

Each line has a cron text, a zone, a moment in seconds since 1970, and the minutes from there, rounded up, to each
occurrence. Most moments are near those at which the clocks change. The years of the file here are over: their rules are
the same in each version of the IANA database. With other seeds it may need a Ctrl-C: cronsim 2.8 finds no end of some
nights in Pacific/Chatham.
"""

import itertools
import random
import sys
import zoneinfo
from datetime import datetime, timedelta, timezone
from functools import cache

from cronsim import CronSim, CronSimError

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
NIGHTS = ["0", "1", "2", "3", "23", "2,3", "1-3", "0-4", "0-23", "*", "*/2", "*/3"]

count, year, seed = (int(word) for word in sys.argv[1:])
drawn = random.Random(seed)
zones = sorted(zoneinfo.available_timezones() - {"Factory", "localtime"})


def item(low, high, names):
    def value():
        number = drawn.randint(low, high)
        return names[number - low] if number - low < len(names) and drawn.random() < 0.4 else str(number)

    first = drawn.randint(low, high)
    last = drawn.randint(first, high)
    step = drawn.choice([1, 2, 3, 5, 7, 10, 15, 20, 30, 45])
    # The library takes `2-2/5` for `2/5`.
    steps = f"{first}-{last}/{step}" if last > first else f"*/{step}"
    return drawn.choice([value(), value(), f"{first}-{last}", steps, f"{first}/{step}", f"*/{step}"])


def field(low, high, star, names=(), special=()):
    if drawn.random() < star:
        return "*"
    some = [item(low, high, names) for _ in range(drawn.choice([1, 1, 1, 2, 3]))]
    if special and drawn.random() < 0.15:
        some[0] = drawn.choice(special)
    # In a list, the library refuses it.
    return "LW" if "LW" in some else ",".join(some)


def cron():
    return " ".join(
        [
            field(0, 59, 0.1),
            drawn.choice(NIGHTS) if drawn.random() < 0.6 else field(0, 23, 0.1),
            field(1, 31, 0.6, special=["L", "LW"]),
            field(1, 12, 0.7, MONTHS),
            field(0, 7, 0.6, DAYS, special=["5L", "0L", "7L", "MON#1", "3#2", "7#5"]),
        ]
    )


@cache
def changes(zone, year):
    days = [datetime(year, 1, 1, tzinfo=timezone.utc) + timedelta(days=day) for day in range(367)]
    offsets = [day.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset() for day in days]
    return [day for day, before, after in zip(days, offsets, offsets[1:], strict=False) if before != after]


def moment(zone):
    seen = year + drawn.randint(0, 9)
    days = changes(zone, seen)
    if days and drawn.random() < 0.8:
        return drawn.choice(days) + timedelta(seconds=drawn.randint(-2 * 86400, 86400))
    return datetime(seen, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=drawn.randint(0, 365 * 86400))


def occurrences(text, zone, begin):
    """Yields what cronsim does, in order: it goes back or repeats itself where several times of day fall together."""
    last = begin
    for found in CronSim(text, begin.astimezone(zoneinfo.ZoneInfo(zone))):
        if found.timestamp() > last.timestamp():
            last = found.astimezone(timezone.utc)
            yield last


def line():
    zone = drawn.choice(zones)
    text, begin = cron(), moment(zone)
    try:
        found = list(itertools.islice(occurrences(text, zone, begin), 4))
    except CronSimError:
        return line()
    minutes = [str(-((begin - one) // timedelta(minutes=1))) for one in found]
    return "\t".join([text, zone, str(int(begin.timestamp())), " ".join(minutes)])


for _ in range(count):
    print(line())
