"""At most ten imports at once, however many workers there are.

The imports load a database that can bear ten of them. Thirty workers block on one key, and the server keeps at most ten
jobs leased at a time (LIMIT ... HELD). Settling a job frees a place, and the worker that has waited longest wakes at that
moment. The job of a dead worker frees its place when its lease expires.

Prints:

    40 imports wait for 30 workers, 10 at once are allowed
    done: 40 imports
    the most at once: 10
"""

import os
import threading
import time

import redis

IMPORTS = "demo:imports"
MOST = 10
BLOCK_MS = 500


def connect():
    # The read timeout must be longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


class Database:
    """Counts how many imports run on it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = self.most = self.done = 0

    def run_import(self):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(0.05)
        with self.lock:
            self.running -= 1
            self.done += 1


def worker(database):
    server = connect()
    while True:
        options = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", 60_000]
        jobs = server.execute_command("DEHYDRATOR.POLL", IMPORTS, *options)
        if not jobs:
            return
        for id, _import, _deliveries, token in jobs:
            database.run_import()
            server.execute_command("DEHYDRATOR.SETTLE", IMPORTS, token, id)


def main():
    server = connect()
    server.delete(IMPORTS)
    server.execute_command("DEHYDRATOR.LIMIT", IMPORTS, "HELD", MOST)
    for n in range(40):
        server.execute_command("DEHYDRATOR.PUSH", IMPORTS, 0, f"import {n}", f"id-{n}", "NX")
    print(f"40 imports wait for 30 workers, {MOST} at once are allowed")

    database = Database()
    workers = [threading.Thread(target=worker, args=(database,)) for _ in range(30)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    print(f"done: {database.done} imports")
    print(f"the most at once: {database.most}")
    server.delete(IMPORTS)


if __name__ == "__main__":
    main()
