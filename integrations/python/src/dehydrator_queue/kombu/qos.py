"""Delivered and unacknowledged messages, which are held under leases in the server only."""

from __future__ import annotations

from typing import Any

from kombu.transport import virtual

from dehydrator_queue.kombu.shutdown import begun_of


class QoS(virtual.QoS):
    """Acknowledges with SETTLE, gives back with RELEASE."""

    restore_at_shutdown = True

    def ack(self, delivery_tag: str) -> None:
        super().ack(delivery_tag)
        self.channel.settle(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        if requeue:
            self.channel.leases.release(delivery_tag)
        else:
            self.channel.leases.settle(delivery_tag)
        super().ack(delivery_tag)

    def restore_unacked(self, client: Any = None) -> list[Any]:
        """Gives back the held messages, in their order of arrival. Those that a stop left unbegun count nothing."""
        self._flush()
        # If the server is gone, Celery closes a channel after its connection. Then the leases expire.
        connected = self.channel.connection is not None and self.channel.connection.client is not None
        tags = list(self._delivered)
        begun = begun_of(tags)
        # What counts nothing goes in front of all that was due in the same millisecond.
        for tag in [*(it for it in tags if it in begun), *(it for it in reversed(tags) if it not in begun)]:
            if connected:
                self.channel.leases.release(tag, counted=tag in begun)
            else:
                self.channel.leases.drop(tag)
        self._delivered.clear()
        return []

    def restore_by_tag(self, tag: str, client: Any = None, leftmost: bool = False) -> None:
        self.channel.leases.release(tag)

    def restore_visible(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: a message with an expired lease is due again by itself."""
