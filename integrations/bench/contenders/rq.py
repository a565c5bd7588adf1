"""RQ, with its scheduler and with our queue.

Its workers don't fork for each job: that would be most of what is measured.
"""

from __future__ import annotations

import sys

from contenders.base import PROGRAMS, VISIBILITY, Contender, Program

#: Workers check every ten seconds for the jobs and the scheduler lock of dead workers. By default they check every ten
#: minutes, and not before they have waited seven minutes for a job.
SOON = ["--maintenance-interval", "10", "--worker-ttl", "25"]


class RqOnRedis(Contender):
    name = "RQ with its scheduler"
    waits = "the server; a scheduler polls every second"
    packages = ("rq", "redis")
    broker = "redis"
    scenarios = (*Contender.scenarios, "killed")
    worker = "rq.SimpleWorker"
    options: tuple[str, ...] = ("--with-scheduler",)

    @property
    def environment(self) -> dict[str, str]:
        return {"BENCH_BROKER": self.broker, "BENCH_VISIBILITY": str(VISIBILITY)}

    def workers(self, url: str, apart: bool) -> list[Program]:
        words = [str(PROGRAMS / "rq"), "worker", "--url", url, "--worker-class", self.worker]
        words += [*SOON, "--quiet", *self.options]
        return [Program(words, self.environment)] * 2

    def sender(self, url: str) -> Program:
        return Program([sys.executable, "rq_jobs.py"], self.environment)


class RqOnDehydrator(RqOnRedis):
    name = "RQ on Dehydrator"
    waits = "the server"
    packages = ("rq",)
    broker = "dehydrator"
    options = ("--queue-class", "dehydrator_queue.rq.Queue", "--job-class", "dehydrator_queue.rq.Job")
    needs_module = True


class RqWithLeases(RqOnDehydrator):
    name = "RQ on Dehydrator, workers with leases"
    scenarios = ("killed",)
    worker = "rq_worker.Worker"
