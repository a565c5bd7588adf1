"""Exactly one job for an id in five minutes: what comes twice is not done twice, also when the work is done already.

A webhook is delivered again because its sender did not see the reply; a user presses the button again; a producer sends
again what may have got lost. All push under the same id, with NX. While the job waits or is worked on, its id is there.
When it is done, the dehydrator remembers the id for five minutes more (LIMIT ... REMEMBER; here it is a second).

SQS FIFO counts its five minutes from when the message was sent, however long the work takes; Redis 8.6's streams remember
the last ids of each producer for 100 seconds from then; BullMQ's deduplication ends with the job, or a time after it was
added. Here it is the job, and the time after it.

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
    """Puts a job away, unless it is there or has just been done."""
    pushed = server.execute_command("DEHYDRATOR.PUSH", WEBHOOKS, 0, "pay the invoice", id, "NX")
    return "taken" if pushed else "known"


def main():
    server = connect()
    server.delete(WEBHOOKS)
    # Said once, by whoever sets the queue up: it is part of the key.
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
