"""How queues are opened, for threads and for asyncio."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from dehydrator_queue.codec import Codec, Json
from dehydrator_queue.hooks import Guarded, Hooks
from dehydrator_queue.queue.commands import Commands, Keep
from dehydrator_queue.queue.library import REPLY, Client, connect, is_cluster
from dehydrator_queue.queue.scheduling import Scheduling
from dehydrator_queue.wide.directory import Directory, Keys
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

    def __init__(
        self,
        server: str | Client,
        name: str,
        *,
        codec: Codec | None = None,
        dead: str | None = None,
        keep_dead: Keep = None,
        patience: float = 10.0,
        hooks: Hooks | None = None,
        keys: Keys | None = None,
    ) -> None:
        """Opens a queue. `server`: a URL, or your own client of redis-py or valkey-py.

        `dead`: the stream of its dead letters. `keep_dead`: how many of them to keep; by default all. `hooks`: only
        `sending` is called.

        `keys`: spreads the queue over so many keys, or `"auto"`, one for each primary of a cluster. The first client
        of the queue determines it; then `set_keys` does. By default, the queue is one key, its name.
        """
        one, wide, schedules = self._parts
        self._url = server if isinstance(server, str) else None
        client: Client = connect(server, REPLY, asyncio=self._is_asyncio) if isinstance(server, str) else server
        self.name = name
        self._server = one(client, patience)
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

    def patient(self, timeout: float) -> Client:
        """Returns a client with this reply timeout: another one, if the queue was opened with a URL."""
        if self._url is None:
            return self._server.client  # type: ignore[no-any-return]
        return connect(self._url, timeout, asyncio=self._is_asyncio)  # type: ignore[no-any-return]
