"""RQ without a scheduler: `enqueue_in`, `enqueue_at` and retries with intervals wait in the server.

    queue = Queue(connection=redis.Redis())
    queue.enqueue_in(timedelta(minutes=5), send, "anna")

and `rq worker --queue-class dehydrator_queue.rq.Queue --job-class dehydrator_queue.rq.Job`. When a job is due the
server pushes its id to RQ's own list (ONDUE LIST), on which RQ's workers block. With `--worker-class
dehydrator_queue.rq.Worker`, the workers lease their jobs, and serve the schedules of their queues:

    queue.every("report", send, "anna", cron="0 9 * * 1-5", zone="Europe/Berlin")
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from functools import cached_property
from heapq import merge
from itertools import islice
from typing import Any

import rq
import rq.job
import rq.registry
from rq.job import JobStatus, validate_job_id
from rq.utils import as_text, utcformat, utcparse

from dehydrator_queue.frameworks.occurrences import plan_of_framework
from dehydrator_queue.options import Duration, rounded_up
from dehydrator_queue.queue.commands import BATCH, pairs
from dehydrator_queue.queue.library import ResponseError
from dehydrator_queue.queue.schedules import Schedules
from dehydrator_queue.queue.scheduling import Schedule
from dehydrator_queue.queue.server import Server, explain
from dehydrator_queue.rq.leases import Leasing
from dehydrator_queue.rq.schedules import RqScheduling, Serves

#: The field of a job's hash with the time when its dehydrator pushes it to its queue.
DUE = "dehydrator_due"


def waiting_key(queue_key: str, at_front: bool = False) -> str:
    """Returns the key of the dehydrator for a queue's delayed jobs, at its end or at its front."""
    return f"{queue_key}:later:front" if at_front else f"{queue_key}:later"


def waiting_keys(queue_key: str) -> list[str]:
    return [waiting_key(queue_key, at_front) for at_front in (False, True)]


class Job(rq.job.Job):
    """A job that is also removed from the dehydrator when cancelled or deleted, and is queued when due."""

    #: When its dehydrator pushed it to its queue, if no worker has started it since.
    pushed_at: datetime | None = None

    def _remove_from_registries(self, pipeline: Any = None, remove_from_queue: bool = True) -> None:
        super()._remove_from_registries(pipeline=pipeline, remove_from_queue=remove_from_queue)
        connection = self.connection if pipeline is None else pipeline
        for key in self._waiting_keys():
            connection.execute_command("DEHYDRATOR.REM", key, self.id)

    def _waiting_keys(self) -> list[str]:
        return waiting_keys(f"{rq.Queue.redis_queue_namespace_prefix}{self.origin}")

    def get_status(self, refresh: bool = True) -> JobStatus:
        status = super().get_status(refresh)
        if refresh and status == JobStatus.SCHEDULED and self._was_pushed():
            self._status = status = JobStatus.QUEUED
        return status

    def restore(self, raw_data: Any) -> Any:
        super().restore(raw_data)
        if self._status == JobStatus.SCHEDULED and self._was_pushed():
            self._status = JobStatus.QUEUED

    def _was_pushed(self) -> bool:
        """Returns whether its dehydrator has pushed it to its queue: the server only changes the list."""
        due = due_of(self)
        if due is None or due > datetime.now(timezone.utc):
            return False
        if any(self.connection.execute_command("DEHYDRATOR.PTTL", key, self.id) != -2 for key in self._waiting_keys()):
            return False
        self.pushed_at = self.enqueued_at = due
        return True


class Queue(rq.Queue):
    """A queue whose scheduled jobs wait in a dehydrator, `rq:queue:<name>:later`."""

    job_class = Job

    def schedule_job(self, job: Any, datetime: datetime, pipeline: Any = None, unique: bool = False) -> Any:
        """Schedules a job for `datetime`. A waiting job with its id gets the new time."""
        if unique:
            raise ValueError("unique=True is not there for scheduled jobs: an id that waits already is replaced")
        at_front = job.should_enqueue_at_front()
        key = waiting_key(self.key, at_front)
        pipe = self.connection.pipeline() if pipeline is None else pipeline
        pipe.sadd(self.redis_queues_keys, self.key)
        self._persist_job(job, pipe, status=JobStatus.SCHEDULED)
        pipe.hset(job.key, DUE, utcformat(datetime.astimezone(timezone.utc)))
        # Sent each time, because the database may have been flushed, and this may be the last job: 8 of the 60
        # microseconds that `enqueue_in` costs the server.
        pipe.execute_command("DEHYDRATOR.ONDUE", key, "LIST", self.key, "LEFT" if at_front else "RIGHT")
        pipe.execute_command("DEHYDRATOR.PUSH", key, _from_now(datetime), job.id, job.id, "REPLACE")
        pipe.execute_command("DEHYDRATOR.REM", waiting_key(self.key, not at_front), job.id)
        if pipeline is None:
            try:
                pipe.execute()
            except ResponseError as error:
                raise explain(error, "DEHYDRATOR.PUSH") from None
        return job

    def every(
        self,
        name: str,
        f: Any,
        *args: Any,
        cron: str | None = None,
        zone: str = "UTC",
        seconds: Duration | None = None,
        starting: datetime | float | None = None,
        until: datetime | float | None = None,
        times: int | None = None,
        missed: str = "one",
        **kwargs: Any,
    ) -> Schedule:
        """Makes a schedule, which enqueues a job again and again, with the id `name-milliseconds`.

        Call it at each deployment; see `Queue.every` of this package. `f`, `args` and `kwargs` are those of `enqueue`,
        options such as `job_timeout` included.
        """
        validate_job_id(name)
        plan = plan_of_framework(
            cron=cron, zone=zone, seconds=seconds, starting=starting, until=until, times=times, missed=missed
        )
        told = self.parse_args(f, *args, **kwargs)._asdict()
        if refused := [one for one in ("depends_on", "job_id", "pipeline", "rate_limit", "unique") if told.pop(one)]:
            raise ValueError(f"the jobs of a schedule have no {' and no '.join(refused)}")
        at_front = told.pop("at_front")
        job = self.create_job(**told)
        job.enqueue_at_front = at_front or None
        return self.server.follow(self.scheduling.every(name, job, plan))

    @cached_property
    def server(self) -> Server:
        return Server(self.connection, patience=10.0)

    @cached_property
    def scheduling(self) -> RqScheduling:
        return RqScheduling(self)

    @property
    def schedules(self) -> Schedules:
        """The schedules that `every` makes; their payloads are jobs without an id."""
        return Schedules(self.server, self.scheduling)

    def scheduled_job_ids(self) -> list[str]:
        """Returns the ids of the waiting jobs, in the order of their deadlines."""
        return [id for _, id in _waiting(self.connection, self.key)]

    @property
    def scheduled_job_registry(self) -> ScheduledJobRegistry:
        return ScheduledJobRegistry(queue=self, job_class=self.job_class, serializer=self.serializer)

    @classmethod
    def dequeue_any(cls, *args: Any, **options: Any) -> Any:
        """Returns the next job like RQ, except for one that was cancelled while it waited in the server."""
        while (found := super().dequeue_any(*args, **options)) is not None:
            job, queue = found
            status = job.get_status(refresh=False)
            if status == JobStatus.CANCELED:
                # RQ's list of jobs that were taken and not started.
                job.connection.lrem(queue.intermediate_queue_key, 1, job.id)
                continue
            pushed_at = due_of(job) if status == JobStatus.SCHEDULED else getattr(job, "pushed_at", None)
            if pushed_at is not None:
                job.enqueued_at = pushed_at
                job.connection.hset(job.key, "enqueued_at", utcformat(pushed_at))
            return found
        return None


class Worker(Serves, Leasing, rq.Worker):
    """RQ's worker, which leases its jobs, and serves schedules."""

    queue_class = Queue
    job_class = Job


class SimpleWorker(Serves, Leasing, rq.SimpleWorker):
    """RQ's worker that does not fork, which leases its jobs, and serves schedules."""

    queue_class = Queue
    job_class = Job


class ScheduledJobRegistry(rq.registry.ScheduledJobRegistry):
    """The jobs that wait in a queue's dehydrators, and those in RQ's own registry.

    RQ's scheduler uses RQ's class, so it leaves the dehydrators alone.
    """

    @property
    def _queue_key(self) -> str:
        return f"{rq.Queue.redis_queue_namespace_prefix}{self.name}"

    def get_job_count(self, cleanup: bool = True) -> int:
        waiting = (self.connection.execute_command("DEHYDRATOR.LEN", key) for key in waiting_keys(self._queue_key))
        return int(super().get_job_count(cleanup) + sum(waiting))

    def get_job_ids(self, start: int = 0, end: int = -1, desc: bool = False, cleanup: bool = True) -> list[str]:
        """Returns the ids by rank, as ZRANGE does. It reads those before them too."""
        count = self.get_job_count(cleanup) if desc or start < 0 or end < 0 else 0
        first, last = (rank + count if rank < 0 else rank for rank in (start, end))
        if desc:
            first, last = count - 1 - last, count - 1 - first
        ids = [id for _, id in islice(self._by_deadline(), max(0, first), max(0, last + 1))]
        return ids[::-1] if desc else ids

    def _by_deadline(self) -> Iterator[tuple[float, str]]:
        own: Any = self.connection.zrange(self.key, 0, -1, withscores=True)
        return merge(((score * 1000, as_text(id)) for id, score in own), _waiting(self.connection, self._queue_key))

    def __contains__(self, item: Any) -> bool:
        return super().__contains__(item) or self._deadline(item) is not None

    def get_scheduled_time(self, job_or_id: Any) -> datetime:
        deadline = self._deadline(job_or_id)
        if deadline is None:
            return super().get_scheduled_time(job_or_id)
        return datetime.fromtimestamp(deadline / 1000, timezone.utc)

    def _deadline(self, job_or_id: Any) -> int | None:
        id = job_or_id.id if isinstance(job_or_id, rq.job.Job) else job_or_id
        for key in waiting_keys(self._queue_key):
            if (told := self.connection.execute_command("DEHYDRATOR.LOOK", key, id, "FULL")) is not None:
                return int(pairs(told)["deadline"])
        return None

    def remove(self, job: Any, pipeline: Any = None, delete_job: bool = False) -> Any:
        id = job.id if isinstance(job, rq.job.Job) else job
        for key in waiting_keys(self._queue_key):
            (self.connection if pipeline is None else pipeline).execute_command("DEHYDRATOR.REM", key, id)
        return super().remove(job, pipeline, delete_job)


def _waiting(connection: Any, queue_key: str) -> Iterator[tuple[int, str]]:
    """Yields the deadlines, in ms, and ids of the jobs in a queue's dehydrators, in the order of deadlines."""

    def rows_of(key: str) -> Iterator[tuple[int, str]]:
        start: Any = "-"
        while start is not None:
            start, rows = connection.execute_command("DEHYDRATOR.RANGE", key, start, "+", "COUNT", BATCH)
            yield from ((deadline, as_text(id)) for id, deadline, *_ in rows)

    return merge(*map(rows_of, waiting_keys(queue_key)), key=lambda row: row[0])


def due_of(job: Any) -> datetime | None:
    """Returns the deadline of a job, if it was scheduled in a dehydrator."""
    due = job.connection.hget(job.key, DUE)
    return utcparse(as_text(due)) if due is not None else None


def _from_now(moment: datetime) -> int:
    """Returns the milliseconds until then, by this clock. Times without a time zone are local."""
    return rounded_up((moment.astimezone(timezone.utc) - datetime.now(timezone.utc)).total_seconds())
