"""Checks and converts the options of a program: an error names the option, before anything is sent."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from numbers import Real
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

Duration = float | timedelta

#: The longest delay of a retry, in milliseconds: a hundred years.
LONGEST_MS = 100 * 365 * 86_400_000

#: The greatest number in a command, and that of DELIVERIES.
GREATEST, MOST_ATTEMPTS = 2**63 - 1, 65_535

#: The longest name of a group, in bytes.
GROUP_BYTES = 1024


#: What other packages call an option.
HERE = {"countdown": "delay", "eta": "at", "max_retries": "attempts", "time_limit": "timeout"}


def hinting(call: Callable[P, T]) -> Callable[P, T]:
    """Returns a method whose error for an option that it has not names the class, and what the option is here."""

    @wraps(call)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        try:
            return call(*args, **options)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            known = inspect.signature(call).parameters
            hint = "".join(f"; `{name}` is `{HERE[name]}` here" for name in options if HERE.get(name) in known)
            own = "" if call.__name__ == "__init__" else f".{call.__name__}"
            said = str(error).partition("() ")[2] or str(error)
            raise TypeError(f"{type(args[0]).__name__}{own}() {said}{hint}") from None

    return checked


def number(name: str, value: object, meant: str = "a number", least: float = 0.0, most: float = math.inf) -> float:
    # A bool is a number in Python, but a mistake here.
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"`{name}` is {meant}, not {value!r}")
    told = float(value)
    if not math.isfinite(told):
        raise ValueError(f"`{name}` is finite, not {value!r}")
    if not least <= told <= most:
        bounds = f"from {least:g} to {most:g}" if most < math.inf else f"at least {least:g}"
        raise ValueError(f"`{name}` is {bounds}, not {value!r}")
    return told


def in_seconds(name: str, duration: Duration, least: float = 0.0) -> float:
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    return number(name, duration, "a number of seconds, or a timedelta", least)


def patience_of(patience: Duration) -> float:
    """Returns for how many seconds to retry, which may be for ever."""
    return math.inf if patience == math.inf else in_seconds("patience", patience)


def rounded_up(seconds: float) -> int:
    """Returns a duration in whole milliseconds, never early, and 0 for one that has passed."""
    # Digits beyond a microsecond are rounding errors, as in 0.1 * 3.
    return min(max(0, math.ceil(round(seconds * 1000, 3))), GREATEST)


def milliseconds(name: str, duration: Duration, least_ms: int = 0) -> int:
    return rounded_up(in_seconds(name, duration, least_ms / 1000))


def unix_milliseconds(name: str, moment: datetime | float) -> int:
    """Returns a point in time, or a number of seconds since 1970, in milliseconds since 1970, rounded up."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError(f"say in which time zone `{name}` is: datetime.now(timezone.utc), not datetime.now()")
        moment = max(0.0, moment.timestamp())
    return rounded_up(number(name, moment, "a datetime with its time zone, or a number of seconds since 1970"))


def whole(name: str, value: Any, least: int = 1, most: int = GREATEST) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"`{name}` is a whole number, not {value!r}")
    if not least <= value <= most:
        bounds = f"at least {least}" if most == GREATEST else f"from {least} to {most}"
        raise ValueError(f"`{name}` is {bounds}, not {value}")
    return value


def attempts_of(attempts: Any) -> int:
    return whole("attempts", attempts, 1, MOST_ATTEMPTS)


def text(name: str, value: Any, *, may_be_empty: bool = False) -> Any:
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"`{name}` is a str or bytes, not {value!r}")
    if not value and not may_be_empty:
        raise ValueError(f"`{name}` is not empty")
    return value


def group_words(group: str | bytes | None, *, may_be_empty: bool = False) -> tuple[Any, ...]:
    """Returns the option GROUP. The empty name is that of the jobs without a group."""
    if group is None:
        return ()
    name = text("group", group, may_be_empty=may_be_empty)
    if len(name.encode(errors="surrogateescape") if isinstance(name, str) else name) > GROUP_BYTES:
        raise ValueError(f"`group` has at most {GROUP_BYTES} bytes")
    return "GROUP", group


def choice(name: str, value: Any, *among: str) -> str:
    if value not in among:
        raise ValueError(f"`{name}` is one of {', '.join(map(repr, among))}, not {value!r}")
    return str(value)


def instance(name: str, value: T, kind: Any, meant: str) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` is {meant}, not {value!r}")
    return value


def flag(name: str, value: Any) -> bool:
    return bool(instance(name, value, bool, "True or False"))
