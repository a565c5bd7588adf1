"""Delayed jobs: put away now, done when they are due, by any worker; done again if the worker dies.

A worker sleeps in the server until a job is due (BLOCK), and gets it on loan (LEASE). Only when the
job is done does the worker settle it (SETTLE), with the token of the loan. If the worker dies before that, the lease runs out and the job
is due again, for another worker. So each job is done at least once: make the work such that twice is
no harm, for example by asking first whether the job's id has been done.

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
# How long a worker sleeps in the server before it asks again.
BLOCK_MS = 10_000
# Longer than any job takes. For real work rather a minute; long jobs renew it: RENEW key ms token id.
LEASE_MS = 500


def connect():
    # redis-py gives up a read after 5 seconds, unless told otherwise, and sends the command again. The
    # timeout must be longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def push(server, id, job, delay_ms):
    server.execute_command("DEHYDRATOR.PUSH", KEY, delay_ms, job, id)


def worker(name):
    server = connect()
    while True:
        # None when the block has run out and nothing was due.
        jobs = server.execute_command(
            "DEHYDRATOR.POLL", KEY, "COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", LEASE_MS
        )
        for id, job, deliveries, token in jobs or []:
            work(name, job, deliveries)
            # Settles nothing if another worker has the job by now.
            server.execute_command("DEHYDRATOR.SETTLE", KEY, token, id)


def work(name, job, deliveries):
    """What the job is. This one kills the process when it meets label 18 for the first time."""
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


# The demonstration: when each job may be done at the earliest, which the workers check.
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
