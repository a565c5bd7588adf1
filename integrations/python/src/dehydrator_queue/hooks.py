"""The events of a worker: written to the log, and passed to overridden methods."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from dehydrator_queue.job import Delivery, Job

log = logging.getLogger("dehydrator_queue")


class Hooks:
    """Writes to the logger `dehydrator_queue`. Override what you need, and call what you override."""

    def started(self, job: Job) -> None:
        log.debug("%s: %s begins, attempt %d", job.queue, job.id, job.attempt)

    def succeeded(self, job: Job, seconds: float) -> None:
        log.info("%s: %s is done in %.3f s", job.queue, job.id, seconds)

    def retried(self, job: Job, seconds: float, error: BaseException, delay: float) -> None:
        log.warning("%s: %s failed, attempt %d, again in %.1f s: %r", job.queue, job.id, job.attempt, delay, error)

    def buried(self, delivery: Delivery, reason: str) -> None:
        """Called for jobs that became dead letters here, but not for those that the server moved itself."""
        log.error("%s: %r is a dead letter: %s", delivery.key, delivery.id, reason)

    def lost(self, job: Job) -> None:
        """Called for a job that was cancelled, that another worker has by now, or that a stop interrupted."""
        log.warning("%s: %s was lost: cancelled, its lease ran out, or the worker stopped", job.queue, job.id)

    def interrupted(self, error: Exception) -> None:
        """Called each time before a command is resent."""
        log.warning("the server does not answer, asking again: %r", error)

    def crashed(self, error: BaseException) -> None:
        """Called for errors outside of the work: by a hook, or by the server."""
        log.error("while a job was ended: %r", error, exc_info=error)


class Guarded(Hooks):
    """Calls hooks. If one raises an error, `crashed` is called, or the log is written, and the worker continues."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def started(self, job: Job) -> None:
        self._call(self._hooks.started, job)

    def succeeded(self, job: Job, seconds: float) -> None:
        self._call(self._hooks.succeeded, job, seconds)

    def retried(self, job: Job, seconds: float, error: BaseException, delay: float) -> None:
        self._call(self._hooks.retried, job, seconds, error, delay)

    def buried(self, delivery: Delivery, reason: str) -> None:
        self._call(self._hooks.buried, delivery, reason)

    def lost(self, job: Job) -> None:
        self._call(self._hooks.lost, job)

    def interrupted(self, error: Exception) -> None:
        self._call(self._hooks.interrupted, error)

    def crashed(self, error: BaseException) -> None:
        try:
            self._hooks.crashed(error)
        except Exception as another:
            super().crashed(error)
            super().crashed(another)

    def _call(self, hook: Callable[..., None], *told: Any) -> None:
        try:
            hook(*told)
        except Exception as error:
            self.crashed(error)
