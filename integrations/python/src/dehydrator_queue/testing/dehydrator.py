"""One dehydrator in memory: its elements, leases, limits and pause. The time is an argument, in milliseconds."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dehydrator_queue.testing.groups import OTHERS, Groups, Place
from dehydrator_queue.testing.rate import Log

#: The greatest number in an argument, and an unreachable moment.
MAX = 2**63 - 1


@dataclass
class Bounds:
    """The options WITHIN and DELIVERIES of an element; 0 is none."""

    #: The moment from which on it is too late to be given out.
    until: int = 0
    deliveries: int = 0


@dataclass
class Entry:
    id: bytes
    element: bytes
    ttl: int
    deadline: int
    #: The order among equal deadlines: that of pushes, leases and touches. Below 0 it was put first, the last one
    #: foremost.
    sequence: int
    deliveries: int = 0
    #: The token under which it is held.
    token: bytes | None = None
    #: When it was given to the one that holds it.
    since: int | None = None
    #: The deadline before that, or `since` if it was not due.
    was_due: int = 0
    #: Why it was given back the last time; empty if nobody said.
    reason: bytes = b""
    bounds: Bounds = field(default_factory=Bounds)
    group: bytes = OTHERS

    @property
    def place(self) -> Place:
        return self.deadline, self.sequence, self.id

    def is_late(self, now: int) -> bool:
        """Returns whether it is due, and too late to be given out."""
        return 0 < self.bounds.until <= now and self.deadline <= now

    def runs(self, now: int) -> bool:
        """Returns whether its lease has not ended."""
        return self.token is not None and self.deadline > now


@dataclass
class Limits:
    """See DEHYDRATOR.LIMIT; 0 is none."""

    length: int = 0
    held: int = 0
    rate: int = 0
    per: int = 0
    remember: int = 0


@dataclass
class Dehydrator:
    limits: Limits = field(default_factory=Limits)
    #: The moment at which a pause ends; MAX: at RESUME.
    pause: int = 0
    #: How often an element is delivered before it is a dead letter; 0: without limit.
    most_deliveries: int = 0
    #: The stream of dead letters.
    dead: bytes | None = None
    #: The maximum length of that stream; 0: without limit.
    dead_length: int = 0
    #: Remembered ids, and until when.
    remembered: dict[bytes, int] = field(default_factory=dict)
    groups: Groups = field(default_factory=Groups)
    #: By name.
    schedules: dict[bytes, Any] = field(default_factory=dict)
    _entries: dict[bytes, Entry] = field(default_factory=dict)
    #: All elements, sorted.
    _order: list[Place] = field(default_factory=list)
    _sequence: int = 0
    _firsts: int = 0
    _log: Log = field(default_factory=Log)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Yields the elements in the order of delivery."""
        return (self._entries[id] for _, _, id in self._order)

    def get(self, id: bytes) -> Entry | None:
        return self._entries.get(id)

    def has(self, id: bytes, group: bytes) -> bool:
        """Returns whether an element is in a group."""
        entry = self._entries.get(id)
        return entry is not None and entry.group == group

    def held(self, token: bytes, id: bytes) -> Entry | None:
        entry = self._entries.get(id)
        return entry if entry is not None and entry.token == token else None

    def first(self) -> Entry | None:
        return self._entries[self._order[0][2]] if self._order else None

    def next_due(self, now: int) -> Entry | None:
        """Returns the element that is given out next."""
        if self.groups.are_used():
            id = self.groups.next(now)
            return None if id is None else self._entries[id]
        first = self.first()
        return first if first is not None and first.deadline <= now else None

    def take_turn(self, now: int) -> Entry | None:
        """Returns the element that is given out next, which counts as given out."""
        if self.groups.are_used():
            id = self.groups.take(now)
            return None if id is None else self._entries[id]
        return self.next_due(now)

    def opens(self) -> int | None:
        """Returns the moment from which on an element is given out, if nothing but its group holds it back."""
        if self.groups.are_used():
            first = self.groups.opens_first()
            return None if first == MAX else first
        return self._order[0][0] if self._order else None

    def late(self, now: int) -> list[Entry]:
        """Returns the elements that are too late, in the order in which they became so."""
        late = [entry for entry in self if entry.is_late(now)]
        return sorted(late, key=lambda entry: max(entry.bounds.until, entry.deadline))

    def push(self, id: bytes, element: bytes, ttl: int, deadline: int, bounds: Bounds, group: bytes) -> None:
        before = self._entries.get(id)
        if before is not None:
            self._unplace(before)
        self.remembered.pop(id, None)
        entry = Entry(id, element, ttl, deadline, self._next(), bounds=bounds, group=group)
        self._entries[id] = entry
        self._place(entry)
        if before is not None:
            self.groups.settle(before.group)

    def remove(self, id: bytes) -> Entry | None:
        entry = self._entries.pop(id, None)
        if entry is not None:
            self._unplace(entry)
            self.groups.settle(entry.group)
        return entry

    def finish(self, id: bytes, now: int) -> Entry | None:
        """Removes an element whose id is then remembered, if LIMIT says so."""
        entry = self.remove(id)
        if entry is not None and self.limits.remember:
            self.remembered[id] = min(now + self.limits.remember, MAX)
        return entry

    def postpone(self, entry: Entry, deadline: int) -> None:
        """Moves the moment from which on an element is too late by as much as its deadline, unless a worker has it."""
        if entry.bounds.until and entry.token is None:
            entry.bounds.until = max(deadline + entry.bounds.until - entry.deadline, 1)

    def touch(self, entry: Entry, ttl: int, deadline: int, now: int) -> None:
        """Restarts the timer. Where running leases are counted, an expired one does not begin again."""
        is_counted = self.limits.held or self.groups.limits(entry.group).held
        ends = entry.token is not None and is_counted and entry.deadline <= now < deadline
        self.postpone(entry, deadline)
        self.restart(entry, 0 if ends else ttl, deadline)

    def restart(self, entry: Entry, ttl: int, deadline: int) -> None:
        """Sets the deadline. A ttl of 0 gives the element back."""
        if ttl == 0:
            entry.token = entry.since = None
        self._move(entry, ttl, deadline)

    def put_first(self, entry: Entry, deadline: int) -> None:
        """Gives the element back, before all others with this deadline."""
        entry.token = entry.since = None
        self._firsts -= 1
        self._move(entry, 0, deadline, self._firsts)

    def lease(self, entry: Entry, ttl: int, deadline: int, token: bytes) -> None:
        entry.token, entry.since = token, deadline - ttl
        entry.was_due = min(entry.deadline, entry.since)
        self._move(entry, ttl, deadline)
        entry.deliveries = min(entry.deliveries + 1, 65_535)

    def is_dead(self, entry: Entry, now: int) -> bool:
        if not self.most_deliveries:
            return entry.is_late(now)
        return entry.is_late(now) or entry.deliveries >= (entry.bounds.deliveries or self.most_deliveries)

    def is_usual(self, now: int) -> bool:
        """Returns whether it has no settings, so that it is deleted when it is empty."""
        is_usual = not self.most_deliveries and not self.pause and not self.schedules and self.limits == Limits()
        return is_usual and self.groups.are_usual(now)

    def is_full(self, more: int = 0) -> bool:
        return 0 < self.limits.length <= len(self) + more

    def is_group_full(self, group: bytes, more: int = 0) -> bool:
        return 0 < self.groups.limits(group).length <= self.groups.length(group) + more

    def remembers(self, id: bytes, now: int) -> bool:
        return self.remembered.get(id, 0) > now

    def running(self, now: int) -> list[Entry]:
        return [entry for entry in self if entry.runs(now)]

    def may_hold(self, entry: Entry, now: int) -> bool:
        """Returns whether a lease that has ended may begin again."""
        return self.held_room(now) > 0 and self.groups.has_room(entry.group, now)

    def held_room(self, now: int) -> int:
        return max(0, self.limits.held - len(self.running(now))) if self.limits.held else MAX

    def rate_room(self, now: int) -> int:
        return self._log.room(now, self.limits.rate, self.limits.per) if self.limits.rate else MAX

    def room(self, now: int) -> int:
        """Returns how many elements can be given out now."""
        return min(self.held_room(now), self.rate_room(now))

    def gives(self, now: int) -> bool:
        """Returns whether an element is due, and neither a limit nor a pause holds it back."""
        return self.room(now) > 0 and self.pause <= now and self.next_due(now) is not None

    def give(self, now: int, count: int) -> None:
        if self.limits.rate:
            self._log.record(now, count, self.limits.per)

    def set_rate(self, rate: int, per: int) -> None:
        self.limits.rate, self.limits.per = rate, per
        self._log.adapt(per)

    def _move(self, entry: Entry, ttl: int, deadline: int, sequence: int | None = None) -> None:
        self._unplace(entry)
        entry.ttl, entry.deadline = ttl, deadline
        entry.sequence = self._next() if sequence is None else sequence
        self._place(entry)

    def _place(self, entry: Entry) -> None:
        insort(self._order, entry.place)
        self.groups.insert(entry.group, entry.place, entry.token is not None)
        self.groups.settle(entry.group)

    def _unplace(self, entry: Entry) -> None:
        del self._order[bisect_left(self._order, entry.place)]
        self.groups.remove(entry.group, entry.place)

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence
