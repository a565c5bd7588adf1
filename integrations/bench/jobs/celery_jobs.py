"""Celery. BENCH_URL is the broker; BENCH_TRANSPORT the transport, if it is not Redis's own; BENCH_VISIBILITY."""

import os

from celery import Celery

from note import note as noted
from plan import planned

app = Celery("celery_jobs", broker=os.environ["BENCH_URL"])
app.conf.update(
    broker_transport_options={"visibility_timeout": float(os.environ["BENCH_VISIBILITY"])},
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
)
if transport := os.environ.get("BENCH_TRANSPORT"):
    app.conf.broker_transport = transport


@app.task(name="note")
def note(id: str, due: float) -> None:
    noted(id, due)


if __name__ == "__main__":
    for id, due, seconds in planned():
        note.apply_async((id, due), countdown=seconds or None)
