"""The transports, and what they do when a task is revoked."""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakSet

from kombu.transport import redis as base
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

from dehydrator.kombu.channel import Channel, SentinelChannel
from dehydrator.kombu.scheduled import answer_for_the_server

#: All of this process: the one that hears of a revoked task need not be the one whose channel consumes.
TRANSPORTS: WeakSet[Any] = WeakSet()


def revoked_ids(message: dict[str, Any]) -> list[str]:
    """Returns which tasks a message of remote control revokes, of those that this worker took to be revoked."""
    state = sys.modules.get("celery.worker.state")
    if state is None or message.get("content-type") != "application/json":
        return []
    try:
        body = message["body"]
        if message["properties"].get("body_encoding") == "base64":
            body = Channel.codecs["base64"].decode(body)
        told = loads(bytes_to_str(body))
        if told.get("method") != "revoke":
            return []
        ids = told["arguments"]["task_id"]
    except (KeyError, TypeError, ValueError, AttributeError):
        return []
    return [id for id in ([ids] if isinstance(ids, str) else ids) if id in state.revoked]


def stay_with_this_transport(connection: Any) -> None:
    """Has a connection keep its transport when it goes on to another of its URLs.

    kombu takes the one that the URL names, whatever `broker_transport` says: a worker would wait at lists from then on.
    """
    switch = connection.switch

    def switch_and_stay(url: str) -> None:
        transport = connection.transport_cls
        switch(url)
        connection.transport_cls = transport

    connection.switch = switch_and_stay


class Transport(base.Transport):
    """The Redis transport, with dehydrators for queues."""

    Channel = Channel
    driver_name = "dehydrator"

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        if "switch" not in vars(client):
            stay_with_this_transport(client)
        TRANSPORTS.add(self)
        answer_for_the_server()

    def _deliver(self, message: dict[str, Any], queue: str) -> None:
        super()._deliver(message, queue)
        # The worker was told of it just now.
        if ids := revoked_ids(message):
            for transport in list(TRANSPORTS):
                for channel in list(transport.channels):
                    if channel.active_queues:
                        channel.revoked.extend(ids)


class SentinelTransport(Transport):
    """The same, by Sentinel."""

    default_port = 26379
    Channel = SentinelChannel
