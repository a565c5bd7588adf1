"""The transports."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis as base

from dehydrator_queue.kombu.channel import Channel, SentinelChannel
from dehydrator_queue.kombu.connection_switch import keep_transport


class Transport(base.Transport):
    """The Redis transport, with dehydrators for queues."""

    Channel = Channel
    driver_name = "dehydrator"

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        keep_transport(client)


class SentinelTransport(Transport):
    """The same, with Sentinel."""

    default_port = 26379
    Channel = SentinelChannel
