"""The server, with retries: see dehydrator_queue.queue.server."""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from dehydrator_queue.queue.commands import Flow, Question
from dehydrator_queue.queue.library import (
    BROKEN,
    Client,
    check_kind,
    doubts_others,
    forget_connections,
    is_cluster,
    passes,
    undecoded,
)
from dehydrator_queue.queue.server import FIRST_PAUSE, LONGEST_PAUSE, checking, drawn, explain

T = TypeVar("T")


class Server:
    """Resends each command until there is a reply, or patience ends. All commands here are safe to repeat."""

    def __init__(self, client: Client, patience: float) -> None:
        check_kind(client, asyncio=True)
        self.client = client
        self.patience = patience
        self._options = undecoded(client)
        #: For the library, to look up the slots at the other nodes: as it did in the error, if it is a later version.
        self._last_failed: dict[str, Any] = {}

    async def ask(
        self,
        question: Question[T],
        patience: float | None = None,
        give_up: Callable[[], bool] = lambda: False,
        tell: Callable[[Exception], Any] = lambda error: None,
    ) -> T:
        """Returns the reply. `patience` in seconds; `tell` is called for each error except the last."""
        end = time.monotonic() + (self.patience if patience is None else patience)
        pause = FIRST_PAUSE
        while True:
            try:
                return question.read(await self._send(question.words))
            except Exception as error:
                if (failed := getattr(error, "last_failed_node_name", None)) is not None:
                    self._last_failed = {"last_failed_node_name": failed}
                if not passes(error) or give_up() or time.monotonic() + pause > end:
                    clearer = explain(error, question.words[0])
                    raise clearer from (None if clearer is error else error)
                tell(error)
                if doubts_others(error) and inspect.isawaitable(closed := forget_connections(self.client)):
                    # A silent connection may not report its end either.
                    with suppress(*BROKEN):
                        await closed
            await asyncio.sleep(drawn(pause))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def follow(
        self,
        flow: Flow[T],
        patience: float | None = None,
        give_up: Callable[[], bool] = lambda: False,
        tell: Callable[[Exception], Any] = lambda error: None,
    ) -> T:
        """Asks the questions of a flow, and returns its result. Errors are raised where the flow asks."""
        try:
            question = next(flow)
            while True:
                try:
                    answer = await self.ask(question, patience, give_up, tell)
                except Exception as error:
                    question = flow.throw(error)
                else:
                    question = flow.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _send(self, words: Sequence[Any]) -> Any:
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

    async def check(
        self,
        key: str,
        give_up: Callable[[], bool] = lambda: False,
        tell: Callable[[Exception], Any] = lambda error: None,
    ) -> None:
        """Raises an explanation if the module is missing or too old."""
        await self.follow(checking(key), None, give_up, tell)
