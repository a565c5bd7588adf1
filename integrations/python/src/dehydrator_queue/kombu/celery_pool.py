"""Which messages a worker of Celery has begun, when its channel ends, and which its pool goes on with.

Celery forgets at that moment what has not begun, as the broker will deliver it again. But a pool of threads runs what
it was given, and so does a process that has not yet told that it has begun. Celery has no public API for this.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any


def register(sender: Any, **_: Any) -> None:
    """Makes the pool of a worker that is ready keep what its processes were sent."""
    pool: Any = getattr(sender, "pool", None)
    processes, flush = getattr(pool, "_pool", None), getattr(pool, "flush", None)
    if flush is not None and hasattr(processes, "_put_back"):
        pool.flush = _keeping(processes, flush)


def _keeping(processes: Any, flush: Callable[[], None]) -> Callable[[], None]:
    def flush_and_keep() -> None:
        kept = [job for job in processes._cache.values() if job._accepted or _is_sent(job)]
        untold = [job for job in kept if not job._accepted]
        for job in untold:
            # It is forgotten otherwise.
            job._accepted = True
        try:
            flush()
        finally:
            for job in untold:
                job._accepted = False
            for job in kept:
                # Older versions of Celery forget all.
                if not job.ready():
                    processes._cache.setdefault(job._job, job)
                    if not job._accepted and not _is_sent(job):
                        processes._put_back(job)

    return flush_and_keep


def tags_in_pool(state: Any) -> Iterator[str]:
    """Yields the tags of messages whose work goes on without a connection. `state`: Celery's."""
    active = _copy(state.active_requests)
    for request in active | _copy(state.reserved_requests):
        if not _is_cancelled(request) if request in active else _is_handed(request):
            yield request.message.delivery_tag


def _is_cancelled(request: Any) -> bool:
    """Returns whether Celery ends the work of a task when the connection is lost."""
    return bool(request.app.conf.worker_cancel_long_running_tasks_on_connection_loss)


def _copy(requests: Iterable[Any]) -> set[Any]:
    while True:
        # The threads of a pool add to them.
        with suppress(RuntimeError):
            return set(requests)


def _is_handed(request: Any) -> bool:
    if request._apply_result is None:
        return False
    job = request._apply_result()
    # A pool of threads takes nothing back, and does not tell.
    return not hasattr(job, "_write_to") or job._accepted or _is_sent(job)


def _is_sent(job: Any) -> bool:
    return job._write_to is not None and job._write_to._is_alive()


def begun_of(tags: Iterable[str]) -> set[str]:
    """Returns those of these delivery tags whose work may have begun: all of them, where Celery does not tell.

    Celery closes its channel when its pool has ended all work, at a warm shutdown.
    """
    state = sys.modules.get("celery.worker.state")
    if state is None or _is_set(state.should_terminate):
        return set(tags)
    if not _is_set(state.should_stop) and not state.all_total_count[0]:
        # It is no worker.
        return set(tags)
    return _active(state).intersection(tags)


def kept_of(tags: Iterable[str]) -> set[str]:
    """Returns those of these delivery tags whose work goes on: those that the pool has, if Celery does not stop."""
    state = sys.modules.get("celery.worker.state")
    return set() if state is None or is_stopping() else set(tags).intersection(tags_in_pool(state))


def is_stopping() -> bool:
    """Returns whether a worker of Celery in this process stops."""
    state = sys.modules.get("celery.worker.state")
    return state is not None and (_is_set(state.should_stop) or _is_set(state.should_terminate))


def _active(state: Any) -> set[str]:
    return {request.message.delivery_tag for request in state.active_requests}


def _is_set(flag: int | bool | None) -> bool:
    """Returns whether a shutdown was requested: the flag is its exit code, which may be 0."""
    return flag is not None and flag is not False
