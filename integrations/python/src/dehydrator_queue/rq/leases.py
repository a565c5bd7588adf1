"""Leases for RQ's workers, whose queues are lists.

A worker that takes a job puts its id into the dehydrator `rq:queue:<name>:held`, in the same step. The server pushes it
back to the front of the list when the lease ends. The worker renews the lease while it lives, and removes the element
when the job is done, in RQ's own transaction.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Sequence
from typing import Any

import rq
import rq.job
from rq.exceptions import DequeueTimeout, NoSuchJobError
from rq.executions import Execution
from rq.job import JobStatus
from rq.utils import as_text
from rq.worker import WorkerStatus

from dehydrator_queue.frameworks.leases import RENEWER, Lease, Leases
from dehydrator_queue.job import id_bytes
from dehydrator_queue.options import Duration, milliseconds
from dehydrator_queue.queue.commands import new_token
from dehydrator_queue.queue.library import reply_in
from dehydrator_queue.rq.arrivals import Arrivals

log = logging.getLogger("dehydrator_queue")

#: The field of a job's hash with its last lease: the token, the id of the execution, and how many workers died before.
LEASE = "dehydrator_lease"

#: Takes the first id of the first list that has one. KEYS: the lists, and the dehydrators of their leases.
#: ARGV: the token, the lease in ms. Safe to resend.
TAKE = """
local lists = #KEYS / 2
for i = 1, lists do
    local id = redis.call('DEHYDRATOR.LOOK', KEYS[lists + i], ARGV[1])
    if id then return {KEYS[i], id} end
end
for i = 1, lists do
    local id = redis.call('LINDEX', KEYS[i], 0)
    if id then
        -- Sent each time, because the database may have been flushed.
        redis.call('DEHYDRATOR.ONDUE', KEYS[lists + i], 'LIST', KEYS[i], 'LEFT')
        redis.call('DEHYDRATOR.PUSH', KEYS[lists + i], ARGV[2], id, ARGV[1])
        redis.call('LPOP', KEYS[i])
        return {KEYS[i], id}
    end
end
return false
"""


def held_key(queue_key: str) -> str:
    """Returns the key of the dehydrator with the jobs that workers have."""
    return f"{queue_key}:held"


class Renewals(Leases):
    """Renews leases on a connection of its own, whose replies must come soon."""

    def __init__(self, pool: Any, lease_ms: int) -> None:
        super().__init__(lambda: None, lease_ms)
        self._pool = pool
        self._connection: Any = None

    def _renew(self, key: str, some: list[tuple[str, Lease]]) -> None:
        if self._connection is None:
            self._connection = self._pool.make_connection()
            self._connection.socket_timeout = reply_in(self.lease_ms)
        for tag, lease in some:
            try:
                self._connection.send_command("DEHYDRATOR.TOUCH", key, self.lease_ms, lease.id)
                renewed = self._connection.read_response()
            except BaseException:
                self._connection.disconnect()
                raise
            if not renewed and self.drop(tag) is not None:
                log.warning("%s: the lease of %s ran out, and it is in its list again", key, tag)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()


class Hand:
    """The job that a worker has, under a lease."""

    def __init__(self, connection: Any, lease_ms: int) -> None:
        self._connection = connection
        self._take = connection.register_script(TAKE)
        self._arrivals = Arrivals(connection.connection_pool)
        self._renewals = Renewals(connection.connection_pool, lease_ms)
        self._token = new_token()
        self._keys: Sequence[str] = ()
        #: Read in the horse too.
        self.held: Lease | None = None
        self.job_id: str | None = None
        RENEWER.watch(self._renewals)

    def take(self, queue_keys: Sequence[str], timeout: float | None) -> tuple[str, str] | None:
        """Returns the key of a list and the id that was its first; None, or DequeueTimeout, as RQ's `lpop`."""
        if timeout == 0:
            raise ValueError("RQ has no indefinite timeouts")
        if self.held is not None:
            # Its job was deleted or cancelled: RQ asks again.
            self._connection.execute_command("DEHYDRATOR.REM", self.held.key, self.held.id)
            self.drop()
        self._keys = [held_key(key) for key in queue_keys]
        end = time.monotonic() + (timeout or 0)
        while True:
            found = self._take(keys=[*queue_keys, *self._keys], args=[self._token, self._renewals.lease_ms])
            if found is not None:
                return self._hold(*map(as_text, found))
            if timeout is None:
                return None
            left = end - time.monotonic()
            if left <= 0:
                raise DequeueTimeout(timeout, queue_keys)
            self._arrivals.wait(queue_keys, left)

    def _hold(self, queue_key: str, job_id: str) -> tuple[str, str]:
        self.held = Lease(held_key(queue_key), id_bytes(self._token), self._token, 1)
        self.job_id = job_id
        self._renewals.add(job_id, self.held)
        self._token = new_token()
        return queue_key, job_id

    def drop(self) -> None:
        """Forgets the job: it is settled, or its lease runs out."""
        if self.job_id is not None:
            self._renewals.drop(self.job_id)
        self.held = self.job_id = None

    def put_back(self) -> None:
        """Gives a job back that was not begun, as a connection broke, or the worker stops. It comes again at once."""
        if self.held is not None:
            self._connection.execute_command("DEHYDRATOR.TOUCH", self.held.key, 0, self.held.id)
            self.drop()

    def close(self, *, give_back: bool) -> None:
        """`give_back`: what it has, or may have without knowing, comes again at once."""
        if give_back:
            self.put_back()
            # A reply may have been lost.
            for key in self._keys:
                self._connection.execute_command("DEHYDRATOR.TOUCH", key, 0, self._token)
        self.drop()
        self._arrivals.close()
        self._renewals.close()


def taking(queue_class: Any, hand: Hand) -> Any:
    """Returns a class of queues whose jobs are taken into that hand."""

    class Queue(queue_class):  # type: ignore[misc]
        @classmethod
        def dequeue_any(cls, *args: Any, **options: Any) -> Any:
            hand.put_back()
            return super().dequeue_any(*args, **options)

        @classmethod
        def lpop(cls, queue_keys: Sequence[str], timeout: int | None, connection: Any = None) -> Any:
            return hand.take(queue_keys, timeout)

        @classmethod
        def lmove(cls, connection: Any, queue_key: str, timeout: int | None) -> Any:
            return hand.take([queue_key], timeout)

    return Queue


class Leasing(rq.worker.BaseWorker):
    """A worker that leases its jobs: those of a killed one come again. A subclass can set `lease` and `kills`."""

    #: Seconds after which the job of a killed worker comes again.
    lease: Duration = 30.0

    #: A job fails when this many workers died while they had it.
    kills = 3

    _hand: Hand | None = None
    _deaths = 0

    def bootstrap(self, *args: Any, **options: Any) -> None:
        super().bootstrap(*args, **options)
        self._hand = Hand(self.connection, milliseconds("lease", self.lease, 100))
        self.queue_class = taking(self.queue_class, self._hand)

    def execute_job(self, job: Any, queue: Any) -> None:
        assert self._hand is not None
        self._deaths = self._count_deaths(job)
        if self._deaths >= self.kills:
            self.handle_job_failure(job, queue, exc_string=f"{self._deaths} workers died while they had this job")
        else:
            super().execute_job(job, queue)
        self._hand.drop()

    def set_state(self, state: Any, pipeline: Any = None) -> None:
        """Sets it; writes the lease down, in the transaction that begins an execution."""
        super().set_state(state, pipeline)
        if (
            state == WorkerStatus.BUSY
            and pipeline is not None
            and self._hand is not None
            and self._hand.held is not None
        ):
            for execution in self.executions.values():
                told = f"{self._hand.held.token}:{execution.id}:{self._deaths}"
                pipeline.hset(self.job_class.key_for(execution.job_id), LEASE, told)

    def cleanup_execution(self, job: Any, pipeline: Any, execution: Any = None) -> None:
        super().cleanup_execution(job, pipeline, execution)
        if self._hand is not None and self._hand.held is not None and self._hand.job_id == job.id:
            pipeline.execute_command("DEHYDRATOR.REM", self._hand.held.key, self._hand.held.id)
            pipeline.hdel(job.key, LEASE)

    def clean_registries(self) -> None:
        """Cleans them like RQ, which fails jobs whose execution has expired: not those that wait, or run, again."""
        for queue in self.queues:
            for id, execution_id in queue.started_job_registry.get_job_and_execution_ids(cleanup=False):
                with contextlib.suppress(NoSuchJobError):
                    job = self.job_class.fetch(id, connection=self.connection, serializer=self.serializer)
                    self._count_deaths(job, execution_id)
        super().clean_registries()

    def _count_deaths(self, job: Any, execution_id: str | None = None) -> int:
        """Returns how many workers have died with a job that came again, and removes its last execution.

        `execution_id`: only if that is the last one.
        """
        told = self.connection.hget(job.key, LEASE)
        if told is None:
            return 0
        token, last, deaths = as_text(told).split(":")
        key = held_key(f"{rq.Queue.redis_queue_namespace_prefix}{job.origin}")
        if execution_id not in (None, last) or self.connection.execute_command("DEHYDRATOR.LOOK", key, token):
            return 0
        execution = Execution(last, job.id, self.connection, job.worker_name or "")
        died = self.connection.zscore(job.started_job_registry.key, execution.composite_key) is not None
        if died:
            with self.connection.pipeline() as pipeline:
                execution.delete(job, pipeline)
                pipeline.hset(job.key, LEASE, f"{token}:{last}:{int(deaths) + 1}")
                pipeline.execute()
        return int(deaths) + died

    def teardown(self) -> None:
        if self._hand is not None and not self.is_horse:
            try:
                self._give_back(self._hand)
            except Exception as error:
                log.warning("a job may come again only when its lease ends: %r", error)
        super().teardown()

    def _give_back(self, hand: Hand) -> None:
        """Gives the job back of a worker that was stopped at once, uncounted."""
        if working := self._has_horse():
            log.warning("the horse of %s is left behind: its job comes again if that takes longer", hand.job_id)
        elif hand.job_id is not None:
            with self.connection.pipeline() as pipeline, contextlib.suppress(NoSuchJobError):
                job = self.job_class.fetch(hand.job_id, connection=self.connection, serializer=self.serializer)
                for execution in list(self.executions.values()):
                    execution.delete(job, pipeline)
                job.set_status(JobStatus.QUEUED, pipeline=pipeline)
                pipeline.execute()
        hand.close(give_back=not working)

    def _has_horse(self) -> bool:
        if not self.horse_pid:
            return False
        try:
            os.kill(self.horse_pid, 0)
        except OSError:
            return False
        return True
