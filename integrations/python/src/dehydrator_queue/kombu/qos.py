"""Delivered and unacknowledged messages, which are held under leases in the server only."""

from __future__ import annotations

from typing import Any

from kombu.transport import virtual

from dehydrator_queue.frameworks.leases import RENEWER, Leases
from dehydrator_queue.kombu.celery_pool import begun_of


def release_in_order(leases: Leases, tags: list[str]) -> None:
    """Gives back messages, in their order of arrival. Those that are not begun count nothing."""
    begun = begun_of(tags)
    # What counts nothing goes in front of all that was due in the same millisecond.
    for tag in [*(it for it in tags if it in begun), *(it for it in reversed(tags) if it not in begun)]:
        leases.release(tag, counted=tag in begun)


class QoS(virtual.QoS):
    """Acknowledges with SETTLE, gives back with RELEASE."""

    restore_at_shutdown = True

    def can_consume(self) -> bool:
        return not self.prefetch_count or self.can_consume_max_estimate() > 0

    def can_consume_max_estimate(self) -> Any:
        """Returns how many messages there is room for. What outlived its channel takes some."""
        if not self.prefetch_count:
            return None
        held = len(self._delivered) - len(self._dirty) + RENEWER.outliving_count()
        return max(self.prefetch_count - held, 0)

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
        """Gives back the held messages. Those that run while only the connection ends keep their leases."""
        self._flush()
        channel, tags = self.channel, list(self._delivered)
        # If the server is gone, Celery closes a channel after its connection. Then the leases expire.
        connected = channel.connection is not None and channel.connection.client is not None
        left = [tag for tag in tags if tag not in channel.kept]
        if connected:
            release_in_order(channel.leases, left)
        else:
            for tag in left:
                channel.leases.drop(tag)
        self._delivered.clear()
        return []

    def restore_by_tag(self, tag: str, client: Any = None, leftmost: bool = False) -> None:
        self.channel.leases.release(tag)

    def restore_visible(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: a message with an expired lease is due again by itself."""
