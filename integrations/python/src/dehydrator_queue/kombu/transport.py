"""The transports."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis as base

from dehydrator_queue.kombu import flower
from dehydrator_queue.kombu.channel import Channel, SentinelChannel
from dehydrator_queue.kombu.connection_switch import keep_transport
from dehydrator_queue.kombu.scheme import name_scheme_of


class Transport(base.Transport):
    """The Redis transport, with dehydrators for queues."""

    Channel = Channel
    driver_name = "dehydrator"

    #: That of the URL.
    scheme = "redis"

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        keep_transport(client)
        name_scheme_of(client, self.scheme)
        flower.teach(type(self))

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        super().register_with_event_loop(connection, loop)
        #: Of Celery, for channels, whose attribute `connection` this is.
        self.loop = loop


class SentinelTransport(Transport):
    """The same, with Sentinel."""

    default_port = 26379
    Channel = SentinelChannel
    scheme = "sentinel"
