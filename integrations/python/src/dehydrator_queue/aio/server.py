"""The server, with retries: see dehydrator_queue.queue.server."""

from __future__ import annotations

import asyncio
import inspect
import sys
from contextlib import suppress
from typing import Any, TypeVar

from dehydrator_queue.queue.commands import Flow, Question
from dehydrator_queue.queue.library import BROKEN, forget_connections, is_cluster
from dehydrator_queue.queue.server import Asking, checking
from dehydrator_queue.steps import run_async
from dehydrator_queue.wide.server import Routing

T = TypeVar("T")


class Server(Asking):
    """Asks with asyncio."""

    _sleep = staticmethod(asyncio.sleep)
    _is_asyncio = True

    async def ask(self, question: Question[T], *terms: Any, **named: Any) -> T:
        """See `asking`."""
        return await run_async(self.asking(question, *terms, **named))

    async def follow(self, flow: Flow[T], *terms: Any, **named: Any) -> T:
        """See `following`."""
        return await run_async(self.following(flow, *terms, **named))

    async def check(self, key: str, *terms: Any) -> None:
        """Raises an explanation if the module is missing or too old. `terms`: from `give_up` on."""
        await self.follow(checking(key), None, *terms)

    async def _send(self, words: tuple[Any, ...]) -> Any:
        if is_cluster(self.client):
            # Before it knows the nodes, the library sends our commands to any of them, and closes all connections after
            # some replies of MOVED: then it does not know the nodes.
            await self.client.initialize(**self._last_failed)  # type: ignore[attr-defined]
        if sys.version_info >= (3, 12):
            return await self.client.execute_command(*words, **self._options)
        # The library sends with asyncio.wait_for, which can lose a cancellation (gh-86296).
        sending = asyncio.ensure_future(self.client.execute_command(*words, **self._options))
        try:
            await asyncio.wait({sending})
        except asyncio.CancelledError:
            sending.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            sending.cancel()
            raise
        return sending.result()

    async def _forget(self) -> None:
        if inspect.isawaitable(closed := forget_connections(self.client)):
            # A silent connection may not report its end either.
            with suppress(*BROKEN):
                await closed


class WideServer(Routing, Server):
    """That of a queue of several keys."""

    plain: Server
