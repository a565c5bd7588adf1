"""A worker for asyncio: like dehydrator_queue.worker.worker, with tasks."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from dehydrator_queue.aio.cancellations import tell
from dehydrator_queue.aio.queue import Queue
from dehydrator_queue.aio.server import Server
from dehydrator_queue.aio.wide.confirming import Confirming
from dehydrator_queue.aio.wide.pollers import Pollers
from dehydrator_queue.backoff import Backoff
from dehydrator_queue.durations import Duration
from dehydrator_queue.errors import TookTooLong
from dehydrator_queue.hooks import Hooks
from dehydrator_queue.job import Delivery, Job
from dehydrator_queue.queue.commands import Flow, Question, new_token, poll
from dehydrator_queue.queue.library import passes
from dehydrator_queue.worker.base import MOST_AT_ONCE, Working, by_name, is_coroutine, log
from dehydrator_queue.worker.settings import Attempts, Settings, Timeout
from dehydrator_queue.worker.threads import SLICE

T = TypeVar("T")


class Worker(Working):
    """Takes due jobs, and awaits `work` with each Job, `concurrency` of them at a time.

    Finished jobs are settled, failed ones delivered again: see dehydrator_queue.Worker. The work of a lost job, or of
    one that takes too long, is cancelled.
    """

    def __init__(
        self,
        queues: Queue[Any] | Sequence[Queue[Any]],
        work: Callable[[Job], Awaitable[Any]],
        *,
        concurrency: int = 1,
        lease: Duration = 60.0,
        attempts: Attempts = "queue",
        timeout: Timeout = None,
        backoff: Backoff | None = None,
        block: Duration = 2.0,
        hooks: Hooks | None = None,
        stop_timeout: Duration | None = None,
        wait_replicas: int = 0,
    ) -> None:
        """See dehydrator_queue.Worker."""
        if not is_coroutine(work):
            raise TypeError("the work is no coroutine function (async def): use dehydrator_queue.Worker")
        settings = Settings.of(concurrency, lease, block, attempts, backoff, stop_timeout, timeout)
        super().__init__(by_name(queues, Queue), settings, hooks, wait_replicas)
        self._work = work
        self._works: dict[int, asyncio.Future[Any]] = {}
        self._is_running = False
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, *, signals: bool = True) -> None:
        """Works until `stop`, or SIGTERM or SIGINT, or until its task is cancelled. Raises permanent errors.

        The second signal interrupts the work, as a cancellation does, and the third ends the process. An earlier `stop`
        ends it at once. After it has returned, it can be called again.
        """
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
        first = next(iter(self._queues.values()))
        server, block_ms = self._open(Server, Confirming)
        await server.check(first.name, self._stops, self._hooks.interrupted)
        if self._is_wide:
            try:
                # Finds the nodes while they reply.
                await self._leases.check(first.name)
            except Exception as error:
                if not passes(error):
                    raise
        for queue in () if self._is_wide else self._queues.values():
            await server.follow(self._limit(queue._commands), None, self._stops, self._hooks.interrupted)
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
        while self._ending and time.monotonic() < self._stop_by:
            await asyncio.wait(self._ending, timeout=SLICE)
        if self._ending:
            await self._cut_off()

    async def _take_from_keys(self, server: Server, block_ms: int) -> None:
        """Takes jobs from all keys of the queues, until the worker stops."""

        def submit(delivery: Delivery) -> None:
            self._begin(delivery).add_done_callback(lambda _: pollers.permits.release())

        pollers = self._pollers(Pollers, server, block_ms, submit)
        await pollers.run()

    def _begin(self, delivery: Delivery) -> asyncio.Task[None]:
        task = asyncio.create_task(self._serve(delivery))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _take(self, server: Server, block_ms: int) -> None:
        """Waits for free capacity, and for up to that many jobs."""
        room = min(self._settings.concurrency - len(self._ending), MOST_AT_ONCE)
        if room == 0:
            await asyncio.wait(self._ending, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            return
        question = poll(list(self._queues), room, self._settings.lease_ms, new_token(), block_ms)
        began = time.monotonic()
        deliveries = await server.ask(question, None, self._stops, self._hooks.interrupted)
        if deliveries:
            self._hooks.received(deliveries, time.monotonic() - began)
        for delivery in deliveries:
            self._begin(delivery)

    async def _serve(self, delivery: Delivery) -> None:
        try:
            await self._do(delivery)
        except Exception as error:
            # It was neither settled nor given back, so it is delivered again when its lease expires.
            self._hooks.crashed(error)

    async def _cut_off(self) -> None:
        """Cancels the work that still runs, and gives its jobs back."""
        silent: set[str] = set()
        some = self._running.lose_some()
        for _, job in some:
            self._cancel(job)
        for delivery, job in some:
            try:
                if delivery.key not in silent:
                    await self._follow(self._cut(delivery), patience=0)
            except Exception as error:
                # It is delivered again when its lease expires.
                self._hooks.crashed(error)
                if passes(error):
                    silent.add(delivery.key)
            self._hooks.lost(job)

    def _cancel(self, job: Job) -> None:
        if (work := self._works.get(id(job))) is not None:
            work.cancel()

    async def _do(self, delivery: Delivery) -> None:
        verbs = self._commands[delivery.key]
        if self._is_stopping:
            # The POLL was blocked in the server when the stop was requested. Other workers can do this job.
            await self._ask(verbs.give_back(delivery.token, delivery.id))
            return
        try:
            job = Job.of(delivery, verbs.codec.decode, verbs.queue)
        except Exception as error:
            self._hooks.buried(delivery, await self._follow(self._fail_to_decode(delivery, error)))
            return
        self._running.add(delivery, job)
        failure: BaseException | None = None
        began = time.monotonic()
        try:
            self._hooks.started(job)
            with self._hooks.working(job):
                await self._work_on(job)
        except (Exception, asyncio.CancelledError) as error:
            failure = error
        finally:
            self._works.pop(id(job), None)
        if not self._running.remove(delivery) or job.lost.is_set():
            return
        if isinstance(failure, TookTooLong):
            # For what it has begun elsewhere, such as in a thread.
            job.lost.set()
        await self._end(delivery, job, failure, time.monotonic() - began)

    async def _work_on(self, job: Job) -> None:
        seconds = self._settings.time_of(job)
        work = self._works[id(job)] = asyncio.create_task(self._work_alone(job))
        if seconds < float("inf"):
            ended, _ = await asyncio.wait({work}, timeout=seconds)
            if not ended:
                # Its place is free, whatever it does with that.
                work.cancel()
                raise TookTooLong(f"it did not end within {seconds:g} s")
        await work

    async def _work_alone(self, job: Job) -> None:
        try:
            await self._work(job)
        except BaseException as error:
            self._leave_child(error)
            raise
        self._leave_child(None)

    async def _end(self, delivery: Delivery, job: Job, failure: BaseException | None, seconds: float) -> None:
        """Settles a job whose work has ended, or gives it back, or makes it a dead letter."""
        if failure is None:
            # A 0 can mean that a first SETTLE worked, but its reply was lost.
            with self._hooks.settling(job, "settle"):
                await self._ask(self._commands[delivery.key].settle(delivery.token, delivery.id), self._sure)
            self._hooks.succeeded(job, seconds)
            return
        await self._follow(self._fail(delivery, job, failure, seconds))

    async def _ask(self, question: Question[Any], server: Server | None = None) -> Any:
        return await (server or self._leases).ask(question, self._patience(), tell=self._hooks.interrupted)

    async def _follow(self, flow: Flow[T], patience: float | None = None) -> T:
        patience = self._patience() if patience is None else patience
        result: T = await self._leases.follow(flow, patience, tell=self._hooks.interrupted)
        return result

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
                if time.monotonic() >= self._limit_at:
                    try:
                        await self._follow(self._limit_again(), patience=0)
                    except Exception as error:
                        self._hooks.crashed(error)
        finally:
            for task in renewing.values():
                task.cancel()
            await asyncio.gather(*renewing.values(), return_exceptions=True)

    async def _renew_of(self, name: str, id: bytes) -> None:
        """Renews a job that may have been cancelled, if it is there."""
        if held := self._running.of(name, [id]):
            await self._renew(name, held)

    async def _renew(self, name: str, held: list[tuple[str, bytes]]) -> None:
        try:
            # As long as the leases still run.
            question = self._commands[name].renew(self._settings.lease_ms, held)
            renewed = await self._leases.ask(question, 2 * self._settings.renewal, tell=self._hooks.interrupted)
        except Exception as error:
            self._hooks.crashed(error)
            return
        self._lose_unrenewed(name, held, renewed, self._cancel)
