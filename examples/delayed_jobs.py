"""Delayed jobs: pushed now, done by any worker when they are due, and done again if the worker dies.

A worker blocks in the server until a job is due (BLOCK), and gets a lease on it (LEASE). When the job is done, the
worker settles it (SETTLE) with the token of the lease. If the worker dies first, the lease expires and the job is due
again, for another worker. So each job is done at least once. Make the work idempotent, for example by checking first
whether the id was done already.

Prints:

    anna: charge card 17
    anna: print label 18 ... and dies in the middle of it
    bert: send mail 19
    bert: print label 18 (delivery 2)
    nothing came early, nothing is left
"""

import multiprocessing
import os
import time

import redis

KEY = "demo:jobs"
# How long POLL blocks before the worker asks again.
BLOCK_MS = 10_000
# Longer than any job takes. Use about a minute for real work; long jobs extend it: RENEW key ttl token id.
LEASE_MS = 500


def connect():
    # By default, redis-py stops reading after 5 seconds and sends the command again. The timeout must be
    # longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def push(server, id, job, delay_ms):
    server.execute_command("DEHYDRATOR.PUSH", KEY, delay_ms, job, id)


def worker(name):
    server = connect()
    while True:
        # None if nothing came due within the block.
        jobs = server.execute_command(
            "DEHYDRATOR.POLL", KEY, "COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", LEASE_MS
        )
        for id, job, deliveries, token in jobs:
            work(name, job, deliveries)
            # Changes nothing if another worker has the job by now.
            server.execute_command("DEHYDRATOR.SETTLE", KEY, token, id)


def work(name, job, deliveries):
    """Does the job. In this demonstration, it kills the process at the first delivery of label 18."""
    assert now_ms() >= due[job], f"{job} came early"
    if deliveries > 1:
        print(f"{name}: {job} (delivery {deliveries})", flush=True)
    elif "label" in job:
        print(f"{name}: {job} ... and dies in the middle of it", flush=True)
        os._exit(1)
    else:
        print(f"{name}: {job}", flush=True)


def now_ms():
    return time.time_ns() // 1_000_000


# For the demonstration: the earliest time of each job, which the workers check.
due = {}


def main():
    server = connect()
    server.delete(KEY)
    for id, job, delay_ms in [
        ("mail:19", "send mail 19", 600),
        ("card:17", "charge card 17", 200),
        ("label:18", "print label 18", 400),
    ]:
        due[job] = now_ms() + delay_ms
        push(server, id, job, delay_ms)

    processes = multiprocessing.get_context("fork")
    anna = processes.Process(target=worker, args=["anna"])
    anna.start()
    anna.join()
    bert = processes.Process(target=worker, args=["bert"])
    bert.start()
    while server.execute_command("DEHYDRATOR.LEN", KEY):
        time.sleep(0.01)
    bert.terminate()
    bert.join()
    print("nothing came early, nothing is left")


if __name__ == "__main__":
    main()
