"""A worker with redis-py 8 and asyncio. README.md describes it. Replace `work`."""

import asyncio
import os
import signal
import time

import redis.asyncio as redis
from redis.exceptions import AuthorizationError

URL, QUEUE = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"), os.environ.get("QUEUE", "{jobs}")
BLOCK_MS, LEASE_MS = int(os.environ.get("BLOCK_MS", 5000)), int(os.environ.get("LEASE_MS", 60_000))
RETRY_MS, DELIVERIES = int(os.environ.get("RETRY_MS", 1000)), int(os.environ.get("DELIVERIES", 5))
PASSING = ("BUSY ", "UNBLOCKED", "NOREPLICAS", "MISCONF")
LASTING = (redis.AuthenticationError, AuthorizationError)
server, store = (redis.from_url(URL, socket_timeout=BLOCK_MS / 1000 + 5) for _ in range(2))
stopping = asyncio.Event()


async def work(id, job, deliveries):
    word, _, number = job.decode().partition(" ")
    if word == "slow":
        await asyncio.sleep(int(number) / 1000)
    if word == "fail" and deliveries <= int(number):
        raise RuntimeError("it was to fail")
    await ask(store, "SADD", f"{QUEUE}:done", f"{id.decode()} {deliveries} {time.time_ns() // 1_000_000}")


async def ask(server, *command, pause=0.05):
    while True:
        try:
            return await server.execute_command(*command)
        except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError) as error:
            passes = isinstance(error, redis.ReadOnlyError) or str(error).startswith(PASSING)
            if isinstance(error, LASTING) or isinstance(error, redis.ResponseError) and not passes:
                raise
            if stopping.is_set() and command[0] in ("DEHYDRATOR.POLL", "DEHYDRATOR.ONDUE"):
                return []
            print(f"{command[0]} again: {error}", flush=True)
        await server.connection_pool.disconnect()
        await asyncio.sleep(pause := min(2 * pause, 2))


async def main():
    for number in signal.SIGTERM, signal.SIGINT:
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await ask(server, "DEHYDRATOR.ONDUE", QUEUE, "HOLD", "DELIVERIES", DELIVERIES, "STREAM", f"{QUEUE}:dead")
    while not stopping.is_set():
        token = os.urandom(16).hex()
        lease = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", LEASE_MS, "TOKEN", token]
        for id, job, deliveries, _ in await ask(server, "DEHYDRATOR.POLL", QUEUE, *lease):
            working = asyncio.create_task(work(id, job, deliveries))
            while not (await asyncio.wait([working], timeout=LEASE_MS / 3000))[0]:
                if await ask(server, "DEHYDRATOR.RENEW", QUEUE, LEASE_MS, token, id) == [0]:
                    working.cancel()
            if error := "the lease is lost" if working.cancelled() else working.exception():
                print(f"{id!r} failed: {error}", flush=True)
                await ask(server, "DEHYDRATOR.RELEASE", QUEUE, RETRY_MS * 2 ** (deliveries - 1), token, id)
            else:
                await ask(server, "DEHYDRATOR.SETTLE", QUEUE, token, id)


asyncio.run(main())
