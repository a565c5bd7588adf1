"""Exactly one job per id within five minutes: a duplicate is not done twice, even if the first one is done already.

A webhook is delivered again because its sender did not see the reply; a user presses the button again; a producer
resends a message that may be lost. All push under the same id, with NX. While the job waits or runs, its id exists. When
it is done, the dehydrator remembers the id for another five minutes (LIMIT ... REMEMBER; here, one second).

In comparison, SQS FIFO counts its five minutes from the time of sending, however long the work takes. Streams of Redis
8.6 remember the last ids of each producer for 100 seconds from that time. BullMQ's deduplication ends with the job, or at
a fixed time after it was added. Here it covers the job and the time after it.

Prints:

    webhook 17: taken
    webhook 17 again, while it waits: known
    webhook 17 again, while it is worked on: known
    webhook 17 again, after the work: known
    done: webhook 17, once
    webhook 17, when the time is over: taken
    sent again by force (REPLACE): taken
"""

import os
import time

import redis

WEBHOOKS = "demo:webhooks"
REMEMBER_MS = 1000
BLOCK_MS = 10_000


def connect():
    # The read timeout must be longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def send(server, id):
    """Pushes a job, unless it exists or was done recently."""
    pushed = server.execute_command("DEHYDRATOR.PUSH", WEBHOOKS, 0, "pay the invoice", id, "NX")
    return "taken" if pushed else "known"


def main():
    server = connect()
    server.delete(WEBHOOKS)
    # Set once, when the queue is set up: the limit is stored in the key.
    server.execute_command("DEHYDRATOR.LIMIT", WEBHOOKS, "REMEMBER", REMEMBER_MS)

    print("webhook 17:", send(server, "17"))
    print("webhook 17 again, while it waits:", send(server, "17"))

    done = []
    options = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", 60_000]
    [[id, _webhook, _deliveries, token]] = server.execute_command(
        "DEHYDRATOR.POLL", WEBHOOKS, *options
    )
    print("webhook 17 again, while it is worked on:", send(server, "17"))
    done.append(id)
    server.execute_command("DEHYDRATOR.SETTLE", WEBHOOKS, token, id)
    print("webhook 17 again, after the work:", send(server, "17"))
    print(f"done: webhook {', '.join(done)}, once")

    while send(server, "17") == "known":
        time.sleep(0.05)
    print("webhook 17, when the time is over: taken")

    server.execute_command("DEHYDRATOR.POLL", WEBHOOKS)
    again = ["DEHYDRATOR.PUSH", WEBHOOKS, 0, "pay the invoice", "17", "REPLACE"]
    print("sent again by force (REPLACE):", "taken" if server.execute_command(*again) else "known")
    server.delete(WEBHOOKS)


if __name__ == "__main__":
    main()
