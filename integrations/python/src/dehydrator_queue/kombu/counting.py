"""What a channel counts and empties."""

from __future__ import annotations

from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.objects import cached_property

from dehydrator_queue.kombu.sending import Sending
from dehydrator_queue.queue.commands import BATCH, pairs


class Counting(Sending):
    """The part of a channel that counts the messages of its queues, and removes them."""

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
