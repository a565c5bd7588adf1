"""The server and the key with the entries."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from celery.exceptions import ImproperlyConfigured

from dehydrator_queue.beat.payload import decode
from dehydrator_queue.frameworks.occurrences import LOOK
from dehydrator_queue.kombu.channel import Dehydrated
from dehydrator_queue.queue.library import REPLY, connect
from dehydrator_queue.queue.opening import beside
from dehydrator_queue.queue.schedules import Schedules
from dehydrator_queue.queue.scheduling import Scheduling
from dehydrator_queue.queue.server import Server

#: Seconds, during a command, until a beat connects anew.
PATIENCE = 2.0

#: Seconds for a reply: a beat blocks in the server.
TIMEOUT = LOOK + REPLY


class Place:
    """The server of the broker, if its transport is ours, or the one of the setting `dehydrator_beat_url`."""

    def __init__(self, app: Any, channel: Any) -> None:
        url = app.conf.get("dehydrator_beat_url")
        if url:
            client = connect(url, TIMEOUT)
            key = beside(f"dehydrator:{app.conf.task_default_queue}", client, "schedules")
        elif isinstance(channel, Dehydrated):
            client = channel.create_client(TIMEOUT)
            key = beside(channel._key(app.conf.task_default_queue, 0), client, "schedules")
        else:
            raise ImproperlyConfigured(
                "beat has no server: use a broker_transport of dehydrator_queue, or set dehydrator_beat_url"
            )
        #: Whether the broker keeps ids.
        self.is_of_broker = not url
        self.server = Server(client, PATIENCE)
        self.key = app.conf.get("dehydrator_beat_key") or key
        self.server.check(self.key)
        self.schedules = Schedules(self.server, Scheduling(self.key, bytes, lambda payload: (decode(payload), None)))

    def close(self) -> None:
        client: Any = self.server.client
        pool = getattr(client, "connection_pool", None)
        with suppress(Exception):
            client.close() if pool is None else pool.disconnect()
