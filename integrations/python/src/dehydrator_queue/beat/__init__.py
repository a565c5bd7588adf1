"""Celery's beat, as many as one likes: the entries wait in the server, which gives each occurrence to one of them.

app.conf.beat_scheduler = "dehydrator_queue.beat:Scheduler"
"""

from dehydrator_queue.beat.scheduler import Scheduler

__all__ = ["Scheduler"]
