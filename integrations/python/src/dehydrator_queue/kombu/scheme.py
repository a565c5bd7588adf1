"""The scheme of a connection's URL, as others see it: that of Redis, although the transport is ours.

Flower and celery-exporter recognize a broker by it. kombu has aliases for this: `Connection.resolve_aliases`.
"""

from __future__ import annotations

from typing import Any

from kombu.connection import resolve_aliases


class Scheme(str):
    """A scheme. A pickled connection has the transport instead: with the scheme, it would wait at lists."""

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
