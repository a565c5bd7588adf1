"""A pause: while an operator repairs a system that the workers need, nothing is delivered and nothing is lost.

Programs keep pushing, and workers stay blocked in the server: no need to stop or start them. A pause with a duration
ends by itself, so a forgotten one does no harm. It survives restarts and failovers. Workers finish and settle the jobs
that they have.

Prints:

    worker: job 1
    operator: paused, until it is resumed; 2 jobs wait
    worker: settles what it had in hand
    operator: resumed
    worker: job 2
    worker: job 3
    operator: paused for 300 ms
    worker: job 4, 300 ms later
"""

import os
import threading
import time

import redis

KEY = "demo:jobs"
BLOCK_MS = 10_000


def connect():
    # The read timeout must be longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def next_job(server):
    options = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", 60_000]
    return server.execute_command("DEHYDRATOR.POLL", KEY, *options)[0]


def push(server, number):
    server.execute_command("DEHYDRATOR.PUSH", KEY, 0, f"job {number}", number)


def info(server):
    fields = server.execute_command("DEHYDRATOR.INFO", KEY)
    return fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2]))


def work(asleep, resumed):
    server = connect()
    id, job, _deliveries, token = next_job(server)
    print(f"worker: {job}")
    asleep.wait()
    server.execute_command("DEHYDRATOR.SETTLE", KEY, token, id)
    print("worker: settles what it had in hand")
    resumed.release()
    for _ in range(2):
        # It blocks during the pause.
        id, job, _deliveries, token = next_job(server)
        server.execute_command("DEHYDRATOR.SETTLE", KEY, token, id)
        print(f"worker: {job}")


def main():
    server = connect()
    server.delete(KEY)
    paused, settled = threading.Event(), threading.Semaphore(0)
    push(server, 1)
    worker = threading.Thread(target=work, args=[paused, settled])
    worker.start()
    while not info(server)["given-out"]:
        time.sleep(0.01)

    server.execute_command("DEHYDRATOR.PAUSE", KEY)
    push(server, 2)
    push(server, 3)
    assert info(server)["paused"] == 1
    print(f"operator: paused, until it is resumed; {info(server)['due']} jobs wait")
    paused.set()
    settled.acquire()
    time.sleep(0.2)
    assert info(server)["due"] == 2, "a job was delivered during a pause"
    print("operator: resumed")
    server.execute_command("DEHYDRATOR.RESUME", KEY)
    worker.join()

    # Read the clock before the server does, however long the reply takes.
    started = time.monotonic()
    server.execute_command("DEHYDRATOR.PAUSE", KEY, "FOR", 300)
    push(server, 4)
    print("operator: paused for 300 ms")
    id, job, _deliveries, token = next_job(server)
    # The server counts whole milliseconds.
    assert time.monotonic() - started >= 0.298, "it came early"
    server.execute_command("DEHYDRATOR.SETTLE", KEY, token, id)
    print(f"worker: {job}, 300 ms later")
    server.delete(KEY)


if __name__ == "__main__":
    main()
