"""The occurrences of schedules that become jobs of a framework.

The server stores them in a key of their own. A worker takes each, puts the job under an id made of the occurrence's,
and settles it. If it is killed in between, the next one puts the job again, under that id.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

from dehydrator_queue.errors import reason_of
from dehydrator_queue.job import Delivery, id_text
from dehydrator_queue.queue.commands import Question, new_token, poll, reason_words
from dehydrator_queue.queue.scheduling import Declared, declare, is_empty, plan_words
from dehydrator_queue.queue.server import Server
from dehydrator_queue.steps import Steps, run

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


def occurring(
    server: Any,
    keys: Sequence[str],
    put: Callable[[Delivery], Any],
    declared: Callable[[str], Sequence[Declared]] | None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Steps[None]:
    """Takes the occurrences of some keys, and puts their jobs. `declared`: as of Occurrences."""
    look_at = time.monotonic() + LOOK
    while not is_stopping():
        try:
            if time.monotonic() >= look_at:
                for key in keys if declared is not None else ():
                    if (yield from server.asking(is_empty(key))):
                        yield from server.following(declare(key, declared(key)))  # type: ignore[misc]
                look_at = time.monotonic() + LOOK
            question = poll(keys, MOST, LEASE, new_token(), BLOCK)
            for delivery in (yield from server.asking(question, inf, is_stopping, _interrupted)):
                try:
                    yield partial(put, delivery)
                except Exception as error:
                    yield from server.asking(put_off(delivery, error))
                else:
                    yield from server.asking(settle(delivery))
        except Exception as error:
            if not is_stopping():
                log.error("occurrences cannot be taken, again in 1 s: %s", reason_of(error))
                yield partial(server._sleep, AGAIN / 1000)


def _interrupted(error: Exception) -> None:
    log.warning("the server does not answer, asking again: %r", error)


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
        self._server, self._keys, self._declared = server, keys, declared
        self._stopping = threading.Event()
        steps = occurring(server, keys, put, declared, self._stopping.is_set)
        self._thread = threading.Thread(target=run, args=[steps], name="dehydrator-schedules", daemon=True)

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
