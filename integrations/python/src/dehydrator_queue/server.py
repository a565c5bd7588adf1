"""The server, with retries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from dehydrator_queue.errors import ModuleMissingError, ModuleTooOldError
from dehydrator_queue.library import Client, ResponseError, check_kind, doubts_others, forget_connections, passes
from dehydrator_queue.verbs import Flow, Question

T = TypeVar("T")

#: The delay before a command is resent, in seconds: the first time, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0


def drawn(pause: float) -> float:
    """Returns a pause of at least half that length: callers that failed together do not come again together."""
    return pause * random.uniform(0.5, 1)


#: The newest command that this package needs: a server that knows it knows all of them.
NEWEST = "DEHYDRATOR.REJECT"

#: Commands that are refused for missing arguments. They have a key, which a cluster needs.
PROBES = (("DEHYDRATOR.POLL", "COUNT"), (NEWEST,))


def explain(error: Exception, command: str) -> Exception:
    """Returns a clearer error if the server does not know the command."""
    if not isinstance(error, ResponseError) or knows(error):
        return error
    return ModuleTooOldError(command) if command in ("DEHYDRATOR.RELEASE", NEWEST) else ModuleMissingError()


def knows(error: Exception) -> bool:
    """Returns whether a command was refused because arguments are missing, so that the server knows it."""
    # In a pipeline, other words precede these.
    return isinstance(error, ResponseError) and "unknown command 'DEHYDRATOR" not in str(error)


class Server:
    """Resends each command until there is a reply, or patience ends. All commands here are safe to repeat."""

    def __init__(self, client: Client, patience: float) -> None:
        check_kind(client, asyncio=False)
        self.client = client
        self.patience = patience

    def ask(
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
                return question.read(self.client.execute_command(*question.words))
            except Exception as error:
                if not passes(error) or give_up() or time.monotonic() + pause > end:
                    clearer = explain(error, question.words[0])
                    raise clearer from (None if clearer is error else error)
                tell(error)
                if doubts_others(error):
                    # The library closes broken connections.
                    forget_connections(self.client)
            time.sleep(drawn(pause))
            pause = min(2 * pause, LONGEST_PAUSE)

    def follow(
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
                    answer = self.ask(question, patience, give_up, tell)
                except Exception as error:
                    question = flow.throw(error)
                else:
                    question = flow.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def check(
        self,
        key: str,
        give_up: Callable[[], bool] = lambda: False,
        tell: Callable[[Exception], Any] = lambda error: None,
    ) -> None:
        """Raises an explanation if the module is missing or too old."""
        for words in PROBES:
            try:
                question = Question((words[0], key, *words[1:]), lambda reply: None)
                self.ask(question, give_up=give_up, tell=tell)
            except Exception as error:
                if not knows(error):
                    raise
