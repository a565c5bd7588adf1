"""The jobs of a worker, whose leases must be renewed."""

from __future__ import annotations

import threading
from collections import defaultdict

from dehydrator_queue.job import Delivery, Job


class Held:
    """The current jobs, by their leases. Safe for many threads."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str, bytes], tuple[Delivery, Job]] = {}
        self._lock = threading.Lock()

    def add(self, delivery: Delivery, job: Job) -> None:
        with self._lock:
            self._jobs[delivery.key, delivery.token, delivery.id] = delivery, job

    def remove(self, delivery: Delivery) -> None:
        with self._lock:
            self._jobs.pop((delivery.key, delivery.token, delivery.id), None)

    def lose(self, key: str, token: str, id: bytes) -> Job | None:
        """Returns the job whose lease was lost, if its work still runs; only once."""
        with self._lock:
            _, job = self._jobs.pop((key, token, id), (None, None))
        if job is not None:
            job.lost.set()
        return job

    def lose_all(self) -> list[tuple[Delivery, Job]]:
        """Returns the jobs that still run, and forgets them."""
        with self._lock:
            lost, self._jobs = list(self._jobs.values()), {}
        for _, job in lost:
            job.lost.set()
        return lost

    def by_queue(self) -> dict[str, list[tuple[str, bytes]]]:
        """Returns the tokens and ids of each queue."""
        held: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
        with self._lock:
            for key, token, id in self._jobs:
                held[key].append((token, id))
        return held

    def __len__(self) -> int:
        return len(self._jobs)
