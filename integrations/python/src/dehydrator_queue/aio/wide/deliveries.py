"""What is taken from the keys of a queue for a framework of asyncio, which asks for one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dehydrator_queue.aio.server import Server
from dehydrator_queue.aio.wide.pollers import Pollers
from dehydrator_queue.frameworks.prefetch import Prefetch
from dehydrator_queue.hooks import Hooks
from dehydrator_queue.job import Delivery
from dehydrator_queue.wide.deliveries import MOST_AT_ONCE, settings_of

T = TypeVar("T")


class Deliveries(Generic[T]):
    """As many are taken, and not ended yet, as `prefetch` expects."""

    def __init__(
        self,
        queue: Any,
        server: Server,
        prefetch: Prefetch,
        lease_ms: int,
        block_ms: int,
        made: Callable[[Delivery], T],
    ) -> None:
        """`made`: is called with each, as soon as it is taken."""
        self._given: asyncio.Queue[T | None] = asyncio.Queue()
        self._stopping = False
        self._ended = 0
        self._prefetch = prefetch
        settings = settings_of(prefetch.count, lease_ms, block_ms)
        self._pollers = Pollers(
            *([queue], settings, block_ms, MOST_AT_ONCE, server, server, None, Hooks()),
            lambda: self._stopping,
            lambda delivery: self._given.put_nowait(made(delivery)),
        )
        self._taking = asyncio.create_task(self._pollers.run())
        self._taking.add_done_callback(lambda _: self._given.put_nowait(None))

    async def take(self) -> T:
        """Waits for the next one. Raises permanent errors."""
        is_first = self._given.empty()
        if is_first:
            # Together: to take each alone costs the server more.
            self._pollers.permits.resize(self._prefetch.count)
            self._pollers.permits.release(self._ended)
            self._ended = 0
        if (given := await self._given.get()) is None:
            self._taking.result()
            raise RuntimeError("it is closed")
        if is_first:
            self._prefetch.begin()
        return given

    def end(self) -> None:
        """Makes room for another one."""
        self._prefetch.pass_on()
        self._ended += 1

    def give_up(self) -> list[T]:
        """Returns what was taken and nobody has asked for. No more is taken until somebody asks."""
        self._pollers.permits.resize(0)
        left = self._left()
        self._ended += len(left)
        return left

    async def close(self) -> list[T]:
        """Returns what was taken and nobody has asked for."""
        self._stopping = True
        await asyncio.wait({self._taking})
        return self._left()

    def _left(self) -> list[T]:
        some = [self._given.get_nowait() for _ in range(self._given.qsize())]
        if None in some:
            self._given.put_nowait(None)
        return [given for given in some if given is not None]
