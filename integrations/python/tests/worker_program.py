"""A worker as a program, for tests that kill it: writes each job that is done to a list.

usage: worker_program.py url queue sync|asyncio [concurrency]
"""

import asyncio
import logging
import sys
import time

import redis

import dehydrator_queue
import dehydrator_queue.aio

url, name, kind, concurrency = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
store = redis.Redis.from_url(url)
terms = {
    "concurrency": concurrency,
    "lease": 1.0,
    "attempts": 50,
    "backoff": dehydrator_queue.Backoff(first=0.05, most=0.2),
}


def note(job: dehydrator_queue.Job) -> None:
    while True:
        try:
            store.rpush("done", f"{job.id} {job.attempt} {time.time()}")
            return
        except redis.RedisError:
            time.sleep(0.05)


def work(job: dehydrator_queue.Job) -> None:
    if (seconds := job.payload.get("seconds")) and job.lost.wait(seconds):
        return
    if job.attempt <= job.payload.get("fail", 0):
        raise RuntimeError("it was to fail")
    note(job)


async def work_async(job: dehydrator_queue.Job) -> None:
    await asyncio.sleep(job.payload.get("seconds", 0))
    if job.attempt <= job.payload.get("fail", 0):
        raise RuntimeError("it was to fail")
    note(job)


if kind == "sync":
    dehydrator_queue.Worker(dehydrator_queue.Queue(url, name), work, **terms).run()
else:

    async def main() -> None:
        await dehydrator_queue.aio.Worker(dehydrator_queue.aio.Queue(url, name), work_async, **terms).run()

    asyncio.run(main())
