"""The schedules of a queue: the commands that make, read and change them. Nothing here connects to a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

from dehydrator_queue.job import id_bytes, id_text
from dehydrator_queue.options import (
    Duration,
    attempts_of,
    choice,
    group_words,
    milliseconds,
    text,
    unix_milliseconds,
    whole,
)
from dehydrator_queue.queue.commands import Flow, Question, as_bytes, pairs
from dehydrator_queue.queue.library import ResponseError, passes


@dataclass(frozen=True)
class Schedule:
    """A schedule, as a reader sees it. Moments are datetimes in its zone, durations are in seconds."""

    name: str
    payload: Any
    cron: str | None
    zone: str
    #: The interval, if it has no cron.
    seconds: float | None
    starting: datetime | None
    until: datetime | None
    times: int | None
    #: What becomes of missed occurrences: `one`, `all` or `none`.
    missed: str
    #: Whether it may occur while the job of its last occurrence is there: `allow`, or `skip`.
    overlap: str
    jitter: float
    attempts: int | None
    within: float | None
    group: str | None
    #: The next occurrence; None if it has ended, or is paused.
    next: datetime | None
    #: The last occurrence that became a job, and by how much that was late.
    last: datetime | None
    late: float
    #: How many occurrences were missed, and how many became jobs.
    misses: int
    count: int
    paused: bool
    #: Why its payload, which is None then, cannot be decoded.
    error: Exception | None = None

    @property
    def ended(self) -> bool:
        """Whether `times` are used up, or `until` has passed."""
        return self.next is None and not self.paused

    @classmethod
    def of(cls, reply: Any, read: Callable[[bytes], tuple[Any, Exception | None]]) -> Schedule:
        told = pairs(reply)
        payload, error = read(as_bytes(told["element"]))
        plan, zone = id_text(told["plan"]), id_text(told["zone"] or b"UTC")

        def moment(name: str) -> datetime | None:
            return None if told[name] is None else moment_in(zone, told[name])

        def seconds(name: str) -> float | None:
            return None if told[name] is None else told[name] / 1000

        return cls(
            name=id_text(told["name"]),
            payload=payload,
            error=error,
            cron=None if plan.isdigit() else plan,
            zone=zone,
            seconds=int(plan) / 1000 if plan.isdigit() else None,
            starting=moment("from"),
            until=moment("until"),
            times=told["times"],
            missed=id_text(told["if-missed"]).lower(),
            overlap=id_text(told["if-overlap"]).lower(),
            jitter=told["jitter"] / 1000,
            attempts=told["deliveries-limit"] or None,
            within=seconds("within"),
            group=None if told["group"] is None else id_text(told["group"]),
            next=moment("next"),
            last=moment("last"),
            late=(told["late"] or 0) / 1000,
            misses=told["missed"],
            count=told["stored"],
            paused=told["paused"] == 1,
        )


def moment_in(zone: str, ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(ms / 1000, timezone.utc if zone == "UTC" else ZoneInfo(zone))
    except (KeyError, OSError):
        # The server knows the zone, and this machine does not.
        return datetime.fromtimestamp(ms / 1000, timezone.utc)


def plan_words(
    cron: str | None = None,
    zone: str = "UTC",
    seconds: Duration | None = None,
    starting: datetime | float | None = None,
    until: datetime | float | None = None,
    times: int | None = None,
    missed: str = "one",
    overlap: str = "allow",
    jitter: Duration = 0.0,
    attempts: int | None = None,
    within: Duration | None = None,
    group: str | bytes | None = None,
) -> tuple[Any, ...]:
    """Returns the plan and the options of EVERY. The server says what makes no sense."""
    if (cron is None) == (seconds is None):
        raise ValueError("a schedule has either a `cron` or `seconds`")
    missed, overlap = choice("missed", missed, "one", "all", "none"), choice("overlap", overlap, "allow", "skip")
    if cron is None and text("zone", zone) != "UTC":
        raise ValueError("only a `cron` has a `zone`")
    options: list[Any] = ["ZONE", text("zone", zone)] if zone != "UTC" else []
    for name, value in (
        ("FROM", None if starting is None else unix_milliseconds("starting", starting)),
        ("UNTIL", None if until is None else unix_milliseconds("until", until)),
        ("TIMES", None if times is None else whole("times", times)),
        ("MISSED", None if missed == "one" else missed.upper()),
        ("OVERLAP", None if overlap == "allow" else overlap.upper()),
        ("JITTER", milliseconds("jitter", jitter) or None),
        ("DELIVERIES", None if attempts is None else attempts_of(attempts)),
        ("WITHIN", None if within is None else milliseconds("within", within, 1)),
    ):
        if value is not None:
            options += [name, value]
    if cron is not None:
        fields = text("cron", cron)
        return " ".join(id_text(fields).split()), *options, *group_words(group)
    return milliseconds("seconds", seconds or 0.0, 1), *options, *group_words(group)


class Scheduling:
    """The commands about the schedules of one key."""

    def __init__(
        self, key: str, encode: Callable[[Any], bytes], read: Callable[[bytes], tuple[Any, Exception | None]]
    ) -> None:
        """`read`: returns the payload of an element, or None and why it cannot be decoded."""
        self.key, self._encode, self._read = key, encode, read

    def every(self, name: str | bytes, payload: Any, plan: Sequence[Any]) -> Flow[Schedule]:
        """Makes a schedule, or changes it; one with the same plan and payload stays as it is."""
        first, *options = plan
        words = ("DEHYDRATOR.EVERY", self.key, first, self._encode(payload), named(name), *options)
        try:
            yield Question(words, lambda reply: None)
        except ResponseError as error:
            if str(error).partition(" ")[0].isupper():
                raise
            # It has no code: the plan makes no sense.
            raise ValueError(str(error)) from error
        schedule: Schedule | None = yield self.get(name)
        if schedule is None:
            raise LookupError(f"the schedule {name!r} was removed")
        return schedule

    def get(self, name: str | bytes) -> Question[Schedule | None]:
        return Question(("DEHYDRATOR.SCHEDULES", self.key, named(name)), lambda reply: self._all(reply)[0])

    def all(self) -> Question[list[Schedule]]:
        """Lists the schedules, the next one first, as many as a reply may have."""
        return Question(("DEHYDRATOR.SCHEDULES", self.key), self._all)

    def _all(self, reply: Any) -> list[Any]:
        return [None if one is None else Schedule.of(one, self._read) for one in reply]

    def length(self) -> Question[int]:
        return Question(("DEHYDRATOR.INFO", self.key), lambda reply: int(pairs(reply)["schedules"]))

    def remove(self, *names: str | bytes) -> Question[bool]:
        return Question(("DEHYDRATOR.UNSCHEDULE", self.key, *map(named, names)), lambda reply: bool(reply))

    def pause(self, name: str | bytes) -> Flow[bool]:
        return self._steer("DEHYDRATOR.PAUSE", name)

    def resume(self, name: str | bytes) -> Flow[bool]:
        return self._steer("DEHYDRATOR.RESUME", name)

    def _steer(self, command: str, name: str | bytes) -> Flow[bool]:
        try:
            reply = yield Question((command, self.key, "SCHEDULE", named(name)), lambda reply: reply)
        except Exception as error:
            if "no such schedule" not in str(error):
                raise
            return False
        return bool(reply)

    def run(self, name: str | bytes) -> Flow[str | None]:
        """Puts a job now, and leaves the schedule as it is; returns the id of the job, or None without a schedule."""
        (reply,) = yield Question(("DEHYDRATOR.SCHEDULES", self.key, named(name)), list)
        if reply is None:
            return None
        told, id = pairs(reply), b"%b@%d" % (named(name), time.time() * 1000)
        options: list[Any] = ["NX"]
        for option, value in (
            ("DELIVERIES", told["deliveries-limit"] or None),
            ("WITHIN", told["within"]),
            ("GROUP", told["group"]),
        ):
            if value is not None:
                options += [option, value]
        yield Question(("DEHYDRATOR.PUSH", self.key, 0, as_bytes(told["element"]), id, *options), lambda reply: None)
        return id_text(id)


#: A schedule that settings declare: its name, its element, and the plan and options of EVERY.
Declared = tuple[bytes, bytes, Sequence[Any]]


def declare(
    key: str, schedules: Sequence[Declared], is_declared: Callable[[bytes], bool] = lambda element: True
) -> Flow[list[tuple[bytes, Exception]]]:
    """Stores the schedules that settings declare; returns those that the server refuses.

    Others that settings declared before, as `is_declared` tells by an element, leave: who started last wins.
    """
    refused = []
    for name, element, (first, *options) in schedules:
        try:
            yield Question(("DEHYDRATOR.EVERY", key, first, element, name, *options), lambda reply: None)
        except ResponseError as error:
            if passes(error):
                raise
            refused.append((name, error))
    names = {name for name, _, _ in schedules}
    there = yield Question(("DEHYDRATOR.SCHEDULES", key), lambda reply: [pairs(one) for one in reply])
    gone = [
        told["name"] for told in there if as_bytes(told["name"]) not in names and is_declared(as_bytes(told["element"]))
    ]
    if gone:
        yield Question(("DEHYDRATOR.UNSCHEDULE", key, *gone), lambda reply: None)
    return refused


def is_empty(key: str) -> Question[bool]:
    """Tells whether a key has no schedules, as after a flush."""
    return Question(("DEHYDRATOR.SCHEDULES", key), lambda reply: not reply)


def occurrence(id: bytes) -> tuple[bytes, int]:
    """Returns the name of a schedule, and the moment, from the id of an occurrence. Others occur when they are due."""
    name, _, moment = id.rpartition(b"@")
    return (name, int(moment)) if name and moment.isdigit() else (id, 0)


def named(name: str | bytes) -> bytes:
    return id_bytes(text("name", name))
