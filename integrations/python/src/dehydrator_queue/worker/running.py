"""The jobs that a worker runs: their leases are renewed, and they may take only so long."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable

from dehydrator_queue.job import LATE, STOPPED, Delivery, Job

Lease = tuple[str, str, bytes]


class Running:
    """The current jobs, by their leases. Safe for many threads."""

    def __init__(self) -> None:
        self._jobs: dict[Lease, tuple[Delivery, Job, float]] = {}
        self._lock = threading.Lock()

    def add(self, delivery: Delivery, job: Job) -> None:
        with self._lock:
            self._jobs[delivery.key, delivery.token, delivery.id] = delivery, job, math.inf

    def bound(self, delivery: Delivery, seconds: float) -> None:
        """Sets after how many seconds the work of a job has taken too long."""
        lease = delivery.key, delivery.token, delivery.id
        with self._lock:
            if (it := self._jobs.get(lease)) is not None:
                self._jobs[lease] = *it[:2], time.monotonic() + seconds

    def remove(self, delivery: Delivery) -> bool:
        """Forgets a job whose work has ended; returns whether it was still the worker's."""
        with self._lock:
            return self._jobs.pop((delivery.key, delivery.token, delivery.id), None) is not None

    def lose(self, key: str, token: str, id: bytes, why: str) -> Job | None:
        """Returns the job whose lease was lost, if its work still runs; only once."""
        with self._lock:
            _, job, _ = self._jobs.pop((key, token, id), (None, None, None))
        if job is not None:
            job.lost.tell(why)
        return job

    def lose_some(self, *, by: float = math.inf, keep: bool = False) -> list[tuple[Delivery, Job]]:
        """Returns the jobs that still run and have taken too long at that time, and forgets them, unless `keep`."""
        with self._lock:
            some = [(lease, delivery, job) for lease, (delivery, job, end) in self._jobs.items() if end <= by]
            for lease, delivery, job in some:
                if keep:
                    self._jobs[lease] = delivery, job, math.inf
                else:
                    del self._jobs[lease]
                job.late = by < math.inf
        for _, _, job in some:
            job.lost.tell(LATE if job.late else STOPPED)
        return [(delivery, job) for _, delivery, job in some]

    def ends(self) -> float:
        """Returns when the first of the jobs has taken too long."""
        with self._lock:
            return min((end for _, _, end in self._jobs.values()), default=math.inf)

    def by_key(self) -> dict[str, list[tuple[str, bytes]]]:
        """Returns the tokens and ids of each key."""
        held: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
        with self._lock:
            for key, token, id in self._jobs:
                held[key].append((token, id))
        return held

    def of(self, key: str, ids: Iterable[bytes]) -> list[tuple[str, bytes]]:
        """Returns the tokens and ids of these jobs, as far as they run here."""
        named = set(ids)
        with self._lock:
            return [(token, id) for there, token, id in self._jobs if there == key and id in named]

    def __len__(self) -> int:
        return len(self._jobs)
