"""Priorities: a worker does urgent jobs first, and blocks on all queues at once.

There is one queue per priority. One command, MPOLL, takes from the first queue that has a due element. An idle worker
wakes when an element comes due in any of them. A second worker uses the opposite order, so that low priorities make
progress even under a constant urgent load. In a cluster, the braces keep the queues on one node.

Prints:

    worker: password of anna (high)
    worker: password of bert (high)
    worker: newsletter 17 (low)
    worker: newsletter 18 (low)
    worker sleeps
    worker: newsletter 19 (low), 200 ms later
    worker: password of carl (high)
    helper: newsletter 20 (low)
    worker: password of dora (high)
"""

import os
import time

import redis

HIGH, LOW = "{demo:mails}:high", "{demo:mails}:low"
BLOCK_MS, LEASE_MS = 10_000, 60_000


def connect():
    # The read timeout must be longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def push(server, queue, mail, ms=0):
    server.execute_command("DEHYDRATOR.PUSH", queue, ms, mail, mail)


def work_once(server, queues):
    """Does one job. Returns its name and queue, or None if nothing was due within the block."""
    options = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", LEASE_MS]
    given = server.execute_command("DEHYDRATOR.MPOLL", len(queues), *queues, *options)
    if given is None:
        return None
    queue, [[id, mail, _deliveries, token]] = given
    # Do the work here. Settle an element in the queue that it came from.
    assert server.execute_command("DEHYDRATOR.SETTLE", queue, token, id) == [1]
    return f"{mail} ({queue.rsplit(':')[-1]})"


def push_and_sleep(server, mail, ms):
    # Read the clock before the server does, however long the reply takes.
    started = time.monotonic()
    push(server, LOW, mail, ms)
    print("worker sleeps")
    done = work_once(server, [HIGH, LOW])
    # The server counts whole milliseconds.
    assert time.monotonic() - started >= (ms - 2) / 1000, "it came early"
    print(f"worker: {done}, {ms} ms later")


def main():
    server = connect()
    server.delete(HIGH, LOW)
    for number in [17, 18]:
        push(server, LOW, f"newsletter {number}")
    for name in ["anna", "bert"]:
        push(server, HIGH, f"password of {name}")
    for _ in range(4):
        print("worker:", work_once(server, [HIGH, LOW]))

    push_and_sleep(server, "newsletter 19", ms=200)
    push(server, LOW, "newsletter 20", ms=600_000)
    push(server, HIGH, "password of carl")
    print("worker:", work_once(server, [HIGH, LOW]))

    push(server, HIGH, "password of dora")
    server.execute_command("DEHYDRATOR.TOUCH", LOW, 0, "newsletter 20")
    print("helper:", work_once(server, [LOW, HIGH]))
    print("worker:", work_once(server, [HIGH, LOW]))
    assert not server.exists(HIGH, LOW)


if __name__ == "__main__":
    main()
