"""Makes rq-dashboard show the jobs that wait in the server. It needs no change: this is a configuration for it.

rq-dashboard --config dehydrator_queue.rq.dashboard --redis-url redis://127.0.0.1:6379/0

If you have a configuration, or use its blueprint, import this module there.
"""

from __future__ import annotations

import rq_dashboard.web

from dehydrator_queue.rq import Job, Queue, ScheduledJobRegistry

rq_dashboard.web.Job = Job
rq_dashboard.web.Queue = Queue
rq_dashboard.web.ScheduledJobRegistry = ScheduledJobRegistry
