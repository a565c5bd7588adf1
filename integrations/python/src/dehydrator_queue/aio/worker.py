"""A worker for asyncio: like dehydrator_queue.worker.worker, with tasks."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import time
from contextlib import suppress
from typing import Any

from dehydrator_queue.aio.cancellations import tell
from dehydrator_queue.aio.queue import Queue
from dehydrator_queue.aio.server import Server
from dehydrator_queue.aio.wide.confirming import Confirming
from dehydrator_queue.aio.wide.pollers import Pollers
from dehydrator_queue.job import CANCELLED, NO_LEASE, Delivery, Job
from dehydrator_queue.options import flag
from dehydrator_queue.queue.library import passes
from dehydrator_queue.steps import run_async
from dehydrator_queue.worker.base import MOST_AT_ONCE, Working, log, too_long
from dehydrator_queue.worker.threads import SLICE


class Worker(Working[Queue[Any]]):
    """Takes due jobs, and awaits `work` with each Job, `concurrency` of them at a time.

    Finished jobs are settled, failed ones delivered again: see dehydrator_queue.Worker. The work of a lost job, or of
    one that takes too long, is cancelled; with `keep_place`, the latter is only told, by `job.lost`.
    """

    _kind = Queue
    # A cancellation of a task of its own, as when the loop ends, is one of the work.
    _failures = (Exception, asyncio.CancelledError)

    def _prepare(self) -> None:
        self._works: dict[int, asyncio.Future[Any]] = {}
        self._is_running = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, *, signals: bool = True) -> None:
        """Works until `stop`, or SIGTERM or SIGINT, or until its task is cancelled. Raises permanent errors.

        The second signal interrupts the work, as a cancellation does, and the third ends the process. An earlier `stop`
        ends it at once. After it has returned, it can be called again.
        """
        flag("signals", signals)
        if self._is_running:
            raise RuntimeError("the worker is running")
        self._is_running = True
        loop, caught = asyncio.get_running_loop(), []
        if signals:
            # Only the main thread can catch signals, and not on Windows.
            with suppress(NotImplementedError, RuntimeError, ValueError):
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.add_signal_handler(number, self._signalled, number)
                    caught.append(number)
        try:
            await self._run()
        finally:
            for number in caught:
                loop.remove_signal_handler(number)
            self._is_running = False
            self._reset()

    async def _run(self) -> None:
        self._pid = os.getpid()
        server, block_ms = self._open(Server, Confirming)
        await run_async(self._beginning(server))
        told = tell(self._leases.client, lambda: list(self._commands), self._renew_of)
        beside = [asyncio.create_task(self._watch()), asyncio.create_task(told)]
        log.info("%s: a worker begins, %d at a time", ", ".join(self._queues), self._settings.concurrency)
        try:
            if self._is_wide:
                await self._take_from_keys(server, block_ms)
            while not self._is_stopping:
                await self._take(server, block_ms)
        except asyncio.CancelledError:
            self.stop(0)
            raise
        except Exception as error:
            if not (self._is_stopping and passes(error)):
                raise
        finally:
            self.stop()
            try:
                await self._finish()
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
                if isinstance(self._sure.client, Confirming):
                    await self._sure.client.aclose()
                for own in self._opened(server):
                    await own.aclose()
                log.info("%s: the worker has ended", ", ".join(self._queues))

    async def _finish(self) -> None:
        """Waits for the work that has begun, until a limited stop is over."""
        while self._tasks and time.monotonic() < self._stop_by:
            await asyncio.wait(self._tasks, timeout=SLICE)
        if self._tasks:
            await run_async(self._cutting_off())

    async def _take_from_keys(self, server: Server, block_ms: int) -> None:
        """Takes jobs from all keys of the queues, until the worker stops."""

        def submit(delivery: Delivery) -> None:
            self._begin(delivery).add_done_callback(lambda _: pollers.permits.release())

        pollers = self._pollers(Pollers, server, block_ms, submit)
        await pollers.run()

    def _begin(self, delivery: Delivery) -> asyncio.Task[None]:
        task = asyncio.create_task(self._serve(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _take(self, server: Server, block_ms: int) -> None:
        """Waits for free capacity, and for up to that many jobs."""
        room = min(self._settings.concurrency - len(self._tasks), MOST_AT_ONCE)
        if room == 0:
            await asyncio.wait(self._tasks, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            return
        for delivery in await run_async(self._polling(server, room, block_ms)):
            self._begin(delivery)

    async def _serve(self, delivery: Delivery) -> None:
        try:
            await run_async(self._doing(delivery))
        except Exception as error:
            # It was neither settled nor given back, so it is delivered again when its lease expires.
            self._hooks.crashed(error)

    def _cancel(self, job: Job) -> None:
        if (work := self._works.get(id(job))) is not None:
            work.cancel()

    async def _work_on(self, delivery: Delivery, job: Job, seconds: float) -> None:
        work = self._works[id(job)] = asyncio.create_task(self._work_alone(job))
        try:
            if seconds < math.inf:
                ended, _ = await asyncio.wait({work}, timeout=seconds)
                if not ended and self._settings.keep_place:
                    # It is not cancelled: what it has begun in a thread would go on.
                    self._tell_late(job)
                    await asyncio.wait({work})
                elif not ended:
                    # Its place is free then, whatever it does with that.
                    work.cancel()
                    raise too_long(seconds)
            await work
        finally:
            self._works.pop(id(job), None)

    async def _work_alone(self, job: Job) -> None:
        try:
            await self._work(job)
        except BaseException as error:
            self._leave_child(error)
            raise
        self._leave_child(None)

    async def _watch(self) -> None:
        """Renews the current jobs, three times per lease."""
        # A task for each key: the nodes of the others may reply when one does not.
        renewing: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                await asyncio.sleep(self._settings.renewal)
                for name, held in self._running.by_key().items():
                    if name not in renewing or renewing[name].done():
                        renewing[name] = asyncio.create_task(self._renew(name, held))
                await run_async(self._limiting_again())
        finally:
            for task in renewing.values():
                task.cancel()
            await asyncio.gather(*renewing.values(), return_exceptions=True)

    async def _renew_of(self, name: str, id: bytes) -> None:
        """Renews a job that may have been cancelled, if it is there."""
        if held := self._running.of(name, [id]):
            await self._renew(name, held, CANCELLED)

    async def _renew(self, name: str, held: list[tuple[str, bytes]], why: str = NO_LEASE) -> None:
        await run_async(self._renewing(name, held, lambda: False, why))
