"""Delayed messages in a stream: a consumer group gets them when they are due, and retries with back-off.

A dehydrator bound to a stream (ONDUE) moves due elements there by itself, without polling. From then on it is an
ordinary stream: a consumer group distributes the messages, and keeps those of a consumer that dies. A message that fails
goes back into the dehydrator, for longer each time. That push and the XACK are one transaction, so the message is in
exactly one of the two.

Prints:

    anna: order 21
    bert: order 22 failed, again in 200 ms
    anna: order 23
    bert: order 22 failed, again in 400 ms
    anna: order 22
    nothing came early, nothing is pending
"""

import os
import time

import redis

# The stream must be on the node of the dehydrator: in a cluster, the braces ensure that.
LATER = "{demo:orders}:later"
STREAM = "{demo:orders}:now"
GROUP = "shippers"
BLOCK_MS = 10_000


def connect():
    # By default, redis-py stops reading after 5 seconds and sends the command again. The timeout must be
    # longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def set_up(server):
    server.xgroup_create(STREAM, GROUP, id="$", mkstream=True)
    server.execute_command("DEHYDRATOR.ONDUE", LATER, "STREAM", STREAM, "MAXLEN", "~", 100_000)


def push(server, id, message, delay_ms):
    server.execute_command("DEHYDRATOR.PUSH", LATER, delay_ms, message, id)


def consume_one(server, consumer, handle):
    """Waits for a message and handles it. A message is "attempt text"."""
    streams = server.xreadgroup(GROUP, consumer, {STREAM: ">"}, count=1, block=BLOCK_MS)
    for _, entries in streams or []:
        for entry, fields in entries:
            attempt, text = fields["element"].split(" ", 1)
            done = handle(consumer, text, int(attempt))
            settle = server.pipeline(transaction=True)
            settle.xack(STREAM, GROUP, entry)
            if not done:
                push(settle, fields["id"], f"{int(attempt) + 1} {text}", back_off_ms(int(attempt)))
            settle.execute()


def back_off_ms(attempt):
    return 100 * 2**attempt


# For the demonstration: the earliest arrival of each message.
due = {}


def now_ms():
    return time.time_ns() // 1_000_000


def ship(consumer, text, attempt):
    assert now_ms() >= due[text], f"{text} came early"
    if text == "order 22" and attempt < 3:
        delay_ms = back_off_ms(attempt)
        due[text] = now_ms() + delay_ms
        print(f"{consumer}: {text} failed, again in {delay_ms} ms")
        return False
    print(f"{consumer}: {text}")
    return True


def main():
    server = connect()
    server.delete(LATER, STREAM)
    set_up(server)
    for order, delay_ms in [(23, 300), (21, 100), (22, 200)]:
        due[f"order {order}"] = now_ms() + delay_ms
        push(server, f"order:{order}", f"1 order {order}", delay_ms)

    # The first consumer to read gets the next message. Here they take turns, so that the result is deterministic.
    for consumer in ["anna", "bert", "anna", "bert", "anna"]:
        consume_one(server, consumer, ship)

    assert server.xpending(STREAM, GROUP)["pending"] == 0
    assert server.execute_command("DEHYDRATOR.LEN", LATER) == 0
    print("nothing came early, nothing is pending")
    # A dehydrator with a policy remains when it is empty, and so does a stream with a group.
    server.delete(LATER, STREAM)


if __name__ == "__main__":
    main()
