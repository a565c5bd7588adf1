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
import rq_jobs
from rq import Retry
from servers import RealServer, wait_until

from dehydrator import ModuleMissingError
from dehydrator.rq import Job, Queue


@contextmanager
def working(server: RealServer) -> Iterator[subprocess.Popen[bytes]]:
    log = (server.folder / "rq.log").open("a")
    # One that works in its own process: others fork for each job.
    classes = (
        *("--worker-class", "rq.SimpleWorker", "--queue-class", "dehydrator.rq.Queue"),
        *("--job-class", "dehydrator.rq.Job"),
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "rq.cli", "worker", "--url", server.url, *classes, "default"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=log,
        stderr=log,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def done(server: RealServer) -> list[list[str]]:
    return [line.decode().split() for line in server.client.lrange("done", 0, -1)]


@pytest.fixture
def queue(server: RealServer) -> Queue:
    if b"LIST" not in _policy(server):
        pytest.skip("this module knows no ONDUE LIST")
    return Queue(connection=redis.Redis(port=server.port))


def _policy(server: RealServer) -> bytes:
    try:
        server.client.execute_command("DEHYDRATOR.ONDUE", "probe", "LIST", "probed")
        return server.client.execute_command("DEHYDRATOR.INFO", "probe")[15]
    except redis.ResponseError:
        return b""
    finally:
        server.client.delete("probe")


def test_scheduled_jobs_are_run_once_and_none_early(server: RealServer, queue: Queue) -> None:
    with working(server):
        for n in range(10):
            due = time.time() + 1 + n / 5
            queue.enqueue_at(datetime.fromtimestamp(due, timezone.utc), rq_jobs.note, due, job_id=str(n))
        wait_until(lambda: len(done(server)) == 10, 90)
    assert sorted(id for id, _ in done(server)) == list(map(str, range(10)))
    assert min(float(late) for _, late in done(server)) >= -0.001


def test_a_retry_waits_for_its_interval_without_a_scheduler(server: RealServer, queue: Queue) -> None:
    with working(server):
        began = time.time()
        queue.enqueue(rq_jobs.note, began, fail=2, retry=Retry(max=3, interval=[1, 1]))
        wait_until(lambda: len(done(server)) == 3, 90)
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


def test_a_server_without_the_module_is_named(bare_server: RealServer) -> None:
    queue = Queue(connection=redis.Redis(port=bare_server.port))
    with pytest.raises(ModuleMissingError):
        queue.enqueue_in(timedelta(hours=1), rq_jobs.note, 0)
