"""The jobs of RQ's workers in tests."""

import time

from rq import get_current_job


def note(due: float, fail: int = 0) -> None:
    job = get_current_job()
    job.connection.rpush("done", f"{job.id} {time.time() - due}")
    if job.connection.llen("done") <= fail:
        raise RuntimeError("it was to fail")
