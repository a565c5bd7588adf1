"""Celery, acknowledging late, on kombu's transport for Redis and on ours."""

from __future__ import annotations

import sys

from contenders.base import PROGRAMS, VISIBILITY, Contender, Program


class CeleryOnRedis(Contender):
    name = f"Celery on Redis, `visibility_timeout` {VISIBILITY} s"
    waits = "a worker's memory"
    packages = ("celery", "kombu", "redis")
    visibility = VISIBILITY
    transport = ""

    @property
    def environment(self) -> dict[str, str]:
        return {"BENCH_VISIBILITY": str(self.visibility), "BENCH_TRANSPORT": self.transport}

    def workers(self, url: str, apart: bool) -> list[Program]:
        def worker(name: str, processes: int) -> Program:
            words = [str(PROGRAMS / "celery"), "-A", "celery_jobs", "worker", "--loglevel", "WARNING"]
            return Program([*words, "--concurrency", str(processes), "-n", f"{name}@%h"], self.environment)

        return [worker("one", 1), worker("two", 1)] if apart else [worker("one", 2)]

    def sender(self, url: str) -> Program:
        return Program([sys.executable, "celery_jobs.py"], self.environment)


class CeleryOnRedisForAnHour(CeleryOnRedis):
    name = "Celery on Redis, `visibility_timeout` an hour, the default"
    visibility = 3600
    # The jobs of a killed worker would be delivered again long after the bench.
    scenarios = ("quiet",)


class CeleryOnDehydrator(CeleryOnRedis):
    name = "Celery on Dehydrator"
    waits = "the server"
    packages = ("celery", "kombu")
    transport = "dehydrator_queue.kombu:Transport"
    needs_module = True


class CeleryOnDehydratorAtIntervals(CeleryOnDehydrator):
    name = "Celery on Dehydrator, `wake-interval` 20 ms"
    server_options = ("--dehydrator.wake-interval", "20")
    scenarios = ("quiet",)
