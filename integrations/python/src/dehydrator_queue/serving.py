"""A thread that serves schedules, beside the workers of a framework, which take their jobs in its own way."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from dehydrator_queue.deploys import PRESENCE
from dehydrator_queue.job import Delivery
from dehydrator_queue.library import passes
from dehydrator_queue.occurrences import require_cron
from dehydrator_queue.server import Server
from dehydrator_queue.verbs import Question, new_token, poll

log = logging.getLogger("dehydrator_queue")

#: Milliseconds after which another worker gets a schedule, if one is killed while it has it.
LEASE = 5_000

#: Milliseconds for which it blocks in the server, and so how long a stop can take.
BLOCK = 1_000

#: How many schedules it takes at a time.
MOST = 10

#: Milliseconds after which a schedule is tried again that could not be served.
AGAIN = 1_000


class Serving:
    """Takes schedules that are due from keys, and serves them, in a thread of its own."""

    def __init__(
        self,
        server: Server,
        keys: Sequence[str],
        serve: Callable[[Delivery], str | None],
        report: Callable[[], Any] = lambda: None,
    ) -> None:
        """`serve`: puts the jobs of a schedule, and returns the reason of a refusal. `report`: is called first, and
        now and then again.
        """
        require_cron()
        self._server = server
        self._keys = keys
        self._serve = serve
        self._report = report
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dehydrator-schedules", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        report_at = 0.0
        while not self._stopping.is_set():
            question = poll(self._keys, MOST, LEASE, new_token(), BLOCK)
            try:
                if time.monotonic() >= report_at:
                    self._report()
                    report_at = time.monotonic() + PRESENCE
                for delivery in self._server.ask(question, inf, self._stopping.is_set, self._interrupted):
                    self._serve_one(delivery)
            except Exception as error:
                if not (self._stopping.is_set() and passes(error)):
                    log.error("schedules cannot be served, again in 1 s: %r", error)
                    self._stopping.wait(AGAIN / 1000)

    def _serve_one(self, delivery: Delivery) -> None:
        try:
            reason = self._serve(delivery)
        except Exception as error:
            reason = repr(error)
        if reason is not None:
            log.error("%s: %r is tried again: %s", delivery.key, delivery.id, reason)
            release = ("DEHYDRATOR.RELEASE", delivery.key, AGAIN, delivery.token, delivery.id, "UNCOUNTED")
            self._server.ask(Question(release, lambda reply: None))

    def _interrupted(self, error: Exception) -> None:
        log.warning("the server does not answer, asking again: %r", error)
