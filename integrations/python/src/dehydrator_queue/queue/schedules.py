"""The schedules of a queue, as `Queue.schedules`."""

from __future__ import annotations

from collections.abc import Iterator

from dehydrator_queue.queue.scheduling import Schedule, Scheduling
from dehydrator_queue.queue.server import Server


class Schedules:
    """Lists, reads, pauses and removes schedules, which `Queue.every` makes."""

    def __init__(self, server: Server, scheduling: Scheduling) -> None:
        self._server = server
        self._scheduling = scheduling

    def __iter__(self) -> Iterator[Schedule]:
        """Yields the schedules, in the order of their next occurrences, as many as one reply has."""
        yield from self._server.ask(self._scheduling.all())

    def __len__(self) -> int:
        return self._server.ask(self._scheduling.length())

    def __bool__(self) -> bool:
        """It is true, even if there is no schedule."""
        return True

    def get(self, name: str | bytes) -> Schedule | None:
        return self._server.ask(self._scheduling.get(name))

    def remove(self, name: str | bytes) -> bool:
        """Removes a schedule; returns whether it existed. Its jobs in the queue stay."""
        return self._server.ask(self._scheduling.remove(name))

    def pause(self, name: str | bytes) -> bool:
        """Makes a schedule skip its occurrences until `resume`; returns whether it exists."""
        return self._server.follow(self._scheduling.pause(name))

    def resume(self, name: str | bytes) -> bool:
        """Ends a pause; returns whether there was one."""
        return self._server.follow(self._scheduling.resume(name))

    def run(self, name: str | bytes) -> str | None:
        """Puts a job of a schedule now, also during a pause; returns its id, or None if there is no such schedule."""
        return self._server.follow(self._scheduling.run(name))
