"""The ETA of a task, and when it expires, from its message."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Any


def _moment(message: dict[str, Any], header: str) -> datetime | None:
    """Returns the moment in a header. Without a time zone it is local, as Celery has it."""
    moment = (message.get("headers") or {}).get(header)
    if isinstance(moment, str):
        try:
            # Python 3.10 does not support the Z.
            moment = datetime.fromisoformat(moment.replace("Z", "+00:00"))
        except ValueError:
            return None
    if not isinstance(moment, datetime):
        return None
    return moment if moment.tzinfo is not None else moment.astimezone()


def _from_now(moment: datetime) -> int:
    """Returns the milliseconds until then, by this clock."""
    return math.ceil((moment - datetime.now(timezone.utc)).total_seconds() * 1000)


def delay_ms(message: dict[str, Any]) -> int:
    """Returns the delay of a message from now.

    It uses the client's clock, which also made the ETA of a countdown. So a countdown is right whatever that clock
    shows.
    """
    eta = _moment(message, "eta")
    return 0 if eta is None else max(0, _from_now(eta))


def within_ms(message: dict[str, Any], delay: int) -> int | None:
    """Returns how long after its delay a message expires, if the server may drop it then.

    A worker stores the state REVOKED of an expired task, which ends a wait for its result, or for its group. So the
    server drops only what nobody waits for: tasks whose result is ignored, and messages that are no tasks.
    """
    headers, properties = message.get("headers") or {}, message["properties"]
    if headers.get("task") is None:
        # Tasks in protocol 1 have a correlation id too.
        expiration = "" if properties.get("correlation_id") else str(properties.get("expiration") or "")
        return (int(expiration) or None) if expiration.isdecimal() else None
    expires = _moment(message, "expires")
    if expires is None or not headers.get("ignore_result") or headers.get("group") is not None:
        return None
    within = _from_now(expires) - delay
    # Celery itself revokes a task that expires before it is due.
    return within if within > 0 else None


def forget_future(message: dict[str, Any]) -> None:
    """Removes the ETA of a message that is due by the server's clock, if the worker's clock is behind.

    Otherwise the worker would keep it in memory until it is due by its own clock.
    """
    if delay_ms(message) > 0:
        message["headers"]["eta"] = None
