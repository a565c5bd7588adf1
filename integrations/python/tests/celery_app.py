"""A Celery application for tests. URL, OPTIONS and BEAT (JSON), LATE and the rest come from the environment."""

import json
import os
import time

import celery
import kombu
import redis

import dehydrator_queue.kombu  # noqa: F401

url = os.environ["URL"]
app = celery.Celery("celery_app", broker=os.environ.get("BROKER", f"{url}/0"), backend=f"{url}/1")
app.conf.update(
    broker_transport=os.environ.get("TRANSPORT", "dehydrator_queue.kombu:Transport"),
    task_queues=[kombu.Queue(name) for name in os.environ.get("QUEUES", "").split()] or None,
    broker_transport_options=json.loads(os.environ.get("OPTIONS", '{"visibility_timeout": 1, "lease": 60}')),
    task_acks_late=os.environ.get("LATE") == "1",
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=int(os.environ.get("PREFETCH", "4")),
    broker_connection_retry_on_startup=True,
    worker_cancel_long_running_tasks_on_connection_loss=os.environ.get("CANCEL") == "1",
    worker_hijack_root_logger=False,
    beat_scheduler="dehydrator_queue.beat:Scheduler",
    beat_schedule=json.loads(os.environ.get("BEAT", "{}")),
    dehydrator_beat_missed=os.environ.get("MISSED"),
)
store = redis.Redis.from_url(f"{url}/2")


@app.task
def note(name: str, due: float = 0.0, seconds: float = 0.0) -> str:
    if seconds >= 1:
        # Of its main process, which leads the group.
        store.rpush("noting", json.dumps([name, time.time(), os.getpgrp()]))
    time.sleep(seconds)
    while True:
        try:
            store.rpush("done", json.dumps([name, due, time.time()]))
            return name
        except redis.RedisError:
            time.sleep(0.1)


@app.task(bind=True, max_retries=3)
def flaky(self, name: str) -> str:
    if self.request.retries < 2:
        raise self.retry(countdown=0.3)
    store.rpush("done", json.dumps([name, 0, time.time()]))
    return name


@app.task(bind=True)
def waits(self) -> None:
    """Is given back for an hour."""
    raise self.retry(countdown=3600)


@app.task(bind=True)
def endless(self, name: str) -> None:
    """Ends only at a redelivery."""
    store.rpush("begun", os.getpid())
    if not self.request.delivery_info["redelivered"]:
        time.sleep(600)
    store.rpush("done", json.dumps([name, 0, time.time()]))
