"""Counters of a worker's jobs, for Prometheus: `Worker(..., hooks=PrometheusHooks())`."""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from dehydrator_queue.hooks import Hooks
from dehydrator_queue.job import Delivery, Job


class PrometheusHooks(Hooks):
    """Logs and counts: `dehydrator_worker_jobs_total` by queue and outcome, and the duration of the work in seconds."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.jobs = Counter("dehydrator_worker_jobs", "Jobs that ended", ["queue", "outcome"], registry=registry)
        self.seconds = Histogram("dehydrator_worker_seconds", "How long the work took", ["queue"], registry=registry)
        self.interruptions = Counter(
            "dehydrator_worker_interruptions", "Commands that were sent again", registry=registry
        )

    def succeeded(self, job: Job, seconds: float) -> None:
        super().succeeded(job, seconds)
        self.jobs.labels(job.queue, "succeeded").inc()
        self.seconds.labels(job.queue).observe(seconds)

    def retried(self, job: Job, seconds: float, error: BaseException, delay: float) -> None:
        super().retried(job, seconds, error, delay)
        self.jobs.labels(job.queue, "retried").inc()
        self.seconds.labels(job.queue).observe(seconds)

    def buried(self, delivery: Delivery, reason: str, error: BaseException | None = None) -> None:
        super().buried(delivery, reason, error)
        self.jobs.labels(delivery.key, "buried").inc()

    def lost(self, job: Job) -> None:
        super().lost(job)
        self.jobs.labels(job.queue, "lost").inc()

    def interrupted(self, error: Exception) -> None:
        super().interrupted(error)
        self.interruptions.inc()
