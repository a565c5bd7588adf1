"""RQ without a scheduler: `enqueue_in`, `enqueue_at` and retries with intervals wait in the server.

    queue = Queue(connection=redis.Redis())
    queue.enqueue_in(timedelta(minutes=5), send, "anna")

and `rq worker --queue-class dehydrator.rq.Queue --job-class dehydrator.rq.Job`. When a job is due the server pushes its
id to RQ's own list (ONDUE LIST), for which RQ's workers wait.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import rq
import rq.job
from rq.job import JobStatus

from dehydrator.library import ResponseError
from dehydrator.moment import milliseconds
from dehydrator.server import explain


def waiting_key(queue_key: str) -> str:
    """Returns the key of the dehydrator that holds what a queue is to get later."""
    return f"{queue_key}:later"


class Job(rq.job.Job):
    """A job that leaves the dehydrator too when it is cancelled or deleted."""

    def _remove_from_registries(self, pipeline: Any = None, remove_from_queue: bool = True) -> None:
        super()._remove_from_registries(pipeline=pipeline, remove_from_queue=remove_from_queue)
        connection = self.connection if pipeline is None else pipeline
        key = waiting_key(f"{rq.Queue.redis_queue_namespace_prefix}{self.origin}")
        connection.execute_command("DEHYDRATOR.REM", key, self.id)


class Queue(rq.Queue):
    """A queue whose scheduled jobs wait in a dehydrator, `rq:queue:<name>:later`."""

    job_class = Job

    def schedule_job(self, job: Any, datetime: datetime, pipeline: Any = None, unique: bool = False) -> Any:
        """Puts a job away until `datetime`. One that waits under its id already takes the new moment."""
        if unique:
            raise ValueError("unique=True is not there for scheduled jobs: an id that waits already is replaced")
        key = waiting_key(self.key)
        pipe = self.connection.pipeline() if pipeline is None else pipeline
        pipe.sadd(self.redis_queues_keys, self.key)
        self._persist_job(job, pipe, status=JobStatus.SCHEDULED)
        # Said each time: somebody may have flushed the database.
        pipe.execute_command("DEHYDRATOR.ONDUE", key, "LIST", self.key)
        pipe.execute_command("DEHYDRATOR.PUSH", key, _from_now(datetime), job.id, job.id, "REPLACE")
        if pipeline is None:
            try:
                pipe.execute()
            except ResponseError as error:
                raise explain(error, "DEHYDRATOR.PUSH") from None
        return job

    def scheduled_job_ids(self) -> list[str]:
        """Returns the ids of the jobs that wait, in the order in which they are due."""
        rows = self.connection.execute_command("DEHYDRATOR.RANGE", waiting_key(self.key), "-", "+")[1]
        return [id.decode() for id, *_ in rows]


def _from_now(moment: datetime) -> int:
    """Returns how many milliseconds it is until then, by this clock. Without a time zone it is in the local one."""
    return milliseconds(moment.astimezone(timezone.utc) - datetime.now(timezone.utc))
