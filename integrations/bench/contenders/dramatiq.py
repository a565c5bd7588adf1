"""Dramatiq, with its RedisBroker and with ours."""

from __future__ import annotations

import sys

from contenders.base import PROGRAMS, VISIBILITY, Contender, Program


class DramatiqOnRedis(Contender):
    name = "Dramatiq on Redis"
    waits = "a worker's memory"
    packages = ("dramatiq", "redis")
    broker = "redis"

    @property
    def environment(self) -> dict[str, str]:
        return {"BENCH_BROKER": self.broker, "BENCH_VISIBILITY": str(VISIBILITY)}

    def workers(self, url: str, apart: bool) -> list[Program]:
        words = [str(PROGRAMS / "dramatiq"), "dramatiq_jobs", "--processes"]
        of_one = Program([*words, "1"], self.environment)
        return [of_one, of_one] if apart else [Program([*words, "2"], self.environment)]

    def sender(self, url: str) -> Program:
        return Program([sys.executable, "dramatiq_jobs.py"], self.environment)


class DramatiqOnDehydrator(DramatiqOnRedis):
    name = "Dramatiq on Dehydrator"
    waits = "the server"
    packages = ("dramatiq",)
    broker = "dehydrator"
    needs_module = True
