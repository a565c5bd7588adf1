"""The load by other programs: if they use the same cores, the results are meaningless."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable

import psutil

#: Of all cores: more than this is too much.
NOISE = 0.1

CORES = os.cpu_count() or 1


def busy_seconds() -> float:
    """Returns the busy time of all cores since the machine was started."""
    spent = psutil.cpu_times()
    return sum(spent) - spent.idle - spent.iowait - spent.guest - spent.guest_nice


def seconds_of(who: int) -> float:
    """`who` is RUSAGE_SELF, or RUSAGE_CHILDREN: ended children."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


class Noise:
    """The CPU time of other programs, from now on."""

    def __init__(self, ours: Callable[[], float]) -> None:
        """`ours`: the seconds of the processor that we took until now."""
        self._ours = ours
        self._began, self._busy, self._own = time.monotonic(), busy_seconds(), ours()

    def part(self) -> float:
        """Returns which part of all cores others took."""
        foreign = busy_seconds() - self._busy - (self._ours() - self._own)
        return foreign / (time.monotonic() - self._began) / CORES


def wait_for_calm(seconds: float) -> bool:
    """Waits until the cores are nearly idle, or for a given time; returns whether they are."""
    end = time.monotonic() + seconds
    while True:
        busy, began = busy_seconds(), time.monotonic()
        time.sleep(3)
        if (busy_seconds() - busy) / (time.monotonic() - began) / CORES < NOISE:
            return True
        if time.monotonic() > end:
            return False
