"""Writes that count only when replicas have them."""

from __future__ import annotations

from typing import Any

from dehydrator_queue.queue.library import AskError, MovedError, look_up_slots, node_at, node_of

ASKING = ("ASKING",)


class UnconfirmedError(ConnectionError):
    """Fewer replicas than required have a write. It is sent again, as after a broken connection."""


class Confirmation:
    """A command and WAIT, sent together on one connection: WAIT is about the writes of its own connection.

    A command that is sent again may have nothing to write any more. So a write that changes nothing goes with it.
    """

    def __init__(self, replicas: int, wait_ms: int, words: tuple[Any, ...]) -> None:
        self._replicas = replicas
        self._key = words[1]
        again = ("INCRBY", f"{self._key}:generation", 0)
        self._words: list[tuple[Any, ...]] = [words, again, ("WAIT", replicas, wait_ms)]

    def fill(self, pipe: Any) -> Any:
        for words in self._words:
            pipe.execute_command(*words)
        return pipe

    def asked(self, replies: list[Any]) -> Any:
        """Returns the error that tells which node has the key, if its slot moves and it has already moved."""
        reply = replies[-3]
        if self._words[0] == ASKING or isinstance(reply, MovedError) or not isinstance(reply, AskError):
            return None
        # The number of the list may not have moved yet, and must not be created there.
        self._words[:2] = [ASKING, self._words[0]]
        return reply

    def result(self, replies: list[Any]) -> Any:
        """Returns the reply if enough replicas have the write."""
        reply, count = replies[-2 if self._words[0] == ASKING else -3], replies[-1]
        if isinstance(reply, AskError):
            raise UnconfirmedError(f"{self._key} has moved")
        for one in (reply, count):
            if isinstance(one, Exception):
                raise one
        if count < self._replicas:
            raise UnconfirmedError(f"{self._key}: {count} of {self._replicas} replicas have it")
        return reply


class Confirming:
    """A client that replies to a command when `replicas` have what it wrote."""

    def __init__(self, client: Any, replicas: int, wait_ms: int) -> None:
        self._client, self._terms = client, (replicas, wait_ms)

    def execute_command(self, *words: Any, **options: Any) -> Any:
        sent = Confirmation(*self._terms, words)
        try:
            node = node_of(self._client, words[1])
            replies = sent.fill(node.pipeline(transaction=False)).execute(raise_on_error=False)
            while asked := sent.asked(replies):
                node = node_at(self._client, asked.host, asked.port)
                replies = sent.fill(node.pipeline(transaction=False)).execute(raise_on_error=False)
            return sent.result(replies)
        except Exception:
            look_up_slots(self._client)
            raise
