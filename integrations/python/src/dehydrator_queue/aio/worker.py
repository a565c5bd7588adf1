"""A worker for asyncio: like dehydrator_queue.worker, with tasks."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from dehydrator_queue.aio.queue import Queue
from dehydrator_queue.aio.server import Server
from dehydrator_queue.aio.wide.confirming import Confirming
from dehydrator_queue.aio.wide.takers import Takers
from dehydrator_queue.backoff import Backoff
from dehydrator_queue.held import Held
from dehydrator_queue.hooks import Guarded, Hooks
from dehydrator_queue.job import Delivery, Job, id_text
from dehydrator_queue.library import ResponseError, passes, read_timeout, reply_in
from dehydrator_queue.moment import Duration, in_seconds
from dehydrator_queue.rota import Rota
from dehydrator_queue.scheduling import Scheduling
from dehydrator_queue.terms import CUT_OFF, Again, Dead, Terms, reason_of, verdict
from dehydrator_queue.threads import SLICE
from dehydrator_queue.verbs import Question, Verbs, new_token, poll
from dehydrator_queue.worker import GRACE, MOST_AT_ONCE, are_wide, by_name


class Worker:
    """Takes due jobs, and awaits `work` with each Job, `concurrency` of them at a time.

    Finished jobs are settled, failed ones delivered again: see dehydrator_queue.Worker. The work of a lost job is
    cancelled.
    """

    def __init__(
        self,
        queues: Queue | Sequence[Queue],
        work: Callable[[Job], Awaitable[Any]],
        *,
        concurrency: int = 1,
        lease: Duration = 60.0,
        attempts: int | None = 5,
        backoff: Backoff | None = None,
        block: Duration = 2.0,
        hooks: Hooks | None = None,
        stop_timeout: Duration | None = None,
        schedules: bool | None = None,
        wait_replicas: int = 0,
    ) -> None:
        """See dehydrator_queue.Worker."""
        self._queues: dict[str, Queue] = by_name(queues, Queue)
        self._is_wide = are_wide(self._queues.values(), wait_replicas)
        self._rota = Rota(self._queues.values(), schedules)
        self._wait_replicas = wait_replicas
        #: By key.
        self._verbs = {name: queue.verbs for name, queue in self._queues.items()}
        self._work = work
        self._terms = Terms.of(concurrency, lease, block, attempts, backoff, stop_timeout)
        self._hooks = Guarded(hooks or Hooks())
        self._held = Held()
        self._works: dict[int, asyncio.Future[Any]] = {}
        self._stopping = False
        self._stop_by = math.inf
        self._running = False
        self._ending: set[asyncio.Task[None]] = set()

    def stop(self, timeout: Duration | None = None) -> None:
        """Makes the worker take no more jobs, finish its current ones, and return from `run`.

        Work that does not end within `timeout`, or the worker's `stop_timeout`, is cancelled, and the job is given
        back at once, or becomes a dead letter if this was its last attempt.
        """
        wait = self._terms.stop_timeout if timeout is None else in_seconds(timeout)
        self._stop_by = min(self._stop_by, time.monotonic() + wait)
        self._stopping = True

    async def run(self, *, signals: bool = True) -> None:
        """Works until `stop`, or SIGTERM or SIGINT. Raises permanent errors.

        An earlier `stop` ends it at once. After it has returned, it can be called again.
        """
        if self._running:
            raise RuntimeError("the worker is running")
        self._running = True
        loop, caught = asyncio.get_running_loop(), []
        if signals:
            # Only the main thread can catch signals, and not on Windows.
            with suppress(NotImplementedError, RuntimeError, ValueError):
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.add_signal_handler(number, self.stop)
                    caught.append(number)
        try:
            await self._run()
        finally:
            for number in caught:
                loop.remove_signal_handler(number)
            self._stopping = self._running = False
            self._stop_by = math.inf

    async def _run(self) -> None:
        first = next(iter(self._queues.values()))
        server = Server(first.patient(self._terms.block_ms / 1000 + GRACE), patience=float("inf"))
        block_ms = self._terms.block_ms
        if (timeout := read_timeout(server.client)) is not None:
            # The user's client may have a shorter timeout: the reply must come before that.
            block_ms = min(block_ms, int(timeout * 500))
        await server.check(first.name, lambda: self._stopping, self._hooks.interrupted)
        self._leases = self._sure = Server(first.patient(reply_in(self._terms.lease_ms)), patience=0)
        if self._wait_replicas:
            wait_ms = int(500 * min(1, reply_in(self._terms.lease_ms)))
            self._sure = Server(Confirming(self._leases.client, self._wait_replicas, wait_ms), patience=0)
        if self._is_wide:
            try:
                # Finds the nodes while they reply.
                await self._leases.check(first.name)
            except Exception as error:
                if not passes(error):
                    raise
        for queue in () if self._is_wide else self._queues.values():
            if self._terms.attempts is not None:
                limit = queue.verbs.limit_attempts(self._terms.attempts)
                await server.ask(limit, None, lambda: self._stopping, self._hooks.interrupted)
        for scheduling in self._rota.unserved:
            # Whatever the key is, or may not be read, concerns nobody here.
            with suppress(*ResponseError):
                if await server.ask(scheduling.length(), None, lambda: self._stopping, self._hooks.interrupted):
                    self._hooks.unserved(scheduling.queue)
        renewing = asyncio.create_task(self._renew())
        try:
            if self._is_wide:
                await self._take_from_keys(server, block_ms)
            while not self._stopping:
                await self._take(server, block_ms)
        except Exception as error:
            if not (self._stopping and passes(error)):
                raise
        finally:
            self.stop()
            while self._ending and time.monotonic() < self._stop_by:
                await asyncio.wait(self._ending, timeout=SLICE)
            if self._ending:
                await self._cut_off()
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
            if isinstance(self._sure.client, Confirming):
                await self._sure.client.aclose()
            if server.client is not first.server.client:
                for own in (server, self._leases):
                    await own.client.aclose()  # type: ignore[attr-defined]

    async def _take_from_keys(self, server: Server, block_ms: int) -> None:
        """Takes jobs from all keys of the queues, until the worker stops."""

        def submit(delivery: Delivery) -> None:
            self._begin(delivery).add_done_callback(lambda _: takers.permits.release())

        takers = Takers(
            self._queues.values(),
            self._terms,
            block_ms,
            MOST_AT_ONCE,
            server,
            self._leases,
            self._sure if self._wait_replicas else None,
            self._hooks,
            lambda: self._stopping,
            submit,
            {one.key: partial(self._put_jobs, server, one) for one in self._rota.schedulings},
            lambda: time.monotonic() >= self._stop_by,
        )
        self._verbs = takers.verbs
        await takers.run()

    def _begin(self, delivery: Delivery) -> asyncio.Task[None]:
        task = asyncio.create_task(self._serve(delivery))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _take(self, server: Server, block_ms: int) -> None:
        """Waits for free capacity, and for up to that many jobs."""
        room = min(self._terms.concurrency - len(self._ending), MOST_AT_ONCE)
        if room == 0:
            ended, _ = await asyncio.wait(self._ending, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            if not ended and self._rota.schedules:
                # There is no room for a job, but one of a schedule can wait in the queue, for other workers.
                await self._poll(server, self._rota.schedules, MOST_AT_ONCE, None)
            return
        for delivery in await self._poll(server, self._rota.keys(), room, block_ms):
            self._begin(delivery)

    async def _poll(self, server: Server, keys: list[str], room: int, block_ms: int | None) -> list[Delivery]:
        """Returns the jobs that are due, or serves the schedules that are."""
        question = poll(keys, room, self._terms.lease_ms, new_token(), block_ms)
        began = time.monotonic()
        deliveries = await server.ask(question, None, lambda: self._stopping, self._hooks.interrupted)
        if (scheduling := self._rota.scheduling(deliveries)) is not None:
            for delivery in deliveries:
                await self._put_jobs(server, scheduling, delivery)
            return []
        if deliveries:
            self._hooks.received(deliveries, time.monotonic() - began)
        return deliveries

    async def _put_jobs(self, server: Server, scheduling: Scheduling, delivery: Delivery) -> None:
        """Puts the jobs of a schedule that is due."""
        try:
            flow = scheduling.serve(delivery)
            reason = await server.follow(flow, None, lambda: self._stopping, self._hooks.interrupted)
        except Exception as error:
            if passes(error):
                raise
            # It comes again when its lease expires.
            self._hooks.crashed(error)
            return
        if reason is not None:
            self._hooks.refused(scheduling.queue, id_text(delivery.id), reason)

    async def _serve(self, delivery: Delivery) -> None:
        try:
            await self._do(delivery)
        except Exception as error:
            # It was neither settled nor given back, so it is delivered again when its lease expires.
            self._hooks.crashed(error)

    async def _cut_off(self) -> None:
        """Cancels the work that still runs, and gives its jobs back."""
        silent: set[str] = set()
        for delivery, job in self._held.lose_all():
            if (work := self._works.get(id(job))) is not None:
                work.cancel()
            verbs = self._verbs[delivery.key]
            try:
                if delivery.key not in silent:
                    last = (await self._terms_of(delivery, patience=0)).is_last(delivery)
                    question = verbs.bury(delivery, CUT_OFF) if last else verbs.release(0, delivery.token, delivery.id)
                    await self._ask(question, patience=0)
            except Exception as error:
                # It is delivered again when its lease expires.
                self._hooks.crashed(error)
                if passes(error):
                    silent.add(delivery.key)
            self._hooks.lost(job)

    async def _do(self, delivery: Delivery) -> None:
        verbs = self._verbs[delivery.key]
        if self._stopping:
            # The POLL was blocked in the server when the stop was requested. Other workers can do this job.
            await self._ask(verbs.release(0, delivery.token, delivery.id, counted=False))
            return
        try:
            job = Job.of(delivery, verbs.codec.decode, verbs.queue)
        except Exception as error:
            await self._bury(verbs, delivery, f"it cannot be decoded: {reason_of(error)}")
            return
        self._held.add(delivery, job)
        began = time.monotonic()
        failure: BaseException | None = None
        try:
            self._hooks.started(job)
            with self._hooks.working(job):
                self._works[id(job)] = asyncio.ensure_future(self._work(job))
                await self._works[id(job)]
        except (Exception, asyncio.CancelledError) as error:
            failure = error
        finally:
            self._works.pop(id(job), None)
            self._held.remove(delivery)
        seconds = time.monotonic() - began
        if job.lost.is_set():
            return
        if failure is None:
            # A 0 can mean that a first SETTLE worked, but its reply was lost.
            with self._hooks.settling(job, "settle"):
                await self._ask(verbs.settle(delivery.token, delivery.id), server=self._sure)
            self._hooks.succeeded(job, seconds)
            return
        changed = delivery.with_headers(job.headers)
        match verdict(failure, delivery, await self._terms_of(delivery)):
            case Again(delay):
                again = verbs.release(delay, delivery.token, delivery.id)
                with self._hooks.settling(job, "release"):
                    await self._ask(again if changed is delivery else verbs.retry(delay, changed))
                self._hooks.retried(job, seconds, failure, delay)
            case Dead(reason):
                with self._hooks.settling(job, "bury"):
                    await self._bury(verbs, changed, reason)

    async def _terms_of(self, delivery: Delivery, patience: float | None = None) -> Terms:
        """Returns the terms of a job. Without `attempts`, the queue has its own policy, or none."""
        if self._terms.attempts is None:
            return self._terms
        verbs = self._verbs[delivery.key]
        return self._terms.of_job(await self._ask(verbs.own_attempts(delivery.id), patience))

    async def _bury(self, verbs: Verbs, delivery: Delivery, reason: str) -> None:
        if self._terms.attempts is not None:
            await self._ask(verbs.bury(delivery, reason))
        else:
            # This worker does not configure dead letters: the policy of the queue does, if any.
            try:
                await self._ask(verbs.reject(delivery.token, delivery.id))
            except ResponseError as error:
                delay = self._terms.backoff.most
                await self._ask(verbs.release(delay, delivery.token, delivery.id))
                reason = f"{reason}; it waits for {delay:.0f} s, for it could not go to the dead letters: {error}"
        self._hooks.buried(delivery, reason)

    async def _ask(self, question: Question[Any], patience: float | None = None, server: Server | None = None) -> Any:
        """Retries for the duration of a lease, by default: after that, the reply is useless."""
        if patience is None:
            patience = max(self._terms.lease_ms / 1000, 10.0)
        return await (server or self._leases).ask(question, patience, tell=self._hooks.interrupted)

    async def _renew(self) -> None:
        """Renews the current jobs, three times per lease."""
        # A task for each key: the nodes of the others may reply when one does not.
        renewing: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                await asyncio.sleep(self._terms.renewal)
                for name, held in self._held.by_queue().items():
                    if name not in renewing or renewing[name].done():
                        renewing[name] = asyncio.create_task(self._renew_of(name, held))
        finally:
            for task in renewing.values():
                task.cancel()
            await asyncio.gather(*renewing.values(), return_exceptions=True)

    async def _renew_of(self, name: str, held: list[tuple[str, bytes]]) -> None:
        try:
            # As long as the leases still run.
            renewed = await self._leases.ask(
                self._verbs[name].renew(self._terms.lease_ms, held),
                2 * self._terms.renewal,
                tell=self._hooks.interrupted,
            )
        except Exception as error:
            self._hooks.crashed(error)
            return
        for (token, element), still in zip(held, renewed, strict=True):
            if not still and (job := self._held.lose(name, token, element)) is not None:
                if (work := self._works.get(id(job))) is not None:
                    work.cancel()
                self._hooks.lost(job)
