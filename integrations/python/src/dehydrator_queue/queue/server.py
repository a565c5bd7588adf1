"""The server, with retries."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from dehydrator_queue.errors import Exists, ModuleMissing, ModuleTooOld, NotFound, QueueFull, TooLate
from dehydrator_queue.queue.commands import Flow, Question, as_bytes
from dehydrator_queue.queue.library import (
    NO_MEMORY,
    Client,
    ResponseError,
    check_kind,
    doubts_others,
    forget_connections,
    passes,
    undecoded,
)

T = TypeVar("T")

#: The delay before a command is resent, in seconds: the first time, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0


def drawn(pause: float) -> float:
    """Returns a pause of at least half that length: callers that failed together do not come again together."""
    return pause * random.uniform(0.5, 1)


#: The newest command that this package needs: a server that knows it knows all of them.
NEWEST = "DEHYDRATOR.EVERY"

#: Commands that are refused for missing arguments. They have a key, which a cluster needs.
PROBES = (("DEHYDRATOR.POLL", "COUNT"), (NEWEST,))

#: The codes of replies, and their errors.
CODES = {"FULL": QueueFull, "OOM": QueueFull, "EXISTS": Exists, "NOSUCHID": NotFound, "LIMIT": TooLate}


#: The text of a refusal by a server that does not know the command. In a pipeline, other words precede it.
_UNKNOWN = re.compile("unknown command ['`]dehydrator[.]", re.IGNORECASE)


def explain(error: Exception, command: str) -> Exception:
    """Returns the error of this package for a reply, if it has one."""
    if not isinstance(error, ResponseError):
        return error
    if not knows(error):
        return ModuleTooOld(command) if command == NEWEST else ModuleMissing()
    if isinstance(error, NO_MEMORY):
        return QueueFull(str(error))
    code, _, text = str(error).partition(" ")
    return CODES[code](text) if code in CODES else error


def knows(error: Exception) -> bool:
    """Returns whether a command was refused because arguments are missing, so that the server knows it."""
    return isinstance(error, ResponseError) and _UNKNOWN.search(str(error)) is None


def version_of(info: Any) -> str:
    """Returns the version of the module, from the reply of INFO."""
    if isinstance(info, dict):
        return str(info.get("dehydrator_version", ""))
    found = re.search(rb"dehydrator_version:(\S+)", as_bytes(info))
    return found[1].decode() if found else ""


def checking(key: str) -> Flow[None]:
    for words in PROBES:
        try:
            yield Question((words[0], key, *words[1:]), lambda reply: None)
        except ModuleTooOld:
            version = ""
            with suppress(Exception):
                version = yield Question(("INFO", "dehydrator"), version_of)
            raise ModuleTooOld(NEWEST, version) from None
        except ResponseError as error:
            if passes(error):
                raise


class Server:
    """Resends each command until there is a reply, or patience ends. All commands here are safe to repeat."""

    def __init__(self, client: Client, patience: float) -> None:
        check_kind(client, asyncio=False)
        self.client = client
        self.patience = patience
        self._options = undecoded(client)

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
                return question.read(self.client.execute_command(*question.words, **self._options))
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
        self.follow(checking(key), None, give_up, tell)
