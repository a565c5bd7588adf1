"""Migrate from a delay queue made of a sorted set and a hash to a dehydrator, while both are in use.

The old queue has a sorted set of ids, scored with their deadlines, and a hash with the payload of each id. The steps:

 1. Workers consume both queues: they keep taking from the old one, and poll the new one as well.
 2. Producers, one after the other, switch to pushing to the new one.
 3. A script moves the rest, in portions: it takes from the old queue and pushes to the new one with the old deadline
    (AT). A script is atomic for all other clients and for replicas, so each element is in exactly one of the two at any
    time: none is lost and none is done twice. Elements that workers took before are simply no longer there.
 4. When no producer uses the old queue and it is empty, stop its workers.

Keep a dump all the same. The demonstration runs all steps at once, under load.

Prints:

    moved some, the old workers took some, the new ones the rest
    3000 pushed, 3000 done, each once, none early
    the old queue is gone, the new one is empty
"""

import os
import random
import threading
import time
from collections import Counter

import redis

# One script uses all three: in a cluster, they need the same hash tag.
SCHEDULE = "{demo:queue}:schedule"
PAYLOADS = "{demo:queue}:payloads"
DEHYDRATOR = "{demo:queue}:dehydrator"
PORTION = 100
BLOCK_MS = 500

# Moves up to ARGV[1] elements; replies how many. The earliest go first, so the deadlines ascend and the elements can share
# one internal queue. That queue is chosen by the ttl of PUSH; with AT, any fixed value works, here 0. An id that is in the
# new queue already stays as it is (NX). If the scores are seconds, multiply them by 1000.
MOVE = """
local entries = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
for i = 1, #entries, 2 do
    local id, due = entries[i], string.format('%.0f', entries[i + 1])
    local payload = redis.call('HGET', KEYS[2], id)
    if payload then
        redis.call('DEHYDRATOR.PUSH', KEYS[3], 0, payload, id, 'NX', 'AT', due)
    end
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[2], id)
end
return #entries / 2
"""

# How the old workers take due elements. Yours may do it differently, as long as it is atomic.
TAKE_OLD = """
local ids = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, 10)
local taken = {}
for _, id in ipairs(ids) do
    taken[#taken + 1] = id
    taken[#taken + 1] = redis.call('HGET', KEYS[2], id)
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[2], id)
end
return taken
"""


def connect():
    # By default, redis-py stops reading after 5 seconds and sends the command again. The timeout must be
    # longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def push_old(server, id, payload, due_ms):
    both = server.pipeline(transaction=True)
    both.zadd(SCHEDULE, {id: due_ms})
    both.hset(PAYLOADS, id, payload)
    both.execute()


def push_new(server, id, payload, due_ms):
    delay_ms = max(0, due_ms - now_ms())
    server.execute_command("DEHYDRATOR.PUSH", DEHYDRATOR, delay_ms, payload, id)


def take_old(server):
    taken = server.eval(TAKE_OLD, 2, SCHEDULE, PAYLOADS, now_ms())
    return list(zip(taken[::2], taken[1::2]))


def take_new(server):
    return server.execute_command(
        "DEHYDRATOR.POLL", DEHYDRATOR, "COUNT", 10, "BLOCK", BLOCK_MS, "WITHIDS"
    )


def move(server):
    """Moves all elements, in portions, so that other clients are served in between."""
    moved = 0
    while portion := server.eval(MOVE, 3, SCHEDULE, PAYLOADS, DEHYDRATOR, PORTION):
        moved += portion
    return moved


def now_ms():
    return time.time_ns() // 1_000_000


# The demonstration.
TOTAL = 3000
done = Counter()
by_old, by_new = [], []
failures = []
producers_done, old_queue_empty = threading.Event(), threading.Event()


def worker(take, log, until):
    server = connect()
    while True:
        last_round = until.is_set()
        taken = take(server)
        for id, payload in taken:
            if payload != f"payload of {id}" or now_ms() < due[id]:
                failures.append((id, payload))
            done[id] += 1
            log.append(id)
        if not taken:
            if last_round:
                return
            if take is take_old:
                time.sleep(0.02)


def producer(ids, old_ones):
    """Pushes, and switches from the old queue to the new one midway."""
    server = connect()
    for n, id in enumerate(ids):
        due[id] = now_ms() + random.randrange(1500)
        (push_old if n < old_ones else push_new)(server, id, f"payload of {id}", due[id])


due = {}


def main():
    server = connect()
    server.delete(SCHEDULE, PAYLOADS, DEHYDRATOR)

    workers = [
        threading.Thread(target=worker, args=[take_old, by_old, old_queue_empty]),
        threading.Thread(target=worker, args=[take_new, by_new, producers_done]),
    ]
    ids = [f"id-{n}" for n in range(TOTAL)]
    producers = [
        threading.Thread(target=producer, args=[ids[::2], 1000]),
        threading.Thread(target=producer, args=[ids[1::2], 500]),
    ]
    for thread in workers + producers:
        thread.start()

    # Let the old queue work for a while; then move elements, until no producer adds to it and it is empty.
    while not by_old:
        time.sleep(0.01)
    moved = 0
    while any(thread.is_alive() for thread in producers):
        moved += move(server)
        time.sleep(0.01)
    moved += move(server)
    producers_done.set()
    old_queue_empty.set()
    # Later elements are still in the new queue.
    while server.execute_command("DEHYDRATOR.LEN", DEHYDRATOR):
        time.sleep(0.01)
    for thread in workers:
        thread.join()

    assert moved and by_old and len(by_new) > moved, (moved, len(by_old), len(by_new))
    print("moved some, the old workers took some, the new ones the rest")
    assert not failures, failures
    assert len(done) == TOTAL and set(done.values()) == {1}, "lost, or done twice"
    print(f"{TOTAL} pushed, {len(done)} done, each once, none early")
    assert server.exists(SCHEDULE, PAYLOADS, DEHYDRATOR) == 0
    print("the old queue is gone, the new one is empty")


if __name__ == "__main__":
    main()
