"""A worker of threads."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from typing import Any

from dehydrator_queue.job import CANCELLED, NO_LEASE, Delivery, Job
from dehydrator_queue.options import flag
from dehydrator_queue.queue.library import passes
from dehydrator_queue.queue.queue import Queue
from dehydrator_queue.queue.server import Server
from dehydrator_queue.steps import run
from dehydrator_queue.wide.confirming import Confirming
from dehydrator_queue.wide.permits import Permits
from dehydrator_queue.wide.pollers import Pollers
from dehydrator_queue.worker.base import MOST_AT_ONCE, Working, log, too_long
from dehydrator_queue.worker.cancellations import Cancellations
from dehydrator_queue.worker.threads import Threads


class Worker(Working[Queue[Any]]):
    """Takes due jobs, and calls `work` with each Job, in `concurrency` threads.

    If `work` returns, the job is settled. If it raises an error, the job is delivered again, after a back-off, until it
    was delivered `attempts` times; then it becomes a dead letter, with the reason. While it runs, its lease is renewed.
    If the worker dies, another worker gets the job when the lease expires.
    """

    _kind = Queue

    def _prepare(self) -> None:
        self._one = threading.Lock()
        self._free: threading.Semaphore | Permits = threading.Semaphore(self._settings.concurrency)

    def run(self, *, signals: bool = True) -> None:
        """Works until `stop`, or SIGTERM or SIGINT. Raises permanent errors.

        The second signal interrupts the work, and the third ends the process. An earlier `stop` ends it at once. After
        it has returned, it can be called again.
        """
        flag("signals", signals)
        if not self._one.acquire(blocking=False):
            raise RuntimeError("the worker is running")
        before = {}
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, self._signalled)
        try:
            self._run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._reset()
            self._one.release()

    def _run(self) -> None:
        self._pid = os.getpid()
        server, block_ms = self._open(Server, Confirming)
        run(self._beginning(server))
        self._ended, self._wake = threading.Event(), threading.Event()
        watching = threading.Thread(target=self._watch, name="dehydrator-renewal", daemon=True)
        watching.start()
        told = Cancellations(self._leases.client, lambda: list(self._commands), self._renew_of)
        self._threads = threads = Threads(self._settings.concurrency, self._serve)
        log.info("%s: a worker begins, %d at a time", ", ".join(self._queues), self._settings.concurrency)
        try:
            if self._is_wide:
                self._take_from_keys(server, block_ms, threads)
            while not self._is_stopping:
                self._take(server, block_ms, threads)
        except Exception as error:
            if not (self._is_stopping and passes(error)):
                raise
        finally:
            self.stop()
            if not threads.end(lambda: time.monotonic() >= self._stop_by):
                run(self._cutting_off())
            self._ended.set()
            self._wake.set()
            told.stop()
            watching.join()
            for own in self._opened(server):
                own.close()
            log.info("%s: the worker has ended", ", ".join(self._queues))

    def _take_from_keys(self, server: Server, block_ms: int, threads: Threads) -> None:
        """Takes jobs from all keys of the queues, until the worker stops."""
        pollers = self._pollers(Pollers, server, block_ms, threads.submit)
        self._free = pollers.permits
        pollers.run()

    def _take(self, server: Server, block_ms: int, threads: Threads) -> None:
        """Waits for a free thread, and for up to as many jobs as there are free threads."""
        assert isinstance(self._free, threading.Semaphore)
        if not self._free.acquire(timeout=0.2):
            return
        room = 1
        while room < MOST_AT_ONCE and self._free.acquire(blocking=False):
            room += 1
        used = 0
        try:
            for delivery in run(self._polling(server, room, block_ms)):
                threads.submit(delivery)
                used += 1
        finally:
            if room > used:
                self._free.release(room - used)

    def _serve(self, delivery: Delivery) -> bool:
        """Does a job; returns whether its place is still its own."""
        # That of this run: the work may end in the next one.
        free = self._free
        is_own = True
        try:
            is_own = run(self._doing(delivery))
        except Exception as error:
            # It was neither settled nor given back, so it is delivered again when its lease expires.
            self._hooks.crashed(error)
        if is_own:
            free.release()
        return is_own

    def _work_on(self, delivery: Delivery, job: Job, seconds: float) -> None:
        if seconds < math.inf:
            self._running.bound(delivery, seconds)
            self._wake.set()
        try:
            self._work(job)
        except BaseException as error:
            self._leave_child(error)
            raise
        self._leave_child(None)

    def _take_too_long(self, delivery: Delivery, job: Job) -> None:
        """Ends an attempt whose work goes on, in a thread that is left to it: another one takes its place."""
        seconds = self._settings.time_of(job)
        try:
            run(self._ending(delivery, job, too_long(seconds), seconds))
        except Exception as error:
            self._hooks.crashed(error)
        self._free.release()

    def _watch(self) -> None:
        """Renews the current jobs, three times per lease, and ends those that take too long, until the worker ends."""
        renewing: dict[str, threading.Thread] = {}
        renew_at = time.monotonic() + self._settings.renewal
        keep = self._settings.keep_place
        while not self._ended.is_set():
            now = time.monotonic()
            self._wake.wait(max(0.0, min(renew_at, self._running.ends(), self._limit_at) - now))
            self._wake.clear()
            for delivery, job in self._running.lose_some(by=time.monotonic(), keep=keep):
                if keep:
                    self._tell_late(job)
                    continue
                self._threads.leave(delivery)
                self._threads.add()
                threading.Thread(target=self._take_too_long, args=(delivery, job), daemon=True).start()
            run(self._limiting_again())
            if time.monotonic() < renew_at:
                continue
            renew_at = time.monotonic() + self._settings.renewal
            for name, held in self._running.by_key().items():
                if not self._is_wide:
                    self._renew(name, held)
                elif name not in renewing or not renewing[name].is_alive():
                    # The nodes of the other keys may reply when this one does not.
                    renewing[name] = threading.Thread(target=self._renew, args=(name, held), daemon=True)
                    renewing[name].start()

    def _renew_of(self, name: str, id: bytes) -> None:
        """Renews a job that may have been cancelled, if it is there."""
        if held := self._running.of(name, [id]):
            self._renew(name, held, CANCELLED)

    def _renew(self, name: str, held: list[tuple[str, bytes]], why: str = NO_LEASE) -> None:
        run(self._renewing(name, held, self._ended.is_set, why))
