"""The keys of the server in memory, and what passes with time. The time is in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dehydrator_queue.testing.arguments import refused
from dehydrator_queue.testing.dehydrator import MAX, Dehydrator, Entry

Words = Sequence[bytes]


@dataclass
class Stream:
    """A stream of dead letters."""

    entries: list[tuple[bytes, list[bytes]]] = field(default_factory=list)
    _last: tuple[int, int] = (0, 0)

    def add(self, now: int, *fields: bytes) -> None:
        ms, sequence = self._last
        self._last = (now, 0) if now > ms else (ms, sequence + 1)
        self.entries.append((b"%d-%d" % self._last, list(fields)))

    def after(self, id: bytes) -> list[tuple[bytes, list[bytes]]]:
        """Returns the entries behind one; all if it is empty."""
        return [entry for entry in self.entries if not id or _order(entry[0]) > _order(id)]


def _order(id: bytes) -> tuple[int, ...]:
    return tuple(map(int, id.split(b"-")))


class Keys:
    """All keys, at a given time."""

    def __init__(self) -> None:
        self._keys: dict[bytes, Dehydrator | Stream] = {}
        self._now = 0

    def pass_time(self, now: int) -> None:
        """Removes elements that are too late, moves dead letters that are due, and ends pauses."""
        self._now = now
        for key, it in list(self._keys.items()):
            if isinstance(it, Dehydrator):
                if 0 < it.pause <= now:
                    it.pause = 0
                self.occur(it, now)
                if not it.pause:
                    for late in it.late(now):
                        self._move(it, late)
                    while (next_due := it.next_due(now)) is not None and it.is_dead(next_due, now):
                        self._move(it, next_due)
                if not len(it) and it.is_usual(now):
                    del self._keys[key]

    def occur(self, it: Dehydrator, now: int) -> None:
        """Stores the elements of schedules whose moments have come."""

    def holds(self, keys: Iterable[bytes], tokens: set[bytes]) -> bool:
        """Returns whether an element is held under one of these tokens."""
        some = (self._keys.get(key) for key in keys)
        return any(entry.token in tokens for it in some if isinstance(it, Dehydrator) for entry in it)

    def has_due(self, keys: Iterable[bytes]) -> bool:
        """Returns whether one of the keys has something to give out."""
        return any(self._at(key).gives(self._now) for key in keys)

    def _at(self, key: bytes) -> Dehydrator:
        """Returns the dehydrator of a key; a new one, which is not stored, if there is none."""
        it = self._keys.get(key)
        if isinstance(it, Stream):
            raise refused("WRONGTYPE", "Operation against a key holding the wrong kind of value")
        return Dehydrator() if it is None else it

    def _made(self, key: bytes) -> Dehydrator:
        it = self._at(key)
        self._keys[key] = it
        return it

    def _stream(self, key: bytes) -> Stream:
        it = self._keys.get(key)
        if isinstance(it, Dehydrator):
            raise refused("WRONGTYPE", "Operation against a key holding the wrong kind of value")
        return Stream() if it is None else it

    def _deadline(self, ttl: int, at: int | None = None) -> int:
        if at == MAX or (at is None and self._now + ttl > MAX):
            raise refused("ERR", "the deadline is too late")
        return self._now + ttl if at is None else at

    def _move(self, it: Dehydrator, entry: Entry, is_rejected: bool = False) -> None:
        """Moves a dead letter to its destination."""
        it.remove(entry.id)
        if it.dead is not None:
            stream = self._stream(it.dead)
            self._keys[it.dead] = stream
            told = (b"id", entry.id, b"element", entry.element, b"deliveries", b"%d" % entry.deliveries)
            why = b"expired" if entry.is_late(self._now) and not is_rejected else entry.reason
            reason = (b"reason", why) if why else ()
            stream.add(self._now, *told, *reason, *((b"group", entry.group) if entry.group else ()))
            if it.dead_length:
                del stream.entries[: -it.dead_length]
