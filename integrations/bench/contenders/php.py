"""Laravel and Symfony's Messenger, with their own drivers for Redis and with ours.

Their workers sleep after they have found nothing: Laravel's for 3 seconds by default, Messenger's for one. Here it is
50 ms with their own drivers, and with ours nothing, as the workers wait in the server.
"""

from __future__ import annotations

import subprocess
from functools import cache

from contenders.base import VISIBILITY, Contender, Program

NAMES = {
    "php-laravel-framework": "laravel",
    "php-symfony-messenger": "messenger",
    "php-cli": "php",
    "php-redis": "phpredis",
}


@cache
def packages() -> str:
    words = ["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *NAMES]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    versions = dict(line.split() for line in told.splitlines())
    return ", ".join(f"{name} {plain(versions[package])}" for package, name in NAMES.items())


def plain(version: str) -> str:
    """Returns a version without what Debian adds."""
    return version.split(":")[-1].split("+")[0].split("-")[0]


class LaravelOnRedis(Contender):
    name = "Laravel on Redis, `--sleep=0.05`"
    waits = "the server; workers poll"
    scenarios = ("killed",)
    driver, sleep = "redis", "0.05"

    @property
    def environment(self) -> dict[str, str]:
        return {"RETRY_AFTER": str(VISIBILITY)}

    def workers(self, url: str, apart: bool) -> list[Program]:
        words = ["php", "laravel_jobs.php", "queue:work", self.driver, f"--sleep={self.sleep}", "--tries=100"]
        return [Program(words, self.environment)] * 2

    def sender(self, url: str) -> Program:
        return Program(["php", "laravel_jobs.php", "send", self.driver], self.environment)

    def versions(self) -> str:
        return packages()


class LaravelOnDehydrator(LaravelOnRedis):
    name = "Laravel on Dehydrator"
    waits = "the server"
    driver, sleep = "dehydrator", "0"
    needs_module = True


class MessengerOnRedis(Contender):
    name = "Messenger on Redis, `sleep` 50 ms"
    waits = "the server; workers poll"
    scenarios = ("killed",)
    sleep = 50_000
    scheme = "redis"
    options = f"redeliver_timeout={VISIBILITY}&claim_interval=1000&delete_after_ack=1"

    @property
    def environment(self) -> dict[str, str]:
        return {"BENCH_OPTIONS": self.options, "BENCH_SLEEP": str(self.sleep), "BENCH_SCHEME": self.scheme}

    def workers(self, url: str, apart: bool) -> list[Program]:
        return [Program(["php", "messenger_jobs.php", "work"], self.environment)] * 2

    def sender(self, url: str) -> Program:
        return Program(["php", "messenger_jobs.php", "send"], self.environment)

    def versions(self) -> str:
        return packages()


class MessengerOnDehydrator(MessengerOnRedis):
    name = "Messenger on Dehydrator"
    waits = "the server"
    sleep, scheme = 0, "dehydrator"
    options = f"redeliver_timeout={VISIBILITY}&block_timeout=1"
    needs_module = True
