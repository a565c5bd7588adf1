"""The key of a queue of several keys in which its schedules put their jobs. Nothing here connects to a server.

A schedule and its job are stored by one script, so both are in one slot: that of the first key of the queue, which it
keeps however many keys it has. So a schedule never moves. Its jobs have ids that belong to that key, and are found by
them as any others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from typing import TypeVar

from dehydrator_queue.errors import DehydratorError
from dehydrator_queue.verbs import Flow, Question
from dehydrator_queue.wide.directory import ATTEMPTS, Directory, Known, OutdatedDirectoryError, home
from dehydrator_queue.wide.script import GUARD

T = TypeVar("T")


class Home:
    """The first key of a queue."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.key = f"{{{directory.name}:0}}"

    def ids(self, ids: Iterable[bytes]) -> Flow[list[bytes]]:
        """Returns these ids, or with the first numbers that make them belong to the key."""
        known = yield from self._directory.open()
        return [self._id(known, id) for id in ids]

    def _id(self, known: Known, id: bytes) -> bytes:
        names = known.lists[-1]
        if self.key not in names:
            raise DehydratorError(f"{self._directory.key} lacks {self.key}, which has the schedules")
        numbered = (b"%b.%d" % (id, n) for n in count(1))
        return next(one for one in chain((id,), numbered) if home(one, names) == self.key)

    def _guarded(self, known: Known, question: Question[T]) -> Question[T | None]:
        """Returns the same question of a script, but with the reply None if the directory is outdated."""
        command, script, keys, *words = question.words
        told = (keys + 1, *words[:keys], f"{self.key}:generation", *words[keys:], known.generation)
        return Question(
            (command, GUARD + script, *told), lambda reply: None if reply[0] == -2 else question.read(reply)
        )

    def ask(self, ids: Sequence[bytes], make: Callable[[list[bytes]], Question[T]]) -> Flow[T]:
        """Asks a question of a script that puts jobs, with ids that belong to the key."""
        for _ in range(ATTEMPTS):
            known = yield from self._directory.open()
            reply: T | None = yield self._guarded(known, make([self._id(known, id) for id in ids]))
            if reply is not None:
                return reply
            yield from self._directory.read()
        raise OutdatedDirectoryError(f"{self._directory.key} is older than what clients used: call set_keys again")
