"""The ETA of a task, from the headers of its message."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Any


def _moment(message: dict[str, Any]) -> datetime | None:
    """Returns the ETA, if there is one and it names its time zone."""
    eta = (message.get("headers") or {}).get("eta")
    if isinstance(eta, str):
        try:
            # Python 3.10 does not support the Z.
            eta = datetime.fromisoformat(eta.replace("Z", "+00:00"))
        except ValueError:
            return None
    return eta if isinstance(eta, datetime) and eta.tzinfo is not None else None


def delay_ms(message: dict[str, Any]) -> int:
    """Returns the delay of a message from now.

    It uses the client's clock, which also made the ETA of a countdown. So a countdown is right whatever that clock
    shows.
    """
    eta = _moment(message)
    if eta is None:
        return 0
    return max(0, math.ceil((eta - datetime.now(timezone.utc)).total_seconds() * 1000))


def forget_future(message: dict[str, Any]) -> None:
    """Removes the ETA of a message that is due by the server's clock, if the worker's clock is behind.

    Otherwise the worker would keep it in memory until it is due by its own clock.
    """
    if delay_ms(message) > 0:
        message["headers"]["eta"] = None
