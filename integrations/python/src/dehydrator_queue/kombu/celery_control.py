"""Celery's remote-control commands `revoke`, `scheduled` and `query_task`, extended to tasks that wait in the server.

They are registered like custom commands, as Celery's guide describes, under Celery's names, and call Celery's.
"""

from __future__ import annotations

import logging
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

from dehydrator_queue.frameworks.ids import names_of_task
from dehydrator_queue.kombu import celery_pool
from dehydrator_queue.queue.commands import BATCH, pairs
from dehydrator_queue.queue.library import node_of

log = logging.getLogger("dehydrator_queue.kombu")

#: Like Celery's own timer for tasks with an ETA.
PRIORITY = 6


def register(**_: Any) -> None:
    """Registers the commands in a worker that is ready."""
    from celery.worker import control

    @control.control_command(name="revoke", variadic="task_id", signature="[id1 [id2 [... [idN]]]]")
    def revoke(state: Any, task_id: Any, *args: Any, **kwargs: Any) -> Any:
        """Revoke task by task id (or list of ids), including tasks that wait in the server."""
        reply = control.revoke(state, task_id, *args, **kwargs)
        if (channel := _channel(state)) is not None:
            channel.revoked.extend([task_id] if isinstance(task_id, str) else task_id or [])
        return reply

    @control.inspect_command(name="scheduled", alias="dump_schedule")
    def scheduled(state: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """List of currently scheduled ETA/countdown tasks, in this worker and in the server."""
        listed: list[dict[str, Any]] = control.scheduled(state, **kwargs)
        if (channel := _channel(state)) is not None:
            for queue in channel.active_queues:
                for key in channel._keys(queue):
                    listed += _waiting(state, channel, key)
        return listed

    @control.inspect_command(name="query_task", variadic="ids", signature="[id1 [id2 [... [idN]]]]")
    def query_task(state: Any, ids: Any, **kwargs: Any) -> dict[str, Any]:
        """Query for task information by id, including tasks that wait in the server."""
        found: dict[str, Any] = control.query_task(state, ids, **kwargs)
        if (channel := _channel(state)) is not None:
            keys = [key for queue in channel.active_queues for key in channel._keys(queue)]
            for id in [ids] if isinstance(ids, str) else ids or []:
                waiting = None if id in found else _find(state, channel, keys, id)
                if waiting is not None:
                    found[id] = ("scheduled", waiting.info())
        return found


def _channel(state: Any) -> Any:
    """Returns the channel from which a worker gets its tasks, if it is one of ours."""
    channel = getattr(state.consumer.task_consumer, "channel", None)
    return channel if hasattr(channel, "leases") else None


def _waiting(state: Any, channel: Any, key: str) -> list[dict[str, Any]]:
    """Lists the first thousand that are not due."""
    listed = []
    with channel.conn_or_acquire() as client:
        start = f"({_now(client, key)}"
        _, rows = client.execute_command("DEHYDRATOR.RANGE", key, start, "+", "COUNT", BATCH, "WITHELEMENTS")
    for id, _, _, _, leased, element in rows:
        if leased:
            continue
        try:
            request = _request(state, channel, element)
            eta = request.eta.isoformat() if request.eta else None
            listed.append({"eta": eta, "priority": PRIORITY, "request": request.info()})
        except Exception as error:
            log.warning("%s: %r cannot be listed: %r", key, id, error)
    return listed


def _find(state: Any, channel: Any, keys: list[str], task_id: str) -> Any:
    """Returns the request of a task that is not due."""
    with channel.conn_or_acquire() as client:
        for key in keys:
            now = _now(client, key)
            for name in names_of_task(task_id):
                reply = client.execute_command("DEHYDRATOR.LOOK", key, name, "FULL")
                told = pairs(reply or [])
                if reply and not told["leased"] and told["deadline"] > now:
                    return _request(state, channel, told["element"])
    return None


def _now(client: Any, key: str) -> int:
    seconds, microseconds = node_of(client, key).time()
    return int(seconds * 1000 + microseconds // 1000)


def _request(state: Any, channel: Any, element: bytes) -> Any:
    from celery.worker.request import Request

    message = channel.Message(loads(bytes_to_str(element)), channel=channel)
    return Request(message, app=state.app, hostname=state.hostname)


try:
    from celery.signals import worker_ready
except ImportError:
    # kombu without Celery.
    pass
else:
    worker_ready.connect(register)
    worker_ready.connect(celery_pool.register)
