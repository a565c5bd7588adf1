"""A worker that loses its connection at any point, and neither loses a job nor does one twice.

The worker chooses a new token for each POLL. If the connection breaks before the reply arrives, the worker sends the
same command again and gets the same jobs: the server holds them under that token until the lease expires. SETTLE and
PUSH ... NX can be resent in the same way.

Here the network drops replies at random: the server has executed the command, but the worker does not know it.

Prints:

    200 jobs pushed, 200 done, none twice; the network ate some replies of each: PUSH, POLL, SETTLE
"""

import collections
import os
import random
import uuid

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

KEY = "demo:lost"
JOBS = 200
# Longer than it takes to reconnect and to do the jobs of one POLL.
LEASE_MS = 60_000
eaten = collections.Counter()


def connect():
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    # Turn off the library's own resending: `ask` below does it.
    return redis.Redis.from_url(url, decode_responses=True, retry=Retry(NoBackoff(), 0))


class Worker:
    def __init__(self):
        self.server = connect()

    def ask(self, verb, *words):
        """Sends a command until its reply arrives."""
        while True:
            try:
                reply = self.server.execute_command(f"DEHYDRATOR.{verb}", KEY, *words)
                if random.random() < 0.2:
                    eaten[verb] += 1
                    raise redis.ConnectionError("the network ate the reply")
                return reply
            except redis.ConnectionError:
                self.server.close()
                self.server = connect()

    def push(self, id, job):
        # Resent, it replies nil: the job is there already.
        self.ask("PUSH", 0, job, id, "NX")

    def jobs(self, most):
        token = uuid.uuid4().hex
        rows = self.ask("POLL", "COUNT", most, "LEASE", LEASE_MS, "TOKEN", token)
        return token, [(id, job) for id, job, _deliveries, _token in rows]

    def settle(self, token, ids):
        # 0: settled before, or another worker has it by now. Either way, nothing is left to do.
        self.ask("SETTLE", *[word for id in ids for word in (token, id)])


def main():
    connect().delete(KEY)
    worker, done = Worker(), collections.Counter()
    for number in range(JOBS):
        worker.push(f"job:{number}", f"job {number}")
    while True:
        token, jobs = worker.jobs(5)
        if not jobs:
            break
        done.update(id for id, _job in jobs)
        worker.settle(token, [id for id, _job in jobs])
    assert len(done) == JOBS and set(done.values()) == {1}, done
    assert set(eaten) == {"PUSH", "POLL", "SETTLE"}, eaten
    print(
        f"{JOBS} jobs pushed, {len(done)} done, none twice; "
        "the network ate some replies of each: PUSH, POLL, SETTLE"
    )


if __name__ == "__main__":
    main()
