"""The groups of a dehydrator in memory, which give out their due elements in turns."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, replace

from dehydrator_queue.testing.rate import Log

#: Where an element is in the order of delivery: its deadline and sequence; and its id.
Place = tuple[int, int, bytes]

#: The elements without a group are one more. Only a share can be set for it.
OTHERS = b""


@dataclass
class Settings:
    """What LIMIT and PAUSE set for a group; 0 is none."""

    share: int = 1
    length: int = 0
    held: int = 0
    rate: int = 0
    per: int = 0
    #: The moment at which a pause ends.
    pause: int = 0


class Groups:
    def __init__(self) -> None:
        #: The limits of each group that has none of its own.
        self.each = Settings()
        self._settings: dict[bytes, Settings] = {}
        #: What each group gave out whose rate is limited.
        self._logs: dict[bytes, Log] = {}
        #: The elements of each group that has any, sorted.
        self._places: dict[bytes, list[Place]] = {}
        #: Those of them that have a token, in groups that have any.
        self._held: dict[bytes, list[Place]] = {}
        #: The place from which on each group gives out something, without the others.
        self._filed: dict[bytes, tuple[int, int]] = {}
        #: The groups that have given out something or could have at the latest turn, and when each came to the back.
        self._round: list[tuple[bytes, int]] = []
        #: The group whose turn has begun, and how many elements it has given out in it.
        self._turn = (OTHERS, 0)
        #: When an element was last taken in a turn.
        self._latest = 0

    def __len__(self) -> int:
        """Returns how many groups have elements, without that of the others."""
        return len(self._places) - (OTHERS in self._places)

    def length(self, group: bytes) -> int:
        return len(self._places.get(group, ()))

    def first(self, group: bytes) -> Place | None:
        return self._places[group][0] if group in self._places else None

    def are_used(self) -> bool:
        """Returns whether elements are given out in turns, and not in the order of all."""
        return len(self) > 0 or bool(self._settings) or self.each != Settings()

    def are_usual(self, now: int) -> bool:
        """Returns whether nothing is set, but for pauses that are over."""
        some = self._settings.values()
        return self.each == Settings() and all(one == Settings(pause=one.pause) and one.pause <= now for one in some)

    def settings(self, group: bytes) -> Settings:
        return self._settings.get(group) or Settings()

    def set(self, group: bytes | None, settings: Settings) -> None:
        """Sets what holds for a group, or for each that has none of its own."""
        if group is not None:
            self._settings[group] = settings
            if settings == Settings():
                del self._settings[group]
            self._adapt(group)
            return
        self.each = settings
        for one in [*self._logs, *self._filed]:
            self._adapt(one)

    def _adapt(self, group: bytes) -> None:
        """Adapts what a group gave out to a limit that may have changed."""
        limits = self.limits(group)
        if group in self._logs and limits.rate:
            self._logs[group].adapt(limits.per)
        else:
            self._logs.pop(group, None)
        self.settle(group)

    def limits(self, group: bytes) -> Settings:
        """Returns the settings of a group, with the limits of each for those that it has none of."""
        own, each = self.settings(group), self.each
        if group == OTHERS:
            return own
        rate = own if own.rate else each
        length, held = own.length or each.length, own.held or each.held
        return replace(own, length=length, held=held, rate=rate.rate, per=rate.per)

    def insert(self, group: bytes, place: Place, held: bool) -> None:
        insort(self._places.setdefault(group, []), place)
        if held:
            insort(self._held.setdefault(group, []), place)

    def remove(self, group: bytes, place: Place) -> None:
        """Removes an element. Its group keeps its turn until `settle`: the element may come back."""
        for places in (self._places, self._held):
            if place in places.get(group, ()):
                del places[group][bisect_left(places[group], place)]
                if not places[group]:
                    del places[group]

    def settle(self, group: bytes) -> None:
        """Files a group by when it gives out something, after a change. In the round: it could at the latest turn."""
        if group == OTHERS:
            return
        before = self._filed.pop(group, None)
        place = self._opens(group)[:2] if group in self._places else None
        if place is not None:
            self._filed[group] = place
        if place is None or place[0] > self._latest:
            if place != before:
                self._leave(group)
        elif place != before and all(name != group for name, _ in self._round):
            # One that waited and could keeps its place.
            since = before[0] if before is not None and before[0] <= self._latest else None
            at = len(self._round)
            while since is not None and at > 0 and self._round[at - 1][1] >= since:
                at -= 1
            self._round.insert(at, (group, self._latest if since is None else since))

    def has_room(self, group: bytes, now: int) -> bool:
        """Returns whether the limit of a group lets one more lease begin."""
        last = self._last_excess(group)
        return last is None or last[0] <= now

    def at_rest(self, group: bytes, near: tuple[int, int], now: int) -> list[bytes]:
        """Returns the ids that TOUCH moves: those with deadlines not within `near`, and without a running lease."""
        held = self._held.get(group, [])
        moved = [place for place in self._places.get(group, []) if not near[0] <= place[0] <= near[1]]
        return [place[2] for place in moved if place[0] <= now or place not in held]

    def opens_first(self) -> int | None:
        """Returns the moment from which on an element is given out."""
        return min((self._opens(group)[0] for group in self._places), default=None)

    def next(self, now: int) -> bytes | None:
        """Returns the id of the element whose turn it is."""
        group, _ = self._choose(self._eligible(now))
        return None if group is None else self._next_of(group)

    def take(self, now: int) -> bytes | None:
        """Returns the id of the element whose turn it is, which counts as given out."""
        eligible = self._eligible(now)
        group, drops = self._choose(eligible)
        if group is None:
            return None
        id, limits = self._next_of(group), self.limits(group)
        if not eligible.keys() - {OTHERS}:
            # The others alone need no turns.
            return id
        if drops:
            self._leave(OTHERS)
        self._latest = now
        given = self._turn[1] + 1 if self._turn[0] == group else 1
        entered = dict(self._round).get(group, eligible[group][0])
        self._leave(group)
        if given < limits.share:
            self._turn = (group, given)
            self._round.insert(0, (group, entered))
        else:
            self._round.append((group, now))
        if limits.rate:
            self._logs.setdefault(group, Log()).record(now, 1, limits.per)
        return id

    def _choose(self, eligible: dict[bytes, Place]) -> tuple[bytes | None, bool]:
        """Returns the group whose turn it is, and whether the others leave the round, as nothing of theirs is due."""
        turn, given = self._turn
        if not eligible.keys() - {OTHERS}:
            return next(iter(eligible), None), False
        if given and turn in eligible:
            return turn, False
        others = eligible.get(OTHERS)
        drops = bool(self._round) and self._round[0][0] == OTHERS and (not others or others[0] > self._round[0][1])
        inside = self._round[drops:]
        names = {name for name, _ in inside}
        waiting = min(((place, name) for name, place in eligible.items() if name not in names), default=None)
        if waiting is not None and not (inside and inside[0][1] < waiting[0][0]):
            return waiting[1], drops
        return inside[0][0], drops

    def _eligible(self, now: int) -> dict[bytes, Place]:
        """Returns the groups that give out something, with the places from which on they do."""
        places = ((group, self._opens(group)) for group in self._places)
        return {group: place for group, place in places if place[0] <= now}

    def _next_of(self, group: bytes) -> bytes:
        """Returns the id of the element that a group gives out: if it holds as many as it may, one of those."""
        places = self._held if self._excess(group) else self._places
        return places[group][0][2]

    def _leave(self, group: bytes) -> None:
        self._round = [one for one in self._round if one[0] != group]
        if self._turn[0] == group:
            self._turn = (OTHERS, 0)

    def _opens(self, group: bytes) -> Place:
        """Returns the place from which on a group gives out something."""
        deadline, sequence, id = self._last_excess(group) or self._places[group][0]
        limits, log = self.limits(group), self._logs.get(group)
        rate = log.next(limits.rate, limits.per) if log is not None else 0
        return max(deadline, limits.pause, rate), sequence, id

    def _last_excess(self, group: bytes) -> Place | None:
        """Returns the last of the leases that have to end before another begins."""
        excess = self._excess(group)
        return self._held[group][excess - 1] if excess else None

    def _excess(self, group: bytes) -> int:
        most = self.limits(group).held
        return max(0, len(self._held.get(group, ())) + 1 - most) if most else 0
