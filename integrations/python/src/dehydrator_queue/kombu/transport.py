"""The transports."""

from __future__ import annotations

from typing import Any

from kombu.connection import resolve_aliases
from kombu.transport import redis as base

from dehydrator_queue.kombu import flower
from dehydrator_queue.kombu.channel import Channel, SentinelChannel


class Scheme(str):
    """The scheme of a URL, as others see it: that of Redis, although the transport is ours.

    Flower and celery-exporter recognize a broker by it. kombu has aliases for this. A pickled connection has the
    transport instead: with the scheme, it would wait at lists.
    """

    transport: Any

    def __new__(cls, scheme: str, transport: Any) -> Scheme:
        self = super().__new__(cls, scheme)
        self.transport = transport
        return self

    def __reduce__(self) -> Any:
        return _same, (self.transport,)


def _same(transport: Any) -> Any:
    return transport


def name_scheme(transport: str, scheme: str) -> None:
    """Names the scheme of all connections whose transport is given by this name."""
    resolve_aliases.setdefault(transport, Scheme(scheme, transport))


def name_scheme_of(connection: Any, scheme: str) -> None:
    """Names the scheme of one connection, which may be encrypted."""
    transport = connection.transport_cls
    if connection.ssl and scheme == "redis":
        scheme = "rediss"
    connection.resolve_aliases = {**connection.resolve_aliases, transport: Scheme(scheme, transport)}


def keep_transport(connection: Any) -> None:
    """Makes a connection keep its transport when it switches to another of its URLs.

    kombu takes the transport that the scheme of the URL names, and has no public API for this.
    """
    if "switch" in vars(connection):
        return
    switch = connection.switch

    def switch_and_keep(url: str) -> None:
        transport = connection.transport_cls
        switch(url)
        connection.transport_cls = transport

    connection.switch = switch_and_keep


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
