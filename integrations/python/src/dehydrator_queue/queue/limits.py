"""The limits of a queue: the words that set them, and the parsing of what INFO tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dehydrator_queue.options import Duration, group_words, milliseconds, whole

#: So many jobs in so long. 0 jobs: no limit.
Rate = tuple[int, Duration]


@dataclass(frozen=True)
class Limits:
    """What `Queue.limit` has set, of a queue or of a group; 0 or None is no limit. Durations in seconds."""

    length: int = 0
    held: int = 0
    rate: tuple[int, float] | None = None
    #: Of a queue: for how long the ids of jobs that are done are refused.
    remember: float = 0.0
    #: Of a queue: the limits of each group that has none of its own.
    each_length: int = 0
    each_held: int = 0
    each_rate: tuple[int, float] | None = None
    #: Of a group: how many jobs it gives out in its turn.
    share: int = 1

    @classmethod
    def of(cls, info: dict[str, Any]) -> Limits:
        def rate(scope: str) -> tuple[int, float] | None:
            count = info.get(f"{scope}rate-limit")
            return (count, info[f"{scope}rate-per"] / 1000) if count else None

        return cls(
            length=info["length-limit"],
            held=info["held-limit"],
            rate=rate(""),
            remember=info.get("remember", 0) / 1000,
            each_length=info.get("each-length-limit", 0),
            each_held=info.get("each-held-limit", 0),
            each_rate=rate("each-"),
            share=info.get("share", 1),
        )


def limit_words(
    key: str, group: str | bytes | None, limits: dict[str, Any], each: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """Returns the commands that set limits. Those that are None stay as they are."""
    if group is not None and (limits["remember"] is not None or any(value is not None for value in each.values())):
        raise ValueError("`remember` and the limits of `each` are of the queue, not of a group")
    if group is None and limits["share"] is not None:
        raise ValueError("`share` needs a `group`")
    found = []
    for scope, prefix, some in ((group_words(group, may_be_empty=True), "", limits), (("EACH",), "each_", each)):
        words: list[Any] = []
        for name, value in some.items():
            if value is None:
                continue
            if name == "rate":
                words += _rate_words(f"{prefix}rate", value)
            elif name == "remember":
                words += ["REMEMBER", milliseconds("remember", value)]
            else:
                words += [name.upper(), whole(f"{prefix}{name}", value, int(name == "share"))]
        if words:
            found.append(("DEHYDRATOR.LIMIT", key, *scope, *words))
    if not found:
        raise ValueError("name a limit")
    return found


def _rate_words(name: str, rate: Any) -> tuple[Any, ...]:
    if rate == 0 and not isinstance(rate, bool):
        return "RATE", 0
    if not isinstance(rate, (tuple, list)) or len(rate) != 2:
        raise TypeError(f"`{name}` is a number of jobs and a duration, such as (10, 1) for ten a second, not {rate!r}")
    count = whole(name, rate[0], 0)
    return ("RATE", count, "PER", milliseconds(name, rate[1], 1)) if count else ("RATE", 0)
