"""The events of a worker: written to the log, and passed to overridden methods."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any

from dehydrator_queue.errors import Reject, Retry, TookTooLong, reason_of
from dehydrator_queue.job import CANCELLED, Delivery, Job, id_text

log = logging.getLogger("dehydrator_queue")


def _traceback(error: BaseException | None) -> Any:
    """Returns what is logged of an error, from the work on. What that asked for, and a time that is over, have none."""
    if error is None or isinstance(error, (Reject, Retry, TookTooLong)):
        return None
    place = error.__traceback__
    while place is not None and str(place.tb_frame.f_globals.get("__name__")).startswith("dehydrator_queue."):
        place = place.tb_next
    return type(error), error, place or error.__traceback__


NO_HEADERS: Mapping[str, str] = {}


class Hooks:
    """Writes to the logger `dehydrator_queue`. Override what you need, and call what you override."""

    def sending(self, queue: str, ids: Sequence[str | bytes | None]) -> AbstractContextManager[Mapping[str, str]]:
        """Surrounds a put, of several payloads if there are several ids; yields the headers of the jobs."""
        return nullcontext(NO_HEADERS)

    def received(self, deliveries: Sequence[Delivery], seconds: float) -> None:
        """Called with the jobs that a POLL of this duration replied."""

    def working(self, job: Job) -> AbstractContextManager[object]:
        """Surrounds the work, whose errors pass through it. It may change the headers of the job."""
        return nullcontext()

    def settling(self, job: Job, how: str) -> AbstractContextManager[object]:
        """Surrounds the command that ends an attempt: `settle`, `release`, or `bury` for a dead letter."""
        return nullcontext()

    def started(self, job: Job) -> None:
        log.debug("%s: %s begins, attempt %d", job.queue, job.id, job.attempt)

    def succeeded(self, job: Job, seconds: float) -> None:
        log.debug("%s: %s is done in %.3f s", job.queue, job.id, seconds)

    def retried(self, job: Job, seconds: float, error: BaseException, delay: float) -> None:
        told = (job.queue, job.id, job.attempt, delay, reason_of(error))
        log.warning("%s: %s failed, attempt %d, again in %.1f s: %s", *told, exc_info=_traceback(error))

    def buried(self, delivery: Delivery, reason: str, error: BaseException | None = None) -> None:
        """Called for jobs that became dead letters here, but not for those that the server moved itself."""
        log.error("%s: %s is a dead letter: %s", delivery.key, id_text(delivery.id), reason, exc_info=_traceback(error))

    def lost(self, job: Job) -> None:
        """Called for a job that was cancelled, whose lease is over, or that a stop interrupted: `job.lost` says it."""
        level = logging.INFO if job.lost.reason == CANCELLED else logging.WARNING
        log.log(level, "%s: %s was lost: %s", job.queue, job.id, job.lost.reason)

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
        told: Any = self
        for name in ("received", "started", "succeeded", "retried", "buried", "lost", "interrupted"):
            setattr(told, name, partial(self._call, getattr(hooks, name)))
        for name, otherwise in (("sending", NO_HEADERS), ("working", None), ("settling", None)):
            setattr(told, name, partial(self._around, name, otherwise))

    def crashed(self, error: BaseException) -> None:
        try:
            self._hooks.crashed(error)
        except Exception as another:
            super().crashed(error)
            super().crashed(another)

    def _around(self, name: str, otherwise: Any, *told: Any) -> AbstractContextManager[Any]:
        hook = getattr(self._hooks, name)
        if getattr(hook, "__func__", None) is getattr(Hooks, name):
            around: AbstractContextManager[Any] = hook(*told)
            return around
        return _Surrounding(self, hook, otherwise, told)

    def _call(self, hook: Callable[..., None], *told: Any) -> None:
        try:
            hook(*told)
        except Exception as error:
            self.crashed(error)


class _Surrounding(AbstractContextManager[Any]):
    """Surrounds something with a hook, whose own errors are passed to `crashed`. Faster than a generator."""

    __slots__ = ("_around", "_guarded", "_hook", "_otherwise", "_told")

    def __init__(
        self, guarded: Guarded, hook: Callable[..., AbstractContextManager[Any]], otherwise: Any, told: tuple[Any, ...]
    ) -> None:
        self._guarded = guarded
        self._hook = hook
        self._otherwise = otherwise
        self._told = told
        self._around: AbstractContextManager[Any] | None = None

    def __enter__(self) -> Any:
        try:
            around = self._hook(*self._told)
            value = around.__enter__()
        except Exception as error:
            self._guarded.crashed(error)
            return self._otherwise
        self._around = around
        return value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._around is None:
            return
        try:
            self._around.__exit__(kind, error, traceback)
        except BaseException as another:
            if another is not error:
                self._guarded.crashed(another)
