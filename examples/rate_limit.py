"""Rate limiting by delay: calls that come too fast are not refused but delayed, each to its own time slot.

An external service accepts one call per INTERVAL_MS. A script gives each call the next free slot, and pushes it with
that deadline (AT); callers make the calls that come due. Any number of machines can ask for slots. As long as the callers
keep up, the service gets calls at an even rate. A call that would wait too long is refused, which keeps the queue short.
With one pair of keys per user, it limits each user.

Prints:

    call 1 to 7: put off to slots 100 ms apart
    call 8: refused, it would have waited for longer than 650 ms
    made: call 1, call 2, call 3, call 4, call 5, call 6, call 7
    none before its slot
"""

import os
import time

import redis

# One script uses both keys: in a cluster, the braces put them on one node.
CALLS = "{demo:service}:calls"
NEXT_SLOT = "{demo:service}:next-slot"
INTERVAL_MS = 100
MAX_WAIT_MS = 650
BLOCK_MS = 10_000

# Replies how long the call will wait, or -1 if that is too long. Slots are assigned in order, so elements can share one
# internal queue. That queue is chosen by the ttl of PUSH; with AT, any fixed value works, here 0.
PUT_OFF = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local slot = math.max(now, tonumber(redis.call('GET', KEYS[2]) or 0))
if slot - now > tonumber(ARGV[2]) then
    return -1
end
redis.call('DEHYDRATOR.PUSH', KEYS[1], 0, ARGV[3], ARGV[4], 'AT', slot)
redis.call('SET', KEYS[2], slot + ARGV[1], 'PXAT', slot + ARGV[1])
return slot - now
"""


def connect():
    # By default, redis-py stops reading after 5 seconds and sends the command again. The timeout must be
    # longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def due_calls(server):
    """Waits for calls whose slot has come. At most one caller gets each call."""
    return server.execute_command("DEHYDRATOR.POLL", CALLS, "BLOCK", BLOCK_MS, "WITHIDS")


def main():
    server = connect()
    server.delete(CALLS, NEXT_SLOT)

    # A burst: eight calls at once.
    burst = server.pipeline(transaction=True)
    put_off = burst.register_script(PUT_OFF)
    start = time.time_ns() // 1_000_000
    for n in range(1, 9):
        put_off([CALLS, NEXT_SLOT], [INTERVAL_MS, MAX_WAIT_MS, f"call {n}", f"id-{n}"], client=burst)
    *waits, refused = burst.execute()
    assert all(wait >= 0 for wait in waits) and refused == -1, (waits, refused)
    print(f"call 1 to 7: put off to slots {INTERVAL_MS} ms apart")
    print(f"call 8: refused, it would have waited for longer than {MAX_WAIT_MS} ms")

    made = []
    while len(made) < 7:
        for _, call in due_calls(server):
            slot = start + len(made) * INTERVAL_MS
            assert time.time_ns() // 1_000_000 >= slot, f"{call} was made before its slot"
            made.append(call)
    print("made:", ", ".join(made))
    print("none before its slot")


if __name__ == "__main__":
    main()
