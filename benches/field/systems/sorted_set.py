"""What users write themselves: a sorted set and a hash, and a script that a worker runs every 100 ms."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import redis

from system import Client, payload
from systems.redis_server import RedisServer

#: Takes one due job. It waits in a second sorted set until it is settled, or its lease of a minute ends.
TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)
if not due[1] then
    return false
end
redis.call('ZREM', KEYS[1], due[1])
redis.call('ZADD', KEYS[2], now + 60000, due[1])
return { due[1], redis.call('HGET', KEYS[3], due[1]) }
"""
POLL_EVERY = 0.1


class Jobs(Client):
    def __init__(self, port: int) -> None:
        self._redis = redis.Redis(port=port)
        self._take = self._redis.register_script(TAKE)

    def put(self, number: int, delay: float) -> int:
        self.put_many(range(number, number + 1), delay)
        return number

    def put_many(self, numbers: range, delay: float) -> None:
        due = (time.time() + delay) * 1000
        for start in range(numbers.start, numbers.stop, 1000):
            with self._redis.pipeline() as pipeline:
                for number in range(start, min(start + 1000, numbers.stop)):
                    pipeline.hset("jobs:payloads", str(number), payload(number))
                    pipeline.zadd("jobs", {str(number): due})
                pipeline.execute()

    def cancel(self, job: int) -> None:
        self._remove("jobs", str(job))

    def _remove(self, key: str, number: str | bytes) -> None:
        with self._redis.pipeline() as pipeline:
            pipeline.zrem(key, number).hdel("jobs:payloads", number).execute()

    def work(self, done: Callable[[int], None], stopping: threading.Event) -> None:
        while not stopping.is_set():
            if found := self._take(keys=["jobs", "jobs:held", "jobs:payloads"]):
                done(int(found[1]))
                self._remove("jobs:held", found[0])
            else:
                stopping.wait(POLL_EVERY)

    def close(self) -> None:
        self._redis.close()


class SortedSet(RedisServer):
    name = "sorted set, Lua every 100 ms"

    def client(self) -> Client:
        return Jobs(self.port)
