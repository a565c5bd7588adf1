"""The keys that a worker polls: those of its queues, and of their schedules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dehydrator_queue.job import Delivery
from dehydrator_queue.occurrences import has_cron, require_cron
from dehydrator_queue.scheduling import Scheduling


class Rota:
    """Schedules come first, but last after a poll that gave some: one of each millisecond must not delay jobs."""

    def __init__(self, queues: Iterable[Any], schedules: bool | None) -> None:
        """`schedules`: whether to serve them; by default, if the library for cron is installed."""
        if schedules:
            require_cron()
        queues = list(queues)
        self._queues = [queue.name for queue in queues]
        serves = has_cron() if schedules is None else schedules
        schedulings: list[Scheduling] = [queue.scheduling for queue in queues]
        self._schedules = {one.key: one for one in schedulings if serves}
        #: Those whose schedules, if there are any, are not served for want of the library.
        self.unserved = schedulings if schedules is None and not serves else []
        self._queues_first = False

    @property
    def schedulings(self) -> list[Scheduling]:
        return list(self._schedules.values())

    @property
    def schedules(self) -> list[str]:
        return list(self._schedules)

    def keys(self) -> list[str]:
        """Returns the keys for the next poll."""
        return self._queues + self.schedules if self._queues_first else self.schedules + self._queues

    def scheduling(self, deliveries: list[Delivery]) -> Scheduling | None:
        """Returns what serves the deliveries of a poll if they are schedules. All are of one key."""
        found = self._schedules.get(deliveries[0].key) if deliveries else None
        self._queues_first = found is not None
        return found
