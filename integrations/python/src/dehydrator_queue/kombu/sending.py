"""What a channel sends and counts: messages, and how long their queues live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kombu.transport import redis as base
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps
from kombu.utils.objects import cached_property

from dehydrator_queue.frameworks.ids import look_words, names_of_message, push_words
from dehydrator_queue.kombu.eta import delay_ms, within_ms
from dehydrator_queue.queue.commands import BATCH, pairs

#: The header with the group of a message. Celery's own header `group` is the id of a canvas.
GROUP = "dehydrator_group"


class Sending(base.Channel):
    """The part of a channel that sends, counts and removes messages. `Dehydrated` takes them."""

    #: The key of a queue, after `global_keyprefix`. The Redis transport's list has the name of its
    #: queue, so old and new workers do not disturb each other during a migration.
    queue_key = "dehydrator:{queue}"

    #: Whether a message whose id is there is not sent again, even if it differs.
    _is_once = False

    # Names

    def _q_for_pri(self, queue: str, pri: int) -> str:
        """Names the key of a queue at a priority, without the global prefix."""
        return str(super()._q_for_pri(self.queue_key.format(queue=queue), pri))

    def _key(self, queue: str, pri: int) -> str:
        return f"{self.global_keyprefix}{self._q_for_pri(queue, pri)}"

    def _keys(self, queue: str) -> list[str]:
        return [self._key(queue, pri) for pri in self.priority_steps]

    # Sending

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        key = self._key(queue, self._get_message_priority(message, reverse=False))
        element, delay = dumps(message).encode(), delay_ms(message)
        headers = message.get("headers") or {}
        # Messages of several groups are delivered in turns.
        options = within_ms(message, delay), headers.get(GROUP)
        tag = message["properties"]["delivery_tag"]
        lifetimes = self._lifetimes(queue, delay)
        batch = kwargs.get("_publish_batch")
        if batch is not None and not self._is_once:
            # The replies are not read: the id is unique.
            batch.add("execute_command", *push_words(key, delay, element, tag, *options))
            for words in lifetimes:
                batch.add("execute_command", *words)
            return
        with self.conn_or_acquire() as client:
            for name in names_of_message(headers.get("id"), tag):
                if client.execute_command(*push_words(key, delay, element, name, *options)) is not None:
                    break
                if self._is_once:
                    break
                if client.execute_command(*look_words(key, name)) == element:
                    break
            self._prolong(client, lifetimes)

    @contextmanager
    def sending_once(self) -> Iterator[None]:
        """Sends messages under the ids of their tasks alone, unless these are there."""
        self._is_once = True
        try:
            yield
        finally:
            self._is_once = False

    def _lifetimes(self, queue: str, ms: int) -> list[tuple[Any, ...]]:
        """Returns the commands for a queue with `x-expires` when it is used.

        Its keys expire after that time without use, but not while an element must stay for `ms`.
        """
        # Older versions of kombu have no such queues.
        expires = getattr(self, "_expires", {}).get(queue)
        if expires is None:
            return []
        # The client of the Redis transport adds the global prefix to the key.
        keys = [self._q_for_pri(queue, pri) for pri in self.priority_steps]
        return [("PEXPIRE", key, ms + expires, how) for key in keys for how in ("NX", "GT")]

    def _prolong_held(self, key: str) -> None:
        """Keeps a queue with `x-expires` while a lease runs in it."""
        for queue in list(getattr(self, "_expires", {})):
            if key in self._keys(queue):
                self._prolong(self._create_lease_client(), self._lifetimes(queue, self.leases.lease_ms))

    def _prolong(self, client: Any, lifetimes: list[tuple[Any, ...]]) -> None:
        if lifetimes:
            with client.pipeline(transaction=False) as pipeline:
                for words in lifetimes:
                    pipeline.execute_command(*words)
                pipeline.execute()

    # Counting

    @cached_property
    def client(self) -> Any:
        client = self._create_client(asynchronous=True)
        # Monitors count a queue with `connection.default_channel.client.llen(queue)`.
        client.llen = self._llen
        return client

    def _llen(self, name: str) -> Any:
        """Counts the elements of a list, and the messages of the queue with this name.

        That is in all of its priorities, so that the names of their lists count nothing, and sums are right.
        """
        listed = type(self.client).llen(self.client, name)
        return listed if self.sep in bytes_to_str(name) else listed + self._size(bytes_to_str(name))

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        # That of kombu asks for keys without the global prefix.
        with self.conn_or_acquire() as client:
            return any(client.execute_command("DEHYDRATOR.LEN", key) for key in self._keys(queue))

    def _size(self, queue: str) -> int:
        """Counts the messages that no worker has: due and waiting."""
        return sum(self._free_in(key) for key in self._keys(queue))

    def _free_in(self, key: str) -> int:
        with self.conn_or_acquire() as client:
            told = pairs(client.execute_command("DEHYDRATOR.INFO", key))
        # Messages with expired leases are in both counts.
        return int(max(told["due"], told["length"] - told["leased"]))

    def _purge(self, queue: str) -> int:
        """Removes the messages that no worker has."""
        return sum(self._purge_key(key) for key in self._keys(queue))

    def _purge_key(self, key: str) -> int:
        removed, start = 0, "-"
        with self.conn_or_acquire() as client:
            while start is not None:
                start, rows = client.execute_command("DEHYDRATOR.RANGE", key, start, "+", "COUNT", BATCH)
                if free := [id for id, _, _, _, leased in rows if not leased]:
                    removed += client.execute_command("DEHYDRATOR.REM", key, *free)
        return removed
