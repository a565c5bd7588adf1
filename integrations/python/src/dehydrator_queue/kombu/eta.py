"""When a task is due, as Celery says it in the headers of its message."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Any


def _moment(message: dict[str, Any]) -> datetime | None:
    """Returns the ETA, if there is one and it names its time zone."""
    eta = (message.get("headers") or {}).get("eta")
    if isinstance(eta, str):
        try:
            # Python 3.10 does not know the Z.
            eta = datetime.fromisoformat(eta.replace("Z", "+00:00"))
        except ValueError:
            return None
    return eta if isinstance(eta, datetime) and eta.tzinfo is not None else None


def delay_ms(message: dict[str, Any]) -> int:
    """Returns how long from now a message waits.

    It is by the clock of the client, which made the ETA of a countdown: so that is right whatever the clock says.
    """
    eta = _moment(message)
    if eta is None:
        return 0
    return max(0, math.ceil((eta - datetime.now(timezone.utc)).total_seconds() * 1000))


def forget_future(message: dict[str, Any]) -> None:
    """Takes the ETA from a message that is due by the server's clock, if the worker's clock is behind.

    The worker would keep it in memory until its own clock says so.
    """
    if delay_ms(message) > 0:
        message["headers"]["eta"] = None
