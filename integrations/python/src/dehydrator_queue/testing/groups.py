"""The groups of a dehydrator in memory, which give out their due elements in turns."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter

#: Where an element is in the order of delivery: its deadline and sequence; and its id.
Place = tuple[int, int, bytes]

#: The elements without a group are one more.
OTHERS = b""


class Groups:
    def __init__(self) -> None:
        #: How many elements a group gives out in its turn, if that is not 1.
        self.shares: Counter[bytes] = Counter()
        #: The elements of each group that has any, sorted.
        self._places: dict[bytes, list[Place]] = {}
        #: The groups that have something due. The first one gives out the next element.
        self._round: list[bytes] = []
        #: How many elements the first one has given out in this turn.
        self._given = 0
        #: When somebody last took an element, or tried to.
        self._looked = 0

    def __len__(self) -> int:
        """Returns how many groups have elements, without that of the others."""
        return len(self._places) - (OTHERS in self._places)

    def length(self, group: bytes) -> int:
        return len(self._places.get(group, ()))

    def are_used(self) -> bool:
        """Returns whether elements are given out in turns, and not in the order of all."""
        return len(self) > 0 or bool(self.shares)

    def insert(self, group: bytes, place: Place) -> None:
        insort(self._places.setdefault(group, []), place)

    def remove(self, group: bytes, place: Place) -> None:
        """Removes an element. Its group keeps its turn until `settle`: the element may come back."""
        places = self._places[group]
        del places[bisect_left(places, place)]
        if not places:
            del self._places[group]

    def settle(self, group: bytes) -> None:
        """Takes a group out of the round if it has nothing due any more."""
        if group in self._round and not self._is_due(group, self._looked):
            if self._round[0] == group:
                self._given = 0
            self._round.remove(group)

    def next(self, now: int) -> bytes | None:
        """Returns the id of the element whose turn it is."""
        place = self._places[self._round[0]][0] if self._round else min(self._waiting(now), default=None)
        return None if place is None else place[2]

    def turn(self, now: int) -> bytes | None:
        """Lets those that have become due into the round, and returns the id of the element whose turn it is."""
        self._looked = now
        waiting = self._waiting(now)
        self._round += [waiting[place] for place in sorted(waiting)]
        return self.next(now)

    def give(self) -> None:
        """Counts an element that the first group gives out."""
        self._given += 1
        if self._given >= max(self.shares[self._round[0]], 1):
            self._given = 0
            self._round.append(self._round.pop(0))

    def _waiting(self, now: int) -> dict[Place, bytes]:
        """Returns the first elements of the groups that have something due and are not in the round."""
        waiting = (group for group in self._places if self._is_due(group, now) and group not in self._round)
        return {self._places[group][0]: group for group in waiting}

    def _is_due(self, group: bytes, now: int) -> bool:
        return group in self._places and self._places[group][0][0] <= now
