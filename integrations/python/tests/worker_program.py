"""A worker as a program, for tests that kill it: writes each job that is done to a list; those of a second or more also
when they begin. LEASE and STORE, the server of the lists, come from the environment.

usage: worker_program.py url queue sync|asyncio concurrency
"""

import asyncio
import json
import logging
import os
import sys
import time

import redis

import dehydrator_queue
import dehydrator_queue.aio

url, name, kind, concurrency = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
store = redis.Redis.from_url(os.environ.get("STORE", url))
terms = {
    "concurrency": concurrency,
    "lease": float(os.environ.get("LEASE", "1")),
    "attempts": 50,
    "backoff": dehydrator_queue.Backoff(first=0.05, most=0.2),
}


def note(what: str, *row: object) -> None:
    while True:
        try:
            store.rpush(what, json.dumps(row))
            return
        except redis.RedisError:
            time.sleep(0.05)


def begin(job: dehydrator_queue.Job) -> float:
    seconds = job.payload.get("seconds", 0)
    if seconds >= 1:
        note("noting", job.id, time.time(), os.getpid())
    return seconds


def end(job: dehydrator_queue.Job) -> None:
    if job.attempt <= job.payload.get("fail", 0):
        raise RuntimeError("it was to fail")
    note("done", job.id, job.attempt, time.time())


def work(job: dehydrator_queue.Job) -> None:
    if not job.lost.wait(begin(job)):
        end(job)


async def work_async(job: dehydrator_queue.Job) -> None:
    await asyncio.sleep(begin(job))
    end(job)


if kind == "sync":
    dehydrator_queue.Worker(dehydrator_queue.Queue(url, name), work, **terms).run()
else:

    async def main() -> None:
        await dehydrator_queue.aio.Worker(dehydrator_queue.aio.Queue(url, name), work_async, **terms).run()

    asyncio.run(main())
