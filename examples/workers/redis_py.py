"""A worker with redis-py 8. README.md describes it. Replace `work`."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import redis
from redis.exceptions import AuthorizationError

URL, QUEUE = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"), os.environ.get("QUEUE", "{jobs}")
BLOCK_MS, LEASE_MS = int(os.environ.get("BLOCK_MS", 5000)), int(os.environ.get("LEASE_MS", 60_000))
RETRY_MS, DELIVERIES = int(os.environ.get("RETRY_MS", 1000)), int(os.environ.get("DELIVERIES", 5))
PASSING = ("BUSY ", "UNBLOCKED", "NOREPLICAS", "MISCONF")
LASTING = (redis.AuthenticationError, AuthorizationError)


def work(id, job, deliveries, lost):
    word, _, number = job.decode().partition(" ")
    if word == "slow" and lost.wait(int(number) / 1000):
        raise RuntimeError("the lease is lost")
    if word == "fail" and deliveries <= int(number):
        raise RuntimeError("it was to fail")
    ask(store, "SADD", f"{QUEUE}:done", f"{id.decode()} {deliveries} {time.time_ns() // 1_000_000}")


def ask(server, *command, pause=0.05):
    while True:
        try:
            return server.execute_command(*command)
        except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError) as error:
            passes = isinstance(error, redis.ReadOnlyError) or str(error).startswith(PASSING)
            if isinstance(error, LASTING) or isinstance(error, redis.ResponseError) and not passes:
                raise
            if stopping.is_set() and command[0] in ("DEHYDRATOR.POLL", "DEHYDRATOR.ONDUE"):
                return []
            print(f"{command[0]} again: {error}", flush=True)
        server.connection_pool.disconnect()
        time.sleep(pause := min(2 * pause, 2))


server, store = (redis.Redis.from_url(URL, socket_timeout=BLOCK_MS / 1000 + 5) for _ in range(2))
worker, stopping = ThreadPoolExecutor(1), threading.Event()
for number in signal.SIGTERM, signal.SIGINT:
    signal.signal(number, lambda *_: stopping.set())
ask(server, "DEHYDRATOR.ONDUE", QUEUE, "HOLD", "DELIVERIES", DELIVERIES, "STREAM", f"{QUEUE}:dead")
while not stopping.is_set():
    token, lost = os.urandom(16).hex(), threading.Event()
    lease = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", LEASE_MS, "TOKEN", token]
    for id, job, deliveries, _ in ask(server, "DEHYDRATOR.POLL", QUEUE, *lease):
        working = worker.submit(work, id, job, deliveries, lost)
        while not wait([working], LEASE_MS / 3000).done:
            if ask(server, "DEHYDRATOR.RENEW", QUEUE, LEASE_MS, token, id) == [0]:
                lost.set()
        if error := working.exception():
            print(f"{id!r} failed: {error}", flush=True)
            ask(server, "DEHYDRATOR.RELEASE", QUEUE, RETRY_MS * 2 ** (deliveries - 1), token, id)
        else:
            ask(server, "DEHYDRATOR.SETTLE", QUEUE, token, id)
