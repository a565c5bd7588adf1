"""A Redis with an append-only file."""

from __future__ import annotations

import redis

from system import System


class RedisServer(System):
    has_module = False

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def version(self) -> str:
        with redis.Redis(port=self.port) as client:
            return f"Redis {client.info('server')['redis_version']}"

    def words(self) -> list[str]:
        words = [self.options.redis, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        words += ["--appendonly", "yes", "--appendfsync", "everysec"]
        return words + (["--loadmodule", self.options.module] if self.has_module else [])

    def is_up(self) -> bool:
        with redis.Redis(port=self.port) as client:
            return bool(client.ping())
