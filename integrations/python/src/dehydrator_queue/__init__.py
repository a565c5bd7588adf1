"""Delayed jobs in Redis and Valkey, with the module Dehydrator.

    jobs = Queue("redis://127.0.0.1:6379", "jobs")
    jobs.put({"mail": "anna"}, delay=5)

    Worker(jobs, send, concurrency=20).run()

`dehydrator_queue.aio` has the same for asyncio. `dehydrator_queue.kombu`, `.dramatiq`, `.taskiq`, `.rq` and `.huey` are
for frameworks.
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036 - a checkout is used as it is, without what pip says
    raise ImportError("dehydrator_queue needs Python 3.10 or later, and this is %d.%d" % sys.version_info[:2])  # noqa: UP031

from dehydrator_queue.backoff import Backoff
from dehydrator_queue.codec import Codec, Json, Raw
from dehydrator_queue.errors import (
    DehydratorError,
    Exists,
    ModuleMissing,
    ModuleTooOld,
    NotFound,
    QueueFull,
    Reject,
    Retry,
    TookTooLong,
    TooLate,
)
from dehydrator_queue.hooks import Hooks
from dehydrator_queue.job import DeadLetter, Delivery, Item, Job, Put, Waiting
from dehydrator_queue.queue.limits import Limits
from dehydrator_queue.queue.queue import Queue
from dehydrator_queue.queue.scheduling import Schedule
from dehydrator_queue.worker.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Backoff",
    "Codec",
    "DeadLetter",
    "DehydratorError",
    "Delivery",
    "Exists",
    "Hooks",
    "Item",
    "Job",
    "Json",
    "Limits",
    "ModuleMissing",
    "ModuleTooOld",
    "NotFound",
    "Put",
    "Queue",
    "QueueFull",
    "Raw",
    "Reject",
    "Retry",
    "Schedule",
    "TooLate",
    "TookTooLong",
    "Waiting",
    "Worker",
]
