"""A queue for asyncio: see dehydrator_queue.queue.queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from dehydrator_queue.aio.awaited import awaited
from dehydrator_queue.aio.schedules import Schedules
from dehydrator_queue.aio.server import Server, WideServer
from dehydrator_queue.job import Waiting
from dehydrator_queue.queue import queue as threaded
from dehydrator_queue.queue.opening import Opened

T = TypeVar("T")


class Queue(Opened[T]):
    """Puts jobs into a queue, and reads, postpones and cancels them by their ids: see dehydrator_queue.Queue.

    All commands are resent when the connection breaks, for `patience` seconds, and take effect once, except as
    `put` and `revive` describe. Durations are in seconds, or timedeltas; `at` is a datetime with its time zone, or
    seconds since 1970.
    """

    _parts, _is_asyncio = (Server, WideServer, Schedules), True
    _server: Server
    schedules: Schedules

    put = awaited(threaded.Queue[T].put)
    put_many = awaited(threaded.Queue[T].put_many)
    every = awaited(threaded.Queue[T].every)
    cancel = awaited(threaded.Queue[T].cancel)
    cancel_all = awaited(threaded.Queue[T].cancel_all)
    postpone_all = awaited(threaded.Queue[T].postpone_all)
    postpone = awaited(threaded.Queue[T].postpone)
    look = awaited(threaded.Queue[T].look)
    update = awaited(threaded.Queue[T].update)
    length = awaited(threaded.Queue.__len__)
    info = awaited(threaded.Queue[T].info)
    limit = awaited(threaded.Queue[T].limit)
    limits = awaited(threaded.Queue[T].limits)
    set_policy = awaited(threaded.Queue[T].set_policy)
    pause = awaited(threaded.Queue[T].pause)
    resume = awaited(threaded.Queue[T].resume)
    dead_letters = awaited(threaded.Queue[T].dead_letters)
    revive = awaited(threaded.Queue[T].revive)
    drop = awaited(threaded.Queue[T].drop)
    set_keys = awaited(threaded.Queue[T].set_keys)
    forget_keys = awaited(threaded.Queue[T].forget_keys)
    check = awaited(threaded.Queue[T].check)

    async def __aiter__(self) -> AsyncIterator[Waiting]:
        start: Any = "-"
        while start is not None:
            start, rows = await self._server.ask(self._commands.page(start))
            for row in rows:
                yield row

    async def close(self) -> None:
        if self._url is not None:
            await self._server.client.aclose()  # type: ignore[attr-defined]

    async def __aenter__(self) -> Queue[T]:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()
