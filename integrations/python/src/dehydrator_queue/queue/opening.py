"""What queues of threads and of asyncio do alike. Nothing here waits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

from dehydrator_queue.codec import Codec, Json
from dehydrator_queue.hooks import Guarded, Hooks
from dehydrator_queue.job import DeadLetter, Item, Put
from dehydrator_queue.options import Duration, hinting, instance, patience_of, text
from dehydrator_queue.queue.commands import KEEP, Commands, Flow, Keep, Question
from dehydrator_queue.queue.library import REPLY, Client, connect, is_cluster
from dehydrator_queue.queue.limits import limit_words
from dehydrator_queue.queue.scheduling import Scheduling
from dehydrator_queue.wide.directory import Directory, Keys, check_narrow
from dehydrator_queue.wide.router import Router

T = TypeVar("T")


def beside(name: str, client: Any, suffix: str) -> str:
    """Returns another key of a queue: on a cluster, in its slot."""
    return f"{{{name}}}:{suffix}" if is_cluster(client) and "{" not in name else f"{name}:{suffix}"


def dead_of(name: str, client: Any) -> str:
    """Returns the stream of a queue's dead letters."""
    return beside(name, client, "dead")


class Opened(Generic[T]):
    """A queue, without its commands."""

    #: Its server, that of several keys, and its schedules.
    _parts: ClassVar[tuple[Any, Any, Any]]
    _is_asyncio: ClassVar[bool]
    _server: Any
    schedules: Any

    @hinting
    def __init__(
        self,
        server: str | Client,
        name: str,
        *,
        codec: Codec | None = None,
        dead: str | None = None,
        keep_dead: Keep = KEEP,
        patience: Duration = 10.0,
        hooks: Hooks | None = None,
        keys: Keys | None = None,
    ) -> None:
        """Opens a queue. `server`: a URL, or your own client of redis-py or valkey-py.

        `dead`: the stream of its dead letters. `keep_dead`: how many of them to keep, the newest; None: all.
        `patience`: for how long to retry. `hooks`: only `sending` is called.

        `keys`: spreads the queue over so many keys, or `"auto"`, one for each primary of a cluster. The first client
        of the queue determines it; then `set_keys` does. By default, the queue is one key, its name.
        """
        one, wide, schedules = self._parts
        for option, value in (("name", name), *(() if dead is None else [("dead", dead)])):
            text(option, instance(option, value, str, "a str"))
        if not isinstance(server, str) and not hasattr(server, "execute_command"):
            raise TypeError(f"`server` is a URL, or a client of redis-py or valkey-py, not {server!r}")
        if codec is not None and not (hasattr(codec, "encode") and hasattr(codec, "decode")):
            raise TypeError(f"`codec` has `encode` and `decode`, unlike {codec!r}")
        instance("hooks", hooks, (Hooks, type(None)), "an instance of Hooks")
        self._url = server if isinstance(server, str) else None
        client: Client = connect(server, REPLY, asyncio=self._is_asyncio) if isinstance(server, str) else server
        self.name = name
        self._server = one(client, patience_of(patience))
        self._hooks = Guarded(hooks) if hooks is not None else Hooks()
        self._commands = Commands(name, dead or dead_of(name, client), codec or Json(), keep_dead)
        key = name
        #: Whether it is known that no client has opened it with `keys`.
        self._is_narrow = "{" in name
        if keys is not None:
            if dead is not None:
                raise ValueError("with `keys`, each key has its own stream of dead letters")
            directory = Directory(name, keys, cluster=is_cluster(client))
            self._server = wide(self._server, Router(directory, self._commands))
            key, self._is_narrow = directory.first, True
        self._scheduling = Scheduling(key, self._commands.encode, self._commands.read)
        self.schedules = schedules(self._server, self._scheduling)

    @property
    def is_wide(self) -> bool:
        """Tells whether it was opened with `keys`."""
        return isinstance(self._server, self._parts[1])

    def _wide(self) -> Any:
        if not self.is_wide:
            raise ValueError(f"{self.name} is one key: open the queue with `keys`")
        return self._server

    def _putting(self, payload: T, id: Any, *terms: Any) -> Flow[str | None]:
        name, sent = self._commands.put(payload, id, *terms)
        yield from self._check_narrow()
        with self._hooks.sending(self.name, [name]) as headers:
            stored: str | None = yield sent(headers)
        return stored

    def _putting_many(self, items: Iterable[Item], *terms: Any) -> Flow[list[Put]]:
        ids, sent = self._commands.put_many(items, *terms)
        yield from self._check_narrow()
        stored: dict[int, Put] = {}
        with self._hooks.sending(self.name, ids) as headers:
            for question in sent(headers):
                stored.update((yield question))
        return [stored[number] for number in range(len(ids))]

    def _check_narrow(self) -> Flow[None]:
        """Raises ValueError if the queue has several keys, and was opened without: nobody would look here."""
        if not self._is_narrow:
            yield from check_narrow(self.name)
            self._is_narrow = True

    def _limiting(self, group: str | bytes | None, limits: dict[str, Any], each: dict[str, Any]) -> Flow[None]:
        if self.is_wide:
            raise ValueError("a limit is of one key: with `keys`, send DEHYDRATOR.LIMIT to each")
        for words in limit_words(self.name, group, limits, each):
            yield Question(words, lambda reply: None)

    def _setting_policy(self, attempts: int | None, keep: Keep) -> Flow[None]:
        some = [self._commands]
        if self.is_wide:
            some = [self._commands.at(key) for key in (yield from self._server.router.directory.read()).keys]
        for verbs in some:
            yield verbs.limit_attempts(attempts, keep)

    def _dropping(self, letters: Iterable[DeadLetter | str]) -> Flow[int]:
        return self._commands.drop_letters(list(map(_entry, letters)))

    def _reviving(self, letters: Iterable[DeadLetter | str], count: int, payload: T | None) -> Flow[int]:
        entries = list(map(_entry, letters))
        if payload is not None and len(entries) != 1:
            raise ValueError("`payload` is for one letter")
        element = None if payload is None else self._commands.encode(payload)
        return self._commands.revive(count, entries, element)

    def _patient(self, timeout: float) -> Client:
        """Returns a client with this reply timeout: another one, if the queue was opened with a URL."""
        if self._url is None:
            return self._server.client  # type: ignore[no-any-return]
        return connect(self._url, timeout, asyncio=self._is_asyncio)  # type: ignore[no-any-return]


def _entry(letter: DeadLetter | str) -> str:
    entry = letter.entry if isinstance(letter, DeadLetter) else letter
    if not isinstance(entry, str) or not re.fullmatch(r"\d+(-\d+)?", entry):
        raise TypeError(f"each of `letters` is a DeadLetter, or the id of its entry, such as '17-0', not {letter!r}")
    return entry
