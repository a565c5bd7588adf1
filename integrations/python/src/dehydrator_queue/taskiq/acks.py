"""The acks of a taskiq broker: those that come while one is on its way are sent together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from dehydrator_queue.aio.server import Server
from dehydrator_queue.job import Delivery
from dehydrator_queue.queue.commands import Question

Waiting = list[tuple[Delivery, asyncio.Future[None]]]


class Acks:
    """One command at a time for each key: the node of one may not reply when those of the others do."""

    def __init__(self, server: Server, patience: float) -> None:
        self._server, self._patience = server, patience
        self._waiting: dict[str, Waiting] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}

    async def settle(self, delivery: Delivery) -> None:
        """Returns when the server has settled it, or raises why not."""
        settled = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(delivery.key, []).append((delivery, settled))
        if delivery.key not in self._sending:
            self._sending[delivery.key] = asyncio.create_task(self._send(delivery.key))
        await settled

    async def stop(self, seconds: float) -> None:
        """Waits for those that are on their way, for a while."""
        if self._sending:
            _, late = await asyncio.wait(self._sending.values(), timeout=seconds)
            for sending in late:
                sending.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _send(self, key: str) -> None:
        try:
            while some := [each for each in self._waiting.pop(key, []) if not each[1].done()]:
                await self._send_some(key, some)
        finally:
            del self._sending[key]
            for _, settled in self._waiting.pop(key, []):
                settled.cancel()

    async def _send_some(self, key: str, some: Waiting) -> None:
        futures = [settled for _, settled in some]
        words = ("DEHYDRATOR.SETTLE", key, *leases_of(delivery for delivery, _ in some))
        try:
            await self._server.ask(Question(words, list), self._patience)
        except Exception as error:
            for settled in futures:
                if not settled.done():
                    settled.set_exception(error)
        else:
            for settled in futures:
                if not settled.done():
                    settled.set_result(None)
        finally:
            for settled in futures:
                settled.cancel()


def leases_of(deliveries: Iterable[Delivery]) -> list[Any]:
    """Returns the pairs of SETTLE, RENEW and RELEASE."""
    return [word for delivery in deliveries for word in (delivery.token, delivery.id)]
