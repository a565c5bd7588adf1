"""The jobs of RQ's workers in tests."""

import os
import signal
import time

from rq import get_current_job

from dehydrator_queue.rq import SimpleWorker, Worker


def note(due: float, fail: int = 0) -> None:
    job = get_current_job()
    job.connection.rpush("done", f"{job.id} {time.time() - due}")
    if job.connection.llen("done") <= fail:
        raise RuntimeError("it was to fail")


class QuickWorker(Worker):
    """Its jobs come again soon, and often."""

    lease = 4.0
    kills = 100


class CautiousWorker(QuickWorker):
    kills = 2


class QuickSimpleWorker(SimpleWorker):
    lease = 4.0


def work(seconds: float) -> None:
    """Writes down when it begins and ends."""
    job = get_current_job()
    job.connection.rpush("done", f"{job.id} began {time.time()}")
    time.sleep(seconds)
    job.connection.rpush("done", f"{job.id} ended {time.time()}")


def kill_worker() -> None:
    get_current_job().connection.rpush("done", "killer began 0")
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
