"""Which messages a worker of Celery has begun, when its channel ends."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from dehydrator_queue.kombu.celery_pool import tags_in_pool


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
