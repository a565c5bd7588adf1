"""`celery inspect scheduled`: what waits is in the server, and not in the worker that is asked."""

from __future__ import annotations

import logging
import sys
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

from dehydrator.verbs import BATCH

log = logging.getLogger("dehydrator.kombu")

#: As Celery's own timer has it for tasks with an ETA.
PRIORITY = 6


def answer_for_the_server() -> None:
    """Has Celery's worker, if this is one, tell of what waits in the server too."""
    control = sys.modules.get("celery.worker.control")
    if control is None or getattr(control.Panel, "asks_the_server", False):
        return
    control.Panel.asks_the_server = True
    native = control.Panel.data["scheduled"]

    def scheduled(state: Any, **kwargs: Any) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = native(state, **kwargs)
        channel = state.consumer.task_consumer.channel
        if hasattr(channel, "leases"):
            for queue in channel.active_queues:
                for key in channel._keys(queue):
                    listed += _waiting(state, channel, key)
        return listed

    control.Panel.data["scheduled"] = control.Panel.data["dump_schedule"] = scheduled


def _waiting(state: Any, channel: Any, key: str) -> list[dict[str, Any]]:
    """Lists the first thousand that are not due."""
    from celery.worker.request import Request

    listed = []
    with channel.conn_or_acquire() as client:
        seconds, microseconds = client.time()
        start = f"({seconds * 1000 + microseconds // 1000}"
        _, rows = client.execute_command("DEHYDRATOR.RANGE", key, start, "+", "COUNT", BATCH, "WITHELEMENTS")
    for id, _, _, _, leased, element in rows:
        if leased:
            continue
        try:
            message = channel.Message(loads(bytes_to_str(element)), channel=channel)
            request = Request(message, app=state.app, hostname=state.hostname)
            eta = request.eta.isoformat() if request.eta else None
            listed.append({"eta": eta, "priority": PRIORITY, "request": request.info()})
        except Exception as error:
            log.warning("%s: %r cannot be listed: %r", key, id, error)
    return listed
