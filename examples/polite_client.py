"""A polite API client: it respects the rate limit of an external service, however many callers there are.

The limit belongs to the queue, not to each caller. Any number of callers on any number of machines block on one key, and
the server delivers at most the configured number of calls in any window (LIMIT ... RATE). No caller needs to count or to
poll. A caller can give back a call that the service refuses, to make it later.

Prints:

    12 calls wait for 4 callers, 4 calls in any 300 ms are allowed
    made: 12 calls, each once
    the most in any 300 ms: 4
"""

import os
import threading

import redis

CALLS = "demo:calls"
RATE, PER_MS = 4, 300
BLOCK_MS = 2000


def connect():
    # The read timeout must be longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def caller(made):
    server = connect()
    while True:
        options = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", 60_000]
        jobs = server.execute_command("DEHYDRATOR.POLL", CALLS, *options)
        if not jobs:
            return
        for id, call, _deliveries, token in jobs:
            # The server knows when the lease began: its deadline minus its length.
            details = server.execute_command("DEHYDRATOR.LOOK", CALLS, id, "FULL")
            if not isinstance(details, dict):
                details = dict(zip(details[::2], details[1::2]))
            made.append((details["deadline"] - 60_000, call))
            server.execute_command("DEHYDRATOR.SETTLE", CALLS, token, id)


def main():
    server = connect()
    server.delete(CALLS)
    server.execute_command("DEHYDRATOR.LIMIT", CALLS, "RATE", RATE, "PER", PER_MS)
    for n in range(12):
        server.execute_command("DEHYDRATOR.PUSH", CALLS, 0, f"call {n}", f"id-{n}", "NX")
    print(f"12 calls wait for 4 callers, {RATE} calls in any {PER_MS} ms are allowed")

    made = []
    callers = [threading.Thread(target=caller, args=(made,)) for _ in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()

    assert sorted(call for _, call in made) == sorted(f"call {n}" for n in range(12)), made
    print("made: 12 calls, each once")
    times = sorted(at for at, _ in made)
    most = max(sum(start <= at < start + PER_MS for at in times) for start in times)
    print(f"the most in any {PER_MS} ms: {most}")
    server.delete(CALLS)


if __name__ == "__main__":
    main()
