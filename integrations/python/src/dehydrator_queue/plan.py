"""What `Queue.every` was told about a schedule: when it occurs, and the options of its jobs."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from dehydrator_queue.job import id_bytes, id_text
from dehydrator_queue.moment import Duration, milliseconds, unix_milliseconds
from dehydrator_queue.occurrences import Cron, Interval, Occurrences
from dehydrator_queue.schedule import LAST_MOMENT, Rules, State


@dataclass(frozen=True)
class Plan:
    """Durations and moments are in milliseconds. The server stores what is not default, in one line of JSON."""

    attempts: int | None = None
    cron: str | None = None
    group: str | None = None
    missed: str = "one"
    #: The interval.
    ms: int | None = None
    start: int | None = None
    times: int | None = None
    until: int | None = None
    within: int | None = None
    zone: str = "UTC"

    @classmethod
    def of(
        cls,
        *,
        cron: str | None = None,
        zone: str = "UTC",
        seconds: Duration | None = None,
        starting: datetime | float | None = None,
        until: datetime | float | None = None,
        times: int | None = None,
        missed: str = "one",
        attempts: int | None = None,
        within: Duration | None = None,
        group: str | bytes | None = None,
    ) -> Plan:
        """Raises ValueError for what makes no sense."""
        if (cron is None) == (seconds is None):
            raise ValueError("a schedule has either a `cron` or `seconds`")
        if missed not in ("one", "all", "none"):
            raise ValueError(f"`missed` is 'one', 'all' or 'none', and not {missed!r}")
        if times is not None and (not isinstance(times, int) or times < 1):
            raise ValueError("`times` is a whole number, at least 1")
        if attempts is not None and (not isinstance(attempts, int) or not 1 <= attempts <= 65535):
            raise ValueError("`attempts` is a whole number from 1 to 65535")
        if within is not None and milliseconds(within) < 1:
            raise ValueError("`within` is at least a millisecond")
        if group is not None and len(id_bytes(group)) > 1024:
            raise ValueError("the name of a group has at most 1024 bytes")
        if cron is None and zone != "UTC":
            raise ValueError("only a `cron` has a `zone`")
        plan = cls(
            attempts=attempts,
            cron=None if cron is None else " ".join(cron.split()),
            group=None if group is None else id_text(group),
            missed=missed,
            ms=None if seconds is None else milliseconds(seconds),
            start=None if starting is None else unix_milliseconds(starting),
            times=times,
            until=None if until is None else min(unix_milliseconds(until), LAST_MOMENT),
            within=None if within is None else milliseconds(within),
            zone=zone,
        )
        plan.occurrences()
        return plan

    def encode(self) -> bytes:
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        set_ = {name: value for name, value in told.items() if value != getattr(Plan, name)}
        return id_bytes(json.dumps(set_, separators=(",", ":"), sort_keys=True, ensure_ascii=False))

    @classmethod
    def decode(cls, line: bytes) -> Plan:
        """Raises TypeError for the fields of a later version, so that its schedules are left to that."""
        return cls(**json.loads(id_text(line)))

    def occurrences(self) -> Occurrences:
        return Interval(self.ms or 0) if self.cron is None else Cron(self.cron, self.zone)

    @property
    def rules(self) -> Rules:
        return Rules(self.missed, self.until, self.times)

    def first(self, now: int) -> int | None:
        """Returns the first occurrence of a new schedule, not before now."""
        if (self.start or 0) > LAST_MOMENT:
            return None
        if self.ms is None:
            return self.occurrences().after(max(now, self.start or 0) - 1)
        if self.start is None:
            return now + self.ms
        return self.start + max(0, -(-(now - self.start) // self.ms)) * self.ms

    def begin(self, now: int) -> State:
        """Returns the state of a new schedule. Raises ValueError if it never occurs."""
        state = self.rules.next(State(), self.first(now))
        if state.ended:
            raise ValueError("the schedule never occurs: it has no occurrence from now on, or none before its end")
        return state

    def succeed(self, before: Plan, state: State, now: int) -> State:
        """Returns the state of a schedule whose plan was another one."""
        timing = (self.cron, self.zone, self.ms, self.start)
        if state.ended or timing != (before.cron, before.zone, before.ms, before.start):
            return replace(self.begin(now), paused=state.paused)
        return self.rules.next(state if self.times else replace(state, count=0), state.next)

    def skip(self, state: State, now: int) -> State:
        """Returns the state without the occurrences until now."""
        occurrences = self.occurrences()
        while state.next is not None and state.next <= now:
            seen = occurrences.due(state.next, now)
            state = self.rules.next(state, occurrences.after(seen[-1]))
        return state

    def job(self, moment: int, id: bytes, payload: bytes) -> list[Any]:
        """Returns the words of a PUSH after its key."""
        words: list[Any] = [0, payload, id, "NX", "AT", moment]
        for option, value in (("WITHIN", self.within), ("DELIVERIES", self.attempts), ("GROUP", self.group)):
            if value is not None:
                words += [option, value if isinstance(value, int) else id_bytes(value)]
        return words
