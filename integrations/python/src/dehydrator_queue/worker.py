"""A worker of threads."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from dehydrator_queue.backoff import Backoff
from dehydrator_queue.held import Held
from dehydrator_queue.hooks import Guarded, Hooks
from dehydrator_queue.job import Delivery, Job, id_text
from dehydrator_queue.library import ResponseError, addresses, passes, read_timeout, reply_in
from dehydrator_queue.moment import Duration, in_seconds
from dehydrator_queue.queue import Queue
from dehydrator_queue.rota import Rota
from dehydrator_queue.scheduling import Scheduling
from dehydrator_queue.server import Server
from dehydrator_queue.terms import CUT_OFF, Again, Dead, Terms, reason_of, verdict
from dehydrator_queue.threads import Threads
from dehydrator_queue.verbs import Question, Verbs, new_token, poll
from dehydrator_queue.wide.confirming import Confirming
from dehydrator_queue.wide.permits import Permits
from dehydrator_queue.wide.takers import Takers

#: The reply timeout beyond the block, in seconds.
GRACE = 5.0

#: The maximum number of jobs per POLL, whatever the number of threads.
MOST_AT_ONCE = 100


def by_name(queues: Any, kind: type[Any]) -> dict[str, Any]:
    """Returns the queues of a worker by their names, if one command can serve them."""
    some = [queues] if hasattr(queues, "verbs") else list(queues)
    if not some:
        raise ValueError("a worker needs a queue")
    for queue in some:
        if not isinstance(queue, kind):
            raise TypeError(f"a worker serves {kind.__module__.removesuffix('.queue')}.Queue, not {queue!r}")
        here, there = addresses(some[0].server.client), addresses(queue.server.client)
        if here and there and here.isdisjoint(there):
            names = f"{some[0].name} and {queue.name}"
            raise ValueError(f"one worker serves one database of one server, and {names} are in two: run two workers")
    return {queue.name: queue for queue in some}


def are_wide(queues: Iterable[Any], wait_replicas: int) -> bool:
    """Returns whether the queues of a worker have several keys."""
    wide = {queue.is_wide for queue in queues}
    if len(wide) == 2:
        raise ValueError("a worker's queues all have `keys`, or none has: `keys=1` is one key")
    if wait_replicas and wide == {False}:
        raise ValueError("`wait_replicas` needs queues with `keys`: `keys=1` is one key")
    return wide == {True}


class Worker:
    """Takes due jobs, and calls `work` with each Job, in `concurrency` threads.

    If `work` returns, the job is settled. If it raises an error, the job is delivered again, after a back-off, until it
    was delivered `attempts` times; then it becomes a dead letter, with the reason. While it runs, its lease is renewed.
    If the worker dies, another worker gets the job when the lease expires.
    """

    def __init__(
        self,
        queues: Queue | Sequence[Queue],
        work: Callable[[Job], Any],
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
        """Several queues are polled in their order: the first with due jobs is served.

        `block`: how long a POLL blocks in the server, and so how long a stop can take. `stop_timeout`: how long a
        stop waits for work to end; by default without limit. `schedules`: whether to serve those of the queues; by
        default, if the library for them is installed. `wait_replicas`: for queues with `keys`, a job begins when so
        many replicas have its lease, and it is settled when they have that.
        """
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
        self._stopping = threading.Event()
        self._stop_by = math.inf
        self._running = threading.Lock()
        self._free: threading.Semaphore | Permits = threading.Semaphore(concurrency)

    def stop(self, timeout: Duration | None = None) -> None:
        """Makes the worker take no more jobs, finish its current ones, and return from `run`.

        Work that does not end within `timeout`, or the worker's `stop_timeout`, is interrupted: `job.lost` is set, and
        the job is given back at once, or becomes a dead letter if this was its last attempt. Its thread continues until
        it ends, or until the process does.
        """
        wait = self._terms.stop_timeout if timeout is None else in_seconds(timeout)
        self._stop_by = min(self._stop_by, time.monotonic() + wait)
        self._stopping.set()

    def run(self, *, signals: bool = True) -> None:
        """Works until `stop`, or SIGTERM or SIGINT. Raises permanent errors.

        An earlier `stop` ends it at once. After it has returned, it can be called again.
        """
        if not self._running.acquire(blocking=False):
            raise RuntimeError("the worker is running")
        before = {}
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, lambda *_: self.stop())
        try:
            self._run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._stopping.clear()
            self._stop_by = math.inf
            self._running.release()

    def _run(self) -> None:
        first = next(iter(self._queues.values()))
        server = Server(first.patient(self._terms.block_ms / 1000 + GRACE), patience=float("inf"))
        block_ms = self._terms.block_ms
        if (timeout := read_timeout(server.client)) is not None:
            # The user's client may have a shorter timeout: the reply must come before that.
            block_ms = min(block_ms, int(timeout * 500))
        server.check(first.name, self._stopping.is_set, self._hooks.interrupted)
        self._leases = self._sure = Server(first.patient(reply_in(self._terms.lease_ms)), patience=0)
        if self._wait_replicas:
            wait_ms = int(500 * min(1, reply_in(self._terms.lease_ms)))
            self._sure = Server(Confirming(self._leases.client, self._wait_replicas, wait_ms), patience=0)
        if self._is_wide:
            try:
                # Finds the nodes while they reply.
                self._leases.check(first.name)
            except Exception as error:
                if not passes(error):
                    raise
        for queue in () if self._is_wide else self._queues.values():
            if self._terms.attempts is not None:
                limit = queue.verbs.limit_attempts(self._terms.attempts)
                server.ask(limit, None, self._stopping.is_set, self._hooks.interrupted)
        for scheduling in self._rota.unserved:
            # Whatever the key is, or may not be read, concerns nobody here.
            with suppress(*ResponseError):
                if server.ask(scheduling.length(), None, self._stopping.is_set, self._hooks.interrupted):
                    self._hooks.unserved(scheduling.queue)
        self._ended = threading.Event()
        renewing = threading.Thread(target=self._renew, name="dehydrator-renewal", daemon=True)
        renewing.start()
        threads = Threads(self._terms.concurrency, self._serve)
        try:
            if self._is_wide:
                self._take_from_keys(server, block_ms, threads)
            while not self._stopping.is_set():
                self._take(server, block_ms, threads)
        except Exception as error:
            if not (self._stopping.is_set() and passes(error)):
                raise
        finally:
            self.stop()
            if not threads.end(lambda: time.monotonic() >= self._stop_by):
                self._cut_off()
            self._ended.set()
            renewing.join()
            if server.client is not first.server.client:
                for own in (server, self._leases):
                    own.client.close()  # type: ignore[attr-defined]

    def _take_from_keys(self, server: Server, block_ms: int, threads: Threads) -> None:
        """Takes jobs from all keys of the queues, until the worker stops."""
        takers = Takers(
            self._queues.values(),
            self._terms,
            block_ms,
            MOST_AT_ONCE,
            server,
            self._leases,
            self._sure if self._wait_replicas else None,
            self._hooks,
            self._stopping.is_set,
            threads.submit,
            {one.key: partial(self._put_jobs, server, one) for one in self._rota.schedulings},
            lambda: time.monotonic() >= self._stop_by,
        )
        self._free, self._verbs = takers.permits, takers.verbs
        takers.run()

    def _take(self, server: Server, block_ms: int, threads: Threads) -> None:
        """Waits for a free thread, and for up to as many jobs as there are free threads."""
        assert isinstance(self._free, threading.Semaphore)
        if not self._free.acquire(timeout=0.2):
            if self._rota.schedules:
                # No thread is free for a job, but one of a schedule can wait in the queue, for other workers.
                self._poll(server, self._rota.schedules, MOST_AT_ONCE, None)
            return
        room = 1
        while room < MOST_AT_ONCE and self._free.acquire(blocking=False):
            room += 1
        used = 0
        try:
            for delivery in self._poll(server, self._rota.keys(), room, block_ms):
                threads.submit(delivery)
                used += 1
        finally:
            if room > used:
                self._free.release(room - used)

    def _poll(self, server: Server, keys: list[str], room: int, block_ms: int | None) -> list[Delivery]:
        """Returns the jobs that are due, or serves the schedules that are."""
        question = poll(keys, room, self._terms.lease_ms, new_token(), block_ms)
        began = time.monotonic()
        deliveries = server.ask(question, None, self._stopping.is_set, self._hooks.interrupted)
        if (scheduling := self._rota.scheduling(deliveries)) is not None:
            for delivery in deliveries:
                self._put_jobs(server, scheduling, delivery)
            return []
        if deliveries:
            self._hooks.received(deliveries, time.monotonic() - began)
        return deliveries

    def _put_jobs(self, server: Server, scheduling: Scheduling, delivery: Delivery) -> None:
        """Puts the jobs of a schedule that is due."""
        try:
            flow = scheduling.serve(delivery)
            reason = server.follow(flow, None, self._stopping.is_set, self._hooks.interrupted)
        except Exception as error:
            if passes(error):
                raise
            # It comes again when its lease expires.
            self._hooks.crashed(error)
            return
        if reason is not None:
            self._hooks.refused(scheduling.queue, id_text(delivery.id), reason)

    def _serve(self, delivery: Delivery) -> None:
        # That of this run: the work may end in the next one.
        free = self._free
        try:
            self._do(delivery)
        except Exception as error:
            # It was neither settled nor given back, so it is delivered again when its lease expires.
            self._hooks.crashed(error)
        finally:
            free.release()

    def _cut_off(self) -> None:
        """Gives back the jobs whose work still runs."""
        silent: set[str] = set()
        for delivery, job in self._held.lose_all():
            verbs = self._verbs[delivery.key]
            try:
                if delivery.key not in silent:
                    last = self._terms_of(delivery, patience=0).is_last(delivery)
                    question = verbs.bury(delivery, CUT_OFF) if last else verbs.release(0, delivery.token, delivery.id)
                    self._ask(question, patience=0)
            except Exception as error:
                # It is delivered again when its lease expires.
                self._hooks.crashed(error)
                if passes(error):
                    silent.add(delivery.key)
            self._hooks.lost(job)

    def _do(self, delivery: Delivery) -> None:
        verbs = self._verbs[delivery.key]
        if self._stopping.is_set():
            # The POLL was blocked in the server when the stop was requested. Other workers can do this job.
            self._ask(verbs.release(0, delivery.token, delivery.id, counted=False))
            return
        try:
            job = Job.of(delivery, verbs.codec.decode, verbs.queue)
        except Exception as error:
            self._bury(verbs, delivery, f"it cannot be decoded: {reason_of(error)}")
            return
        self._held.add(delivery, job)
        began = time.monotonic()
        failure: BaseException | None = None
        try:
            self._hooks.started(job)
            with self._hooks.working(job):
                self._work(job)
        except BaseException as error:
            failure = error
        finally:
            self._held.remove(delivery)
        seconds = time.monotonic() - began
        if job.lost.is_set():
            return
        if failure is None:
            # A 0 can mean that a first SETTLE worked, but its reply was lost.
            with self._hooks.settling(job, "settle"):
                self._ask(verbs.settle(delivery.token, delivery.id), server=self._sure)
            self._hooks.succeeded(job, seconds)
            return
        changed = delivery.with_headers(job.headers)
        match verdict(failure, delivery, self._terms_of(delivery)):
            case Again(delay):
                again = verbs.release(delay, delivery.token, delivery.id)
                with self._hooks.settling(job, "release"):
                    self._ask(again if changed is delivery else verbs.retry(delay, changed))
                self._hooks.retried(job, seconds, failure, delay)
            case Dead(reason):
                with self._hooks.settling(job, "bury"):
                    self._bury(verbs, changed, reason)

    def _terms_of(self, delivery: Delivery, patience: float | None = None) -> Terms:
        """Returns the terms of a job. Without `attempts`, the queue has its own policy, or none."""
        if self._terms.attempts is None:
            return self._terms
        verbs = self._verbs[delivery.key]
        return self._terms.of_job(self._ask(verbs.own_attempts(delivery.id), patience))

    def _bury(self, verbs: Verbs, delivery: Delivery, reason: str) -> None:
        if self._terms.attempts is not None:
            self._ask(verbs.bury(delivery, reason))
        else:
            # This worker does not configure dead letters: the policy of the queue does, if any.
            try:
                self._ask(verbs.reject(delivery.token, delivery.id))
            except ResponseError as error:
                delay = self._terms.backoff.most
                self._ask(verbs.release(delay, delivery.token, delivery.id))
                reason = f"{reason}; it waits for {delay:.0f} s, for it could not go to the dead letters: {error}"
        self._hooks.buried(delivery, reason)

    def _ask(self, question: Question[Any], patience: float | None = None, server: Server | None = None) -> Any:
        """Retries for the duration of a lease, by default: after that, the reply is useless."""
        if patience is None:
            patience = max(self._terms.lease_ms / 1000, 10.0)
        return (server or self._leases).ask(question, patience, tell=self._hooks.interrupted)

    def _renew(self) -> None:
        """Renews the current jobs, three times per lease, until the worker has ended."""
        renewing: dict[str, threading.Thread] = {}
        while not self._ended.wait(self._terms.renewal):
            for name, held in self._held.by_queue().items():
                if not self._is_wide:
                    self._renew_of(name, held)
                elif name not in renewing or not renewing[name].is_alive():
                    # The nodes of the other keys may reply when this one does not.
                    renewing[name] = threading.Thread(target=self._renew_of, args=(name, held), daemon=True)
                    renewing[name].start()

    def _renew_of(self, name: str, held: list[tuple[str, bytes]]) -> None:
        ended = self._ended
        try:
            # As long as the leases still run.
            renewed = self._leases.ask(
                self._verbs[name].renew(self._terms.lease_ms, held),
                2 * self._terms.renewal,
                ended.is_set,
                self._hooks.interrupted,
            )
        except Exception as error:
            if not ended.is_set():
                self._hooks.crashed(error)
            return
        for (token, id), still in zip(held, renewed, strict=True):
            if not still and (job := self._held.lose(name, token, id)) is not None:
                self._hooks.lost(job)
