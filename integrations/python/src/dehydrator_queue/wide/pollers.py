"""What takes jobs from the keys of a worker's queues: a thread, or a task, for each key."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from dehydrator_queue.hooks import Hooks
from dehydrator_queue.job import Delivery
from dehydrator_queue.queue.commands import Commands, new_token, poll
from dehydrator_queue.queue.library import passes
from dehydrator_queue.steps import Steps, run
from dehydrator_queue.wide.permits import Permits
from dehydrator_queue.worker.settings import Settings
from dehydrator_queue.worker.threads import SLICE

#: Seconds between two looks at the directory.
LOOK = 1.0


class Polling:
    """One for each key of all lists, which sleeps in a POLL at the node of its key.

    It has no permit while it sleeps. If it gets a job when no permit is free, it gives the job back, uncounted, and
    does not poll again before it has a permit.
    """

    #: Waits for a number of permits, which is 0 when the worker stops.
    _wait_for_permits: Callable[[int], Any]

    def __init__(
        self,
        queues: Iterable[Any],
        settings: Settings,
        block_ms: int,
        most: int,
        server: Any,
        leases: Any,
        confirming: Any,
        hooks: Hooks,
        is_stopping: Callable[[], bool],
        submit: Callable[[Delivery], None],
        limit: Callable[[Commands], Any] | None = None,
        leaves: Callable[[], bool] = lambda: False,
    ) -> None:
        """`most`: jobs per POLL, at most. `confirming`: where leases are confirmed by replicas, or None. `limit`: what
        sets the policy of a key. `leaves`: whether a stop waits no longer for the nodes that do not reply.
        """
        self._queues = list(queues)
        self._settings, self._block_ms, self._most = settings, block_ms, most
        self._server, self._leases, self._confirming = server, leases, confirming
        self._hooks, self._is_stopping, self._submit = hooks, is_stopping, submit
        self._limit = limit
        self._leaves = leaves
        self.permits = Permits(settings.concurrency)
        #: By key. Those of former keys stay: jobs of theirs may still run.
        self._commands: dict[str, Commands] = {}
        #: How many jobs were given back because no permit was free.
        self.given_back = 0
        self._keys: set[str] = set()
        #: The thread or task of each key.
        self._taking: dict[str, Any] = {}
        self._failure: Exception | None = None
        self._has_ended = False

    def _is_over(self) -> bool:
        return self._has_ended or self._is_stopping() or self._failure is not None

    def _looking(self) -> Steps[dict[str, int]]:
        """Reads the directories; returns the keys that nothing takes from, with the ranks of their queues."""
        ranks = {}
        for rank, queue in enumerate(self._queues):
            flow = queue._server.router.directory.read()
            known = yield from self._server.following(flow, None, self._is_over, self._hooks.interrupted)
            for key in known.keys:
                self._commands.setdefault(key, queue._commands.at(key))
                ranks[key] = rank
        self._keys = set(ranks)
        return {key: rank for key, rank in ranks.items() if key not in self._taking or self._has_left(key)}

    def _has_left(self, key: str) -> bool:
        raise NotImplementedError

    def _taking_from(self, key: str, rank: int) -> Steps[None]:
        try:
            if self._limit is not None:
                limit = self._limit(self._commands[key])
                yield from self._server.following(limit, None, self._is_over, self._hooks.interrupted)
            while key in self._keys and not self._is_over():
                yield from self._taking_some(key, rank)
        except Exception as error:
            if not (self._is_over() and passes(error)):
                self._failure = error

    def _taking_some(self, key: str, rank: int) -> Steps[None]:
        """Takes what is due, as much as there are permits; if that is nothing, sleeps until something is."""
        room = yield partial(self._wait_for_permits, rank)
        used = 0
        try:
            deliveries = (yield from self._polling(key, room, None)) if room else []
            for delivery in (yield from self._confirmed(key, deliveries)):
                self._submit(delivery)
                used += 1
        finally:
            if room > used:
                self.permits.release(room - used)
        if deliveries or not room:
            return
        while key in self._keys and not self._is_over() and not deliveries:
            deliveries = yield from self._polling(key, 1, self._block_ms)
        for delivery in deliveries:
            if self._is_over() or not self.permits.take_one(rank):
                self.given_back += 1
                yield from self._giving_back(key, delivery)
                continue
            mine = yield from self._confirmed(key, [delivery])
            for one in mine:
                self._submit(one)
            if not mine:
                self.permits.release()

    def _polling(self, key: str, count: int, block_ms: int | None) -> Steps[list[Delivery]]:
        question = poll([key], count, self._settings.lease_ms, new_token(), block_ms)
        began = time.monotonic()
        deliveries: list[Delivery]
        deliveries = yield from self._server.asking(question, None, self._is_over, self._hooks.interrupted)
        if deliveries:
            self._hooks.received(deliveries, time.monotonic() - began)
        return deliveries

    def _confirmed(self, key: str, deliveries: list[Delivery]) -> Steps[list[Delivery]]:
        """Waits until replicas have the leases; returns the jobs that are still leased."""
        if self._confirming is None or not deliveries:
            return deliveries
        # A RENEW is a write of its connection, even if the POLL came by another one.
        held = [(delivery.token, delivery.id) for delivery in deliveries]
        renew = self._commands[key].renew(self._settings.lease_ms, held)
        try:
            still = yield from self._confirming.asking(renew, math.inf, self._is_over, self._hooks.interrupted)
        except Exception as error:
            if not (self._is_over() and passes(error)):
                raise
            for delivery in deliveries:
                yield from self._giving_back(key, delivery)
            return []
        return [delivery for delivery, is_mine in zip(deliveries, still, strict=True) if is_mine]

    def _giving_back(self, key: str, delivery: Delivery) -> Steps[None]:
        back = self._commands[key].give_back(delivery.token, delivery.id)
        yield from self._leases.asking(back, self._settings.lease_ms / 1000, tell=self._hooks.interrupted)


class Pollers(Polling):
    """Those of threads."""

    def run(self) -> None:
        """Takes jobs until the worker stops. Raises permanent errors."""
        try:
            while not self._is_over():
                for key, rank in run(self._looking()).items():
                    steps = self._taking_from(key, rank)
                    self._taking[key] = threading.Thread(
                        target=run, args=[steps], name=f"dehydrator-{key}", daemon=True
                    )
                    self._taking[key].start()
                end = time.monotonic() + LOOK
                while not self._is_over() and time.monotonic() < end:
                    time.sleep(SLICE)
        finally:
            self._keys = set()
            for thread in self._taking.values():
                while thread.is_alive() and not self._leaves():
                    thread.join(SLICE)
            # What comes to those that are left behind is given back.
            self._has_ended = True
        if self._failure is not None:
            raise self._failure

    def _has_left(self, key: str) -> bool:
        return not self._taking[key].is_alive()

    def _wait_for_permits(self, rank: int) -> int:
        given: SimpleQueue[int] = SimpleQueue()
        self.permits.ask(rank, self._most, given.put)
        while not self._is_over():
            try:
                return given.get(timeout=0.2)
            except Empty:
                continue
        return 0
