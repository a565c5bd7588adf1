"""Sidekiq, whose workers take jobs by BRPOP, and with `reliable!`."""

from __future__ import annotations

import os
from pathlib import Path

from contenders.base import JOBS, VISIBILITY, Contender, Program

SIDEKIQ = JOBS.parents[1] / "sidekiq"


def ruby() -> list[str]:
    """Returns the words of Ruby with Sidekiq, which scripts/integrations-sidekiq.sh has unpacked."""
    unpacked = Path(__file__).resolve().parents[3] / "target/integrations-sidekiq/8.1/ruby"
    return [os.environ.get("SIDEKIQ_RUBY", str(unpacked)), "-W0", "-I", str(SIDEKIQ / "lib")]


class SidekiqOnRedis(Contender):
    name = "Sidekiq"
    waits = "the server; processes poll every 5 seconds on average"
    scenarios = ("killed",)
    lease = ""

    @property
    def environment(self) -> dict[str, str]:
        return {"BENCH_LEASE": self.lease}

    def workers(self, url: str, apart: bool) -> list[Program]:
        words = [*ruby(), str(SIDEKIQ / "tests/sidekiq_program.rb"), "-r", str(JOBS / "sidekiq_jobs.rb"), "-c", "1"]
        return [Program(words, {**self.environment, "REDIS_URL": url})] * 2

    def sender(self, url: str) -> Program:
        return Program([*ruby(), "sidekiq_jobs.rb", "send"], {**self.environment, "REDIS_URL": url})

    def versions(self) -> str:
        return "sidekiq 8.1.7, ruby 3.3.8"


class SidekiqReliable(SidekiqOnRedis):
    name = "Sidekiq, `reliable!`"
    waits = "the server"
    lease = str(VISIBILITY)
    needs_module = True
