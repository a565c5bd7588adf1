"""Makes Flower count the messages of our queues.

Flower chooses a broker by the scheme of the URL, has no hook for others, and for Redis counts lists. So this replaces
that choice, in a process that has loaded Flower and uses one of our transports.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from urllib.parse import urlsplit

from kombu import Connection

SCHEMES = ("redis", "rediss", "sentinel", "redis+cluster", "rediss+cluster")


class Broker:
    """A broker for Flower, which asks the transport."""

    def __init__(
        self, url: str, transport: Any, broker_options: Any = None, broker_use_ssl: Any = None, **_: Any
    ) -> None:
        self.connection = Connection(
            url,
            transport=transport,
            transport_options={"socket_connect_timeout": 1, "socket_timeout": 2, **(broker_options or {})},
            ssl=broker_use_ssl or False,
        )

    async def queues(self, names: Any) -> list[dict[str, Any]]:
        return await asyncio.get_running_loop().run_in_executor(None, self._count, list(names))

    def _count(self, names: list[str]) -> list[dict[str, Any]]:
        with self.connection, self.connection.channel() as channel:
            return [{"name": name, "messages": channel._size(name)} for name in names]


def teach(transport: Any) -> None:
    """Makes Flower, if it is loaded, ask this transport about brokers in Redis."""
    brokers = sys.modules.get("flower.utils.broker")
    if brokers is None or hasattr(brokers.Broker, "dehydrator"):
        return
    choose = brokers.Broker.__new__

    def choose_ours(cls: Any, broker_url: str, *args: Any, **kwargs: Any) -> Any:
        if urlsplit(broker_url).scheme in SCHEMES:
            return Broker(broker_url, transport, **kwargs)
        return choose(cls, broker_url, *args, **kwargs)

    brokers.Broker.__new__ = staticmethod(choose_ours)
    brokers.Broker.dehydrator = transport
