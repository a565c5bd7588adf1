"""The schedules of a queue for asyncio: see dehydrator_queue.queue.schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator

from dehydrator_queue.aio.awaited import awaited
from dehydrator_queue.aio.server import Server
from dehydrator_queue.queue import schedules as threaded
from dehydrator_queue.queue.scheduling import Schedule, Scheduling


class Schedules:
    """Lists, reads, pauses and removes schedules, which `Queue.every` makes."""

    def __init__(self, server: Server, scheduling: Scheduling) -> None:
        self._server = server
        self._scheduling = scheduling

    async def __aiter__(self) -> AsyncIterator[Schedule]:
        for schedule in await self._server.ask(self._scheduling.all()):
            yield schedule

    length = awaited(threaded.Schedules.__len__)
    get = awaited(threaded.Schedules.get)
    remove = awaited(threaded.Schedules.remove)
    pause = awaited(threaded.Schedules.pause)
    resume = awaited(threaded.Schedules.resume)
    run = awaited(threaded.Schedules.run)
