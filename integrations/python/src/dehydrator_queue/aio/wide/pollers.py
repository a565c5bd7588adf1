"""The tasks of a worker that take jobs from the keys of its queues: see dehydrator_queue.wide.pollers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine
from typing import Any

from dehydrator_queue.job import Delivery
from dehydrator_queue.queue.commands import new_token, poll
from dehydrator_queue.queue.library import passes
from dehydrator_queue.wide.pollers import LOOK, Polling
from dehydrator_queue.worker.threads import SLICE


class Pollers(Polling):
    """One task for each key of all lists, which sleeps in a POLL at the node of its key."""

    async def run(self) -> None:
        """Takes jobs until the worker stops. Raises permanent errors."""
        self.permits.soon = asyncio.get_running_loop().call_soon
        try:
            while not self._is_over():
                await self._look()
                end = time.monotonic() + LOOK
                while not self._is_over() and time.monotonic() < end:
                    await asyncio.sleep(SLICE)
        except asyncio.CancelledError:
            for task in self._taking.values():
                task.cancel()
            raise
        finally:
            self._keys = set()
            while (left := {task for task in self._taking.values() if not task.done()}) and not self._leaves():
                await asyncio.wait(left, timeout=SLICE)
            for task in left:
                task.cancel()
            await asyncio.gather(*self._taking.values(), return_exceptions=True)
            self._has_ended = True
        if self._failure is not None:
            raise self._failure

    async def _look(self) -> None:
        """Reads the directories, and starts a task for each new key."""
        ranks = {}
        for rank, queue in enumerate(self._queues):
            flow = queue._server.router.directory.read()
            for key in (await self._server.follow(flow, None, self._is_over, self._hooks.interrupted)).keys:
                self._commands.setdefault(key, queue._commands.at(key))
                ranks[key] = rank
        self._keys = set(ranks)
        for key, rank in ranks.items():
            if key not in self._taking or self._taking[key].done():
                self._start(key, self._take(key, rank))

    def _start(self, key: str, run: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await run
            except Exception as error:
                if not (self._is_over() and passes(error)):
                    self._failure = error

        self._taking[key] = asyncio.create_task(guarded())

    async def _take(self, key: str, rank: int) -> None:
        if self._limit is not None:
            await self._server.follow(self._limit(self._commands[key]), None, self._is_over, self._hooks.interrupted)
        while key in self._keys and not self._is_over():
            await self._take_some(key, rank)

    async def _take_some(self, key: str, rank: int) -> None:
        """Takes what is due, as much as there are permits; if that is nothing, sleeps until something is."""
        room = await self._wait_for_permits(rank)
        used = 0
        try:
            deliveries = await self._poll(key, room, None) if room else []
            for delivery in await self._confirmed(key, deliveries):
                self._submit(delivery)
                used += 1
        finally:
            if room > used:
                self.permits.release(room - used)
        if deliveries or not room:
            return
        while key in self._keys and not self._is_over() and not deliveries:
            deliveries = await self._poll(key, 1, self._block_ms)
        for delivery in deliveries:
            if self._is_over() or not self.permits.take_one(rank):
                self.given_back += 1
                await self._give_back(key, delivery)
                continue
            mine = await self._confirmed(key, [delivery])
            for one in mine:
                self._submit(one)
            if not mine:
                self.permits.release()

    async def _wait_for_permits(self, rank: int) -> int:
        given: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.permits.ask(rank, self._most, given.set_result)
        while not given.done() and not self._is_over():
            await asyncio.wait({given}, timeout=0.2)
        return given.result() if given.done() else 0

    async def _poll(self, key: str, count: int, block_ms: int | None) -> list[Delivery]:
        question = poll([key], count, self._settings.lease_ms, new_token(), block_ms)
        began = time.monotonic()
        deliveries: list[Delivery] = await self._server.ask(question, None, self._is_over, self._hooks.interrupted)
        if deliveries:
            self._hooks.received(deliveries, time.monotonic() - began)
        return deliveries

    async def _confirmed(self, key: str, deliveries: list[Delivery]) -> list[Delivery]:
        """Waits until replicas have the leases; returns the jobs that are still leased."""
        if self._confirming is None or not deliveries:
            return deliveries
        # A RENEW is a write of its connection, even if the POLL came by another one.
        held = [(delivery.token, delivery.id) for delivery in deliveries]
        renew = self._commands[key].renew(self._settings.lease_ms, held)
        try:
            still = await self._confirming.ask(renew, math.inf, self._is_over, self._hooks.interrupted)
        except Exception as error:
            if not (self._is_over() and passes(error)):
                raise
            for delivery in deliveries:
                await self._give_back(key, delivery)
            return []
        return [delivery for delivery, is_mine in zip(deliveries, still, strict=True) if is_mine]

    async def _give_back(self, key: str, delivery: Delivery) -> None:
        back = self._commands[key].give_back(delivery.token, delivery.id)
        await self._leases.ask(back, self._settings.lease_ms / 1000, tell=self._hooks.interrupted)
