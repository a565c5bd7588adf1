"""The client for all commands but those that sleep."""

from __future__ import annotations

import random
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from kombu.transport import redis as base
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.commands import CoreCommands
from redis.retry import Retry

from dehydrator_queue.queue.commands import Question
from dehydrator_queue.queue.library import BROKEN, ResponseError, passes
from dehydrator_queue.queue.server import Server

#: Seconds until a connection, and a reply. The event loop of a worker waits for them.
CONNECT, REPLY = 1.0, 2.0

#: Seconds for which nobody tries a node that did not reply.
AWAY = 2.0


class ClusterClient(base.GlobalKeyPrefixMixin, RedisCluster):
    """Adds the global prefix to keys as kombu's own clients do."""

    #: For how many seconds a command is sent again. kombu tries again at once, if it can connect to any node.
    patience = 0.0

    def __init__(self, hosts: str, global_keyprefix: str, **options: Any) -> None:
        self.global_keyprefix = global_keyprefix
        #: The nodes that did not reply, and when to try them again.
        self.away: dict[str, float] = {}
        ats = [urlsplit(f"//{host}") for host in hosts.split(",")]
        nodes = [ClusterNode(at.hostname or "localhost", at.port or base.DEFAULT_PORT) for at in ats]
        RedisCluster.__init__(self, startup_nodes=nodes, retry=Retry(NoBackoff(), 1), **options)

    def is_away(self, node: Any) -> bool:
        return monotonic() < self.away.get(node.name, 0.0)

    def set_away(self, node: Any, error: Exception | None = None) -> None:
        """Notes that a node is away, if that is what the error means: a reply such as CLUSTERDOWN does not."""
        if not isinstance(error, ResponseError):
            self.away[node.name] = monotonic() + AWAY

    def execute_command(self, *words: Any, **options: Any) -> Any:
        return Server(Once(self, options), self.patience).ask(Question(words, lambda reply: reply))

    def execute_once(self, *words: Any, **options: Any) -> Any:
        return super().execute_command(*words, **options)

    def publish(self, channel: str, message: Any, **options: Any) -> Any:  # type: ignore[override]
        """Publishes at any node. The library's own does it at the node that has the slot of the name."""
        nodes = self.get_primaries()
        random.shuffle(nodes)
        nodes.sort(key=self.is_away, reverse=True)
        while True:
            try:
                return self.execute_once("PUBLISH", channel, message, target_nodes=nodes.pop())
            except Exception as error:
                if not nodes or not passes(error):
                    raise

    def pipeline(self, *args: Any, **kwargs: Any) -> Pipeline:
        return Pipeline(self)


class Once:
    """Sends each command once, whatever the patience of the client."""

    def __init__(self, client: ClusterClient, options: dict[str, Any] | None = None) -> None:
        self._client, self._options = client, options or {}

    def execute_command(self, *words: Any, **options: Any) -> Any:
        return self._client.execute_once(*words, **self._options, **options)

    def pipeline(self, *args: Any, **kwargs: Any) -> Pipeline:
        return Pipeline(self)


class LeaseClient(Once):
    """Fails at once if a node is away, so that an ack there does not hold up the event loop. It is sent again later."""

    def execute_command(self, *words: Any, **options: Any) -> Any:
        client = self._client
        node = client.get_node_from_key(words[1])
        if client.is_away(node):
            raise base.get_redis_ConnectionError()(f"{node.name} is away")
        if node.name in client.away:
            # Meanwhile, other threads do not try.
            client.set_away(node)
        try:
            reply = super().execute_command(*words, **options)
        except BROKEN as error:
            client.set_away(node, error)
            raise
        client.away.pop(node.name, None)
        return reply


class Pipeline(CoreCommands):
    """Sends its commands one after the other. The library's own does not permit scripts, nor adds the prefix."""

    _event_dispatcher: Any = None

    def __init__(self, client: ClusterClient | Once) -> None:
        self._client = client
        self._commands: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *error: object) -> None:
        self._commands.clear()

    def execute_command(self, *words: Any, **options: Any) -> Pipeline:
        self._commands.append((words, options))
        return self

    def execute(self) -> list[Any]:
        commands, self._commands = self._commands, []
        return [self._client.execute_command(*words, **options) for words, options in commands]
