"""Messages that are collected, instead of sent, so that a script can push them together with a change of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Captured:
    """The messages of one task."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: The keys and words of PUSH, one command for each queue.
        self.pushes: list[tuple[str, tuple[Any, ...]]] = []
        #: What follows when the messages are sent: events, and the expiry of queues.
        self.later: list[Callable[[], None]] = []

    def id_in(self, key: str) -> str:
        """Returns the id of the next message in a queue: the first one has the name itself."""
        there = sum(1 for other, _ in self.pushes if other == key)
        return f"{self.name}:{there}" if there else self.name

    def finish(self) -> None:
        for call in self.later:
            call()
