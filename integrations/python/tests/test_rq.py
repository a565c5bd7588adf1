from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import redis
import rq
import rq_jobs
from rq import Retry
from servers import RealServer, wait_until

from dehydrator_queue import ModuleMissing
from dehydrator_queue.rq import Job, Queue


def start(server: RealServer, worker_class: str, *queues: str) -> subprocess.Popen[bytes]:
    log = (server.folder / "rq.log").open("a")
    classes = (
        *("--worker-class", worker_class, "--queue-class", "dehydrator_queue.rq.Queue"),
        *("--job-class", "dehydrator_queue.rq.Job"),
    )
    path = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    return subprocess.Popen(
        [sys.executable, "-m", "rq.cli", "worker", "--url", server.url, *classes, *(queues or ("default",))],
        env={**os.environ, "PYTHONPATH": path},
        stdout=log,
        stderr=log,
    )


@contextmanager
def working(server: RealServer, worker_class: str = "rq.SimpleWorker") -> Iterator[subprocess.Popen[bytes]]:
    """Runs a worker: by default one that works in its own process. Others fork for each job."""
    process = start(server, worker_class)
    try:
        yield process
    finally:
        stop(process)


def stop(worker: subprocess.Popen[bytes]) -> None:
    """Ends a worker: by a second signal if RQ has missed the first, which came just before it began to wait."""
    worker.send_signal(signal.SIGTERM)
    try:
        worker.wait(60)
    except subprocess.TimeoutExpired:
        worker.send_signal(signal.SIGTERM)
        worker.wait(180)


def done(server: RealServer) -> list[list[str]]:
    return [line.decode().split() for line in server.client.lrange("done", 0, -1)]


@pytest.fixture
def queue(server: RealServer) -> Queue:
    return Queue(connection=redis.Redis(port=server.port))


def test_scheduled_jobs_are_run_once_and_none_early(server: RealServer, queue: Queue) -> None:
    with working(server):
        for n in range(10):
            due = time.time() + 1 + n / 5
            queue.enqueue_at(datetime.fromtimestamp(due, timezone.utc), rq_jobs.note, due, job_id=str(n))
        wait_until(lambda: len(done(server)) == 10)
    assert sorted(id for id, _ in done(server)) == list(map(str, range(10)))
    assert min(float(late) for _, late in done(server)) >= -0.001


def test_a_retry_waits_for_its_interval_without_a_scheduler(server: RealServer, queue: Queue) -> None:
    with working(server):
        began = time.time()
        queue.enqueue(rq_jobs.note, began, fail=2, retry=Retry(max=3, interval=[1, 1]))
        wait_until(lambda: len(done(server)) == 3)
    moments = [float(late) for _, late in done(server)]
    # The server counts whole milliseconds: its clock may show the one before.
    assert moments[1] - moments[0] >= 0.999
    assert moments[2] - moments[1] >= 0.999


def test_a_job_that_is_cancelled_or_deleted_waits_no_more(server: RealServer, queue: Queue) -> None:
    first, _, third = (queue.enqueue_in(timedelta(hours=1), rq_jobs.note, 0, job_id=id) for id in "abc")
    assert queue.scheduled_job_ids() == ["a", "b", "c"]
    first.cancel()
    Job.fetch("b", connection=queue.connection).delete()
    assert queue.scheduled_job_ids() == ["c"]
    assert third.get_status() == "scheduled"
    queue.schedule_job(third, datetime.now(timezone.utc) + timedelta(hours=2))
    assert server.client.execute_command("DEHYDRATOR.PTTL", "rq:queue:default:later", "c") > 3_700_000


@pytest.mark.parametrize("cancelled_by", [rq.job.Job, Job])
def test_a_job_that_was_cancelled_by_either_class_is_not_run(
    server: RealServer, queue: Queue, cancelled_by: type[rq.job.Job]
) -> None:
    for id in ("cancelled", "kept"):
        queue.enqueue_in(timedelta(seconds=0.5), rq_jobs.note, 0, job_id=id)
    cancelled_by.fetch("cancelled", connection=queue.connection).cancel()
    with working(server):
        wait_until(lambda: done(server))
        wait_until(lambda: queue.count == 0 and server.client.llen(queue.intermediate_queue_key) == 0)
    assert [id for id, _ in done(server)] == ["kept"]


def test_a_scheduled_job_may_go_to_the_front(server: RealServer, queue: Queue) -> None:
    queue.enqueue(rq_jobs.note, 0, job_id="now")
    queue.enqueue_in(timedelta(seconds=5), rq_jobs.note, 0, job_id="behind")
    queue.enqueue_in(timedelta(seconds=6), rq_jobs.note, 0, job_id="ahead", at_front=True)
    again = queue.enqueue_in(timedelta(seconds=8), rq_jobs.note, 0, job_id="changed", at_front=True)
    assert queue.scheduled_job_ids() == ["behind", "ahead", "changed"]
    again.enqueue_at_front = False
    queue.schedule_job(again, datetime.now(timezone.utc) + timedelta(seconds=7))
    wait_until(lambda: queue.count == 4)
    assert queue.job_ids == ["ahead", "now", "behind", "changed"]


@pytest.mark.parametrize("kind", [rq.job.Job, Job])
def test_a_job_that_was_due_is_queued_since_then(server: RealServer, queue: Queue, kind: type[rq.job.Job]) -> None:
    due = datetime.now(timezone.utc) + timedelta(seconds=5)
    job = queue.enqueue_at(due, rq_jobs.note, 0, job_id="a")
    assert (job.get_status(), Job.fetch("a", connection=queue.connection).enqueued_at) == ("scheduled", None)
    wait_until(lambda: queue.count == 1)
    assert job.get_status() == "queued"
    waiting = Job.fetch("a", connection=queue.connection)
    assert (waiting.get_status(refresh=False), waiting.enqueued_at) == ("queued", due)
    found, _ = Queue.dequeue_any([queue], None, queue.connection, job_class=kind)
    assert found.enqueued_at == due
    # The other class reads it too.
    assert rq.job.Job.fetch("a", connection=queue.connection).enqueued_at == due


def test_a_server_without_the_module_is_named(bare_server: RealServer) -> None:
    queue = Queue(connection=redis.Redis(port=bare_server.port))
    with pytest.raises(ModuleMissing):
        queue.enqueue_in(timedelta(hours=1), rq_jobs.note, 0)
