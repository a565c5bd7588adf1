"""The tasks of a worker that take jobs from the keys of its queues: see dehydrator_queue.wide.pollers."""

from __future__ import annotations

import asyncio
import time

from dehydrator_queue.steps import run_async
from dehydrator_queue.wide.pollers import LOOK, Polling
from dehydrator_queue.worker.threads import SLICE


class Pollers(Polling):
    """Those of asyncio."""

    async def run(self) -> None:
        """Takes jobs until the worker stops. Raises permanent errors."""
        self.permits.soon = asyncio.get_running_loop().call_soon
        try:
            while not self._is_over():
                for key, rank in (await run_async(self._looking())).items():
                    self._taking[key] = asyncio.create_task(run_async(self._taking_from(key, rank)))
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

    def _has_left(self, key: str) -> bool:
        return bool(self._taking[key].done())

    async def _wait_for_permits(self, rank: int) -> int:
        given: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.permits.ask(rank, self._most, given.set_result)
        while not given.done() and not self._is_over():
            await asyncio.wait({given}, timeout=0.2)
        return given.result() if given.done() else 0
