"""taskiq, with the stream broker and the schedules of taskiq-redis, and with our broker."""

from __future__ import annotations

import sys

from contenders.base import PROGRAMS, VISIBILITY, Contender, Program

#: taskiq-redis has a scheduler process, which by default polls once a minute. In seconds.
UPDATE = 1


class TaskiqOnRedis(Contender):
    name = "taskiq-redis: stream broker, list schedules"
    waits = "the server; a scheduler polls every second"
    packages = ("taskiq", "taskiq-redis", "redis")
    broker = "redis"

    @property
    def environment(self) -> dict[str, str]:
        return {"BENCH_BROKER": self.broker, "BENCH_VISIBILITY": str(VISIBILITY)}

    def workers(self, url: str, apart: bool) -> list[Program]:
        words = [str(PROGRAMS / "taskiq"), "worker", "taskiq_jobs:broker", "--log-level", "WARNING", "--workers"]
        of_one = Program([*words, "1"], self.environment)
        workers = [of_one, of_one] if apart else [Program([*words, "2"], self.environment)]
        return [*workers, *self.schedulers()]

    def schedulers(self) -> list[Program]:
        words = [str(PROGRAMS / "taskiq"), "scheduler", "taskiq_jobs:scheduler", "--log-level", "WARNING"]
        return [Program([*words, "--update-interval", str(UPDATE)], self.environment)]

    def sender(self, url: str) -> Program:
        return Program([sys.executable, "taskiq_jobs.py"], self.environment)


class TaskiqOnDehydrator(TaskiqOnRedis):
    name = "taskiq on Dehydrator"
    waits = "the server"
    packages = ("taskiq",)
    broker = "dehydrator"
    needs_module = True

    def schedulers(self) -> list[Program]:
        return []
