"""The server of a queue of several keys for asyncio."""

from __future__ import annotations

from dehydrator_queue.aio.server import Server
from dehydrator_queue.wide.server import Routing


class WideServer(Routing, Server):
    """A `Server` for asyncio."""

    plain: Server
