"""The schedules of a queue for asyncio: see dehydrator_queue.schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from dehydrator_queue.aio.server import Server
from dehydrator_queue.scheduling import Schedule, Scheduling


class Schedules:
    """Lists, reads, pauses and removes schedules, which `Queue.every` makes."""

    def __init__(self, server: Server, scheduling: Scheduling) -> None:
        self._server = server
        self._scheduling = scheduling

    async def __aiter__(self) -> AsyncIterator[Schedule]:
        """Yields all schedules, in the order of their next occurrences, except for those beyond thirty days."""
        start: Any = "-"
        while start is not None:
            start, rows = await self._server.ask(self._scheduling.page(start))
            for row in rows:
                yield row

    async def length(self) -> int:
        return await self._server.ask(self._scheduling.length())

    async def get(self, name: str | bytes) -> Schedule | None:
        return await self._server.ask(self._scheduling.get(name))

    async def remove(self, name: str | bytes) -> bool:
        """Removes a schedule; returns whether it existed. Its jobs in the queue stay."""
        return await self._server.ask(self._scheduling.remove(name))

    async def pause(self, name: str | bytes) -> bool:
        """Makes a schedule skip its occurrences until `resume`; returns whether it exists."""
        return await self._server.follow(self._scheduling.pause(name))

    async def resume(self, name: str | bytes) -> bool:
        """Ends a pause; returns whether the schedule exists."""
        return await self._server.follow(self._scheduling.resume(name))

    async def run(self, name: str | bytes) -> str | None:
        """Puts a job of a schedule now, also during a pause; returns its id, or None if there is no such schedule."""
        return await self._server.follow(self._scheduling.run(name))
