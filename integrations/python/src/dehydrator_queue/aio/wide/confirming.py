"""Writes that count only when replicas have them, for asyncio: see dehydrator_queue.wide.confirming."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dehydrator_queue.queue.library import is_cluster
from dehydrator_queue.wide.confirming import Confirmation, UnconfirmedError


class Confirming:
    """A client that replies to a command when `replicas` have what it wrote."""

    def __init__(self, client: Any, replicas: int, wait_ms: int) -> None:
        self._client, self._terms = client, (replicas, wait_ms)
        #: A client of each node: the library has no pipeline for one of them.
        self._nodes: dict[str, Any] = {}

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        sent = Confirmation(*self._terms, words)
        try:
            replies = await sent.fill((await self._node_of(words[1])).pipeline(transaction=False)).execute(False)
            while asked := sent.asked(replies):
                node = self._node(self._client.get_node(asked.host, asked.port))
                replies = await sent.fill(node.pipeline(transaction=False)).execute(False)
            return sent.result(replies)
        except Exception:
            if is_cluster(self._client):
                await self._client.nodes_manager.initialize()
            raise

    async def _node_of(self, key: str) -> Any:
        if not is_cluster(self._client):
            return self._client
        await self._client.initialize()
        return self._node(self._client.get_node_from_key(key))

    def _node(self, node: Any) -> Any:
        if node is None:
            # It joined after the slots were read, and is given its first one.
            raise UnconfirmedError("the node is not known yet")
        if node.name not in self._nodes:
            library = import_module(type(node).__module__.removesuffix(".cluster"))
            options = {**node.connection_kwargs, "host": node.host, "port": node.port}
            pool = library.ConnectionPool(connection_class=node.connection_class, **options)
            kind = "Valkey" if library.__name__.startswith("valkey") else "Redis"
            self._nodes[node.name] = getattr(library, kind)(connection_pool=pool)
        return self._nodes[node.name]

    async def aclose(self) -> None:
        for node in self._nodes.values():
            await node.connection_pool.disconnect()
