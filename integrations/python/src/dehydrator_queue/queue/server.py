"""The server, with retries."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
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
from dehydrator_queue.steps import Steps, run

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


class Asking:
    """Resends each command until there is a reply, or patience ends. All commands here are safe to repeat.

    Its steps are the same for threads and for asyncio.
    """

    #: What sends the words of a command, closes idle connections, and sleeps: for asyncio, coroutine functions.
    _send: Callable[[tuple[Any, ...]], Any]
    _forget: Callable[[], Any]
    _sleep: Callable[[float], Any]
    _is_asyncio = False

    def __init__(self, client: Client, patience: float) -> None:
        check_kind(client, asyncio=self._is_asyncio)
        self.client = client
        self.patience = patience
        self._options = undecoded(client)
        #: For the library of asyncio, to look up the slots at the other nodes: as it did, if it is a later version.
        self._last_failed: dict[str, Any] = {}

    def asking(
        self,
        question: Question[T],
        patience: float | None = None,
        give_up: Callable[[], bool] = lambda: False,
        tell: Callable[[Exception], Any] = lambda error: None,
    ) -> Steps[T]:
        """Returns the reply. `patience` in seconds; `tell` is called for each error except the last."""
        end = time.monotonic() + (self.patience if patience is None else patience)
        pause = FIRST_PAUSE
        while True:
            try:
                return question.read((yield partial(self._send, question.words)))
            except Exception as error:
                if (failed := getattr(error, "last_failed_node_name", None)) is not None:
                    self._last_failed = {"last_failed_node_name": failed}
                if not passes(error) or give_up() or time.monotonic() + pause > end:
                    clearer = explain(error, question.words[0])
                    raise clearer from (None if clearer is error else error)
                tell(error)
                if doubts_others(error):
                    # The library closes broken connections.
                    yield self._forget
            yield partial(self._sleep, drawn(pause))
            pause = min(2 * pause, LONGEST_PAUSE)

    def following(self, flow: Flow[T], *terms: Any, **named: Any) -> Steps[T]:
        """Asks the questions of a flow, and returns its result. Errors are raised where the flow asks."""
        try:
            question = next(flow)
            while True:
                try:
                    answer = yield from self.asking(question, *terms, **named)
                except Exception as error:
                    question = flow.throw(error)
                else:
                    question = flow.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


class Server(Asking):
    """Asks in threads."""

    _sleep = staticmethod(time.sleep)

    def _send(self, words: tuple[Any, ...]) -> Any:
        return self.client.execute_command(*words, **self._options)

    def _forget(self) -> None:
        forget_connections(self.client)

    def ask(self, question: Question[T], *terms: Any, **named: Any) -> T:
        """See `asking`."""
        return run(self.asking(question, *terms, **named))

    def follow(self, flow: Flow[T], *terms: Any, **named: Any) -> T:
        """See `following`."""
        return run(self.following(flow, *terms, **named))

    def check(self, key: str, *terms: Any) -> None:
        """Raises an explanation if the module is missing or too old. `terms`: from `give_up` on."""
        self.follow(checking(key), None, *terms)
