"""The shutdown of a worker of Celery: which messages it has begun."""

from __future__ import annotations

import sys
from collections.abc import Iterable


def begun_of(tags: Iterable[str]) -> set[str]:
    """Returns those of these delivery tags whose work may have begun: all of them, except at a warm shutdown.

    Celery closes its channel when its pool has ended all work then.
    """
    state = sys.modules.get("celery.worker.state")
    if state is None or not _is_set(state.should_stop) or _is_set(state.should_terminate):
        return set(tags)
    active = {request.message.delivery_tag for request in state.active_requests}
    return active.intersection(tags)


def _is_set(flag: int | bool | None) -> bool:
    """Returns whether a shutdown was requested: the flag is its exit code, which may be 0."""
    return flag is not None and flag is not False
