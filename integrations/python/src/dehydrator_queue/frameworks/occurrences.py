"""The occurrences of schedules that become jobs of a framework.

The server stores them in a key of their own. A worker takes each, puts the job under an id made of the occurrence's,
and settles it. If it is killed in between, the next one puts the job again, under that id.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from dehydrator_queue.errors import reason_of
from dehydrator_queue.job import Delivery, id_text
from dehydrator_queue.queue.commands import Question, new_token, poll, reason_words
from dehydrator_queue.queue.scheduling import Declared, declare, is_empty, plan_words
from dehydrator_queue.queue.server import Server

log = logging.getLogger("dehydrator_queue")

#: Milliseconds after which another worker gets an occurrence, if one is killed while it has it.
LEASE = 10_000

#: Milliseconds for which it blocks in the server, and so how long a stop can take.
BLOCK = 1_000

#: How many occurrences it takes at a time.
MOST = 10

#: Milliseconds after which an occurrence is tried again whose job could not be put.
AGAIN = 1_000

#: Seconds between two looks whether the server has lost the schedules, as in a flush.
LOOK = 10.0

#: Milliseconds after which an occurrence with `missed="none"` is too late.
LATEST = 60_000


def plan_of_framework(*, missed: str = "one", **plan: Any) -> tuple[Any, ...]:
    """Returns the words of EVERY. What `missed` means holds without workers, too, who take the occurrences."""
    words = plan_words(missed=missed, **plan)
    return {"one": (*words, "OVERLAP", "SKIP"), "all": words, "none": (*words, "WITHIN", LATEST)}[missed]


def settle(delivery: Delivery) -> Question[Any]:
    return Question(("DEHYDRATOR.SETTLE", delivery.key, delivery.token, delivery.id), list)


def put_off(delivery: Delivery, error: Exception) -> Question[Any]:
    """Gives an occurrence back whose job could not be put, for a second."""
    reason = reason_of(error)
    log.error("%s: %s is tried again in 1 s: %s", delivery.key, id_text(delivery.id), reason)
    words = ("DEHYDRATOR.RELEASE", delivery.key, AGAIN, delivery.token, delivery.id, "UNCOUNTED")
    return Question((*words, *reason_words(reason)), list)


class Occurrences:
    """Takes the occurrences of some keys, and puts their jobs, in a thread of its own."""

    def __init__(
        self,
        server: Server,
        put: Callable[[Delivery], Any],
        keys: Sequence[str],
        declared: Callable[[str], Sequence[Declared]] | None = None,
    ) -> None:
        """`declared`: returns the schedules of a key that settings declare."""
        self._server, self._put, self._keys, self._declared = server, put, keys, declared
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dehydrator-schedules", daemon=True)

    def start(self) -> None:
        """Stores what is declared, and begins."""
        for key in self._keys if self._declared is not None else ():
            for name, refusal in self._server.follow(declare(key, self._declared(key))):  # type: ignore[misc]
                log.error("%s: the server refuses the schedule %s: %s", key, id_text(name), refusal)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        look_at = time.monotonic() + LOOK
        while not self._stopping.is_set():
            try:
                if time.monotonic() >= look_at:
                    self._declare_again()
                    look_at = time.monotonic() + LOOK
                question = poll(self._keys, MOST, LEASE, new_token(), BLOCK)
                for delivery in self._server.ask(question, inf, self._stopping.is_set, self._interrupted):
                    self._serve(delivery)
            except Exception as error:
                if not self._stopping.is_set():
                    log.error("occurrences cannot be taken, again in 1 s: %s", reason_of(error))
                    self._stopping.wait(AGAIN / 1000)

    def _declare_again(self) -> None:
        for key in self._keys if self._declared is not None else ():
            if self._server.ask(is_empty(key)):
                self._server.follow(declare(key, self._declared(key)))  # type: ignore[misc]

    def _serve(self, delivery: Delivery) -> None:
        try:
            self._put(delivery)
        except Exception as error:
            self._server.ask(put_off(delivery, error))
        else:
            self._server.ask(settle(delivery))

    def _interrupted(self, error: Exception) -> None:
        log.warning("the server does not answer, asking again: %r", error)
