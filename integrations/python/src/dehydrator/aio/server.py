"""The server, asked until it answers: see dehydrator.server."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

from dehydrator.library import BROKEN, Client, forget_connections, passes
from dehydrator.server import FIRST_PAUSE, LONGEST_PAUSE, NEWEST, explain, knows
from dehydrator.verbs import Question

T = TypeVar("T")


class Server:
    """Sends each command again until there is a reply, or until patience ends. All commands here bear that."""

    def __init__(self, client: Client, patience: float) -> None:
        self.client = client
        self.patience = patience

    async def ask(
        self,
        question: Question[T],
        patience: float | None = None,
        give_up: Callable[[], bool] = lambda: False,
        tell: Callable[[Exception], Any] = lambda error: None,
    ) -> T:
        """Returns the answer. `patience` in seconds; `tell` hears of each error that is not the last."""
        end = time.monotonic() + (self.patience if patience is None else patience)
        pause = FIRST_PAUSE
        while True:
            try:
                return question.read(await self.client.execute_command(*question.words))
            except Exception as error:
                if not passes(error) or give_up() or time.monotonic() + pause > end:
                    clearer = explain(error, question.words[0])
                    raise clearer from (None if clearer is error else error)
                tell(error)
                if not isinstance(error, BROKEN) and inspect.isawaitable(closed := forget_connections(self.client)):
                    await closed
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def check(self, give_up: Callable[[], bool] = lambda: False) -> None:
        """Raises what is wrong if the module is not there, or too old."""
        for command in ("DEHYDRATOR.POLL", NEWEST):
            try:
                await self.ask(Question((command,), lambda reply: None), give_up=give_up)
            except Exception as error:
                if not knows(error):
                    raise
