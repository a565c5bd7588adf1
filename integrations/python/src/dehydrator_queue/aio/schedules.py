"""The schedules of a queue for asyncio: see dehydrator_queue.queue.schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator

from dehydrator_queue.aio.server import Server
from dehydrator_queue.queue.scheduling import Schedule, Scheduling


class Schedules:
    """Lists, reads, pauses and removes schedules, which `Queue.every` makes."""

    def __init__(self, server: Server, scheduling: Scheduling) -> None:
        self._server = server
        self._scheduling = scheduling

    async def __aiter__(self) -> AsyncIterator[Schedule]:
        for schedule in await self._server.ask(self._scheduling.all()):
            yield schedule

    async def length(self) -> int:
        return await self._server.ask(self._scheduling.length())

    async def get(self, name: str | bytes) -> Schedule | None:
        return await self._server.ask(self._scheduling.get(name))

    async def remove(self, name: str | bytes) -> bool:
        return await self._server.ask(self._scheduling.remove(name))

    async def pause(self, name: str | bytes) -> bool:
        return await self._server.follow(self._scheduling.pause(name))

    async def resume(self, name: str | bytes) -> bool:
        return await self._server.follow(self._scheduling.resume(name))

    async def run(self, name: str | bytes) -> str | None:
        return await self._server.follow(self._scheduling.run(name))
