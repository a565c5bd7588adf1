"""RQ without a scheduler: see dehydrator_queue.rq.queue."""

from dehydrator_queue.rq.queue import Job, Queue, ScheduledJobRegistry, SimpleWorker, Worker

__all__ = ["Job", "Queue", "ScheduledJobRegistry", "SimpleWorker", "Worker"]
