"""The limits of a queue: the words that set them, and the parsing of what INFO tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dehydrator_queue.durations import Duration, milliseconds

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


def limit_words(key: str, group: str | bytes | None, **limits: Any) -> list[tuple[Any, ...]]:
    """Returns the commands that set limits. Those that are None stay as they are."""
    if group is not None and any(limits[name] is not None for name in limits if name.startswith(("each", "remember"))):
        raise ValueError("`remember` and the limits of `each` are of the queue, not of a group")
    if group is None and limits["share"] is not None:
        raise ValueError("`share` needs a `group`")
    own = () if group is None else ("GROUP", group)
    each = {name[5:]: limits[name] for name in ("each_rate", "each_held", "each_length")}
    found = []
    for scope, some in ((own, limits), (("EACH",), each)):
        words: list[Any] = []
        for name in ("length", "held", "share"):
            if (value := some.get(name)) is not None:
                words += [name.upper(), value]
        if (rate := some.get("rate")) is not None:
            count, per = rate if isinstance(rate, tuple) else (rate, 0)
            words += ["RATE", count, *(("PER", milliseconds(per)) if count else ())]
        if (remember := some.get("remember")) is not None:
            words += ["REMEMBER", milliseconds(remember)]
        if words:
            found.append(("DEHYDRATOR.LIMIT", key, *scope, *words))
    if not found:
        raise ValueError("name a limit")
    return found
