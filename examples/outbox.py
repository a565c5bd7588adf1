"""An outbox: jobs for a server of your own, beside a managed server that has the data (see beside_managed.md).

No transaction spans two servers. So a delayed job is written into a stream of the managed server, the outbox, in one
transaction with the data. A relay pushes it to the dehydrator, then deletes it from the outbox. If the relay dies in
between, it pushes again, which changes nothing (NX). The worker does its work in one script that also records the id.
If the worker dies before it settles the job, the job is delivered again, and the record shows that it is done.

Here both die once, at the worst moment. REDIS_URL is the server with the module; MANAGED_URL is the other one, which
needs no module.

Prints:

    order 17 is placed, to be cancelled if unpaid
    the relay pushes order:17, and dies
    the relay pushes order:17: it was there
    the worker cancels order 17, and dies
    the worker is given order:17 again: it was done
    cancelled once, not early, and nothing is left
"""

import os
import time

import redis

KEY = "demo:unpaid"
# In a cluster, these would share a hash tag: {demo}:outbox.
ORDERS, OUTBOX, DONE = "demo:orders", "demo:outbox", "demo:done:"
BLOCK_MS = 10_000
LEASE_MS = 300

# The work, done once per id, however often it is called. The record of it is kept for a day.
CANCEL = """
if not redis.call('SET', KEYS[2], 'done', 'NX', 'EX', 86400) then return 0 end
return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
"""


def connect(url):
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


own_url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
own, managed = connect(own_url), connect(os.environ.get("MANAGED_URL", own_url))


class Died(Exception):
    pass


def take_order(order, delay_ms):
    at = time.time_ns() // 1_000_000 + delay_ms
    with managed.pipeline(transaction=True) as together:
        together.hset(ORDERS, order, 0)
        together.xadd(OUTBOX, {"id": f"order:{order}", "element": order, "ttl": delay_ms, "at": at})
        together.execute()
    return at


def relay(dies=False):
    """Moves the jobs of the outbox. Run it in a loop; XREAD BLOCK waits for more."""
    for entry, job in managed.xrange(OUTBOX, count=100):
        new = own.execute_command(
            "DEHYDRATOR.PUSH", KEY, job["ttl"], job["element"], job["id"], "NX", "AT", job["at"]
        )
        print(f"the relay pushes {job['id']}" + ("" if new else ": it was there") + (", and dies" if dies else ""))
        if dies:
            raise Died
        managed.xdel(OUTBOX, entry)


def work(dies=False):
    """Does one job."""
    jobs = own.execute_command(
        "DEHYDRATOR.POLL", KEY, "COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", LEASE_MS
    )
    for id, order, _deliveries, token in jobs:
        if managed.eval(CANCEL, 2, ORDERS, DONE + id, order):
            print(f"the worker cancels order {order}" + (", and dies" if dies else ""))
        else:
            print(f"the worker is given {id} again: it was done")
        if dies:
            raise Died
        own.execute_command("DEHYDRATOR.SETTLE", KEY, token, id)


def and_dies(does):
    try:
        does(dies=True)
    except Died:
        return
    raise AssertionError("it lives")


def main():
    own.delete(KEY)
    managed.delete(ORDERS, OUTBOX, DONE + "order:17")

    at = take_order("17", 300)
    print("order 17 is placed, to be cancelled if unpaid")
    and_dies(relay)
    relay()
    and_dies(work)
    early = time.time_ns() // 1_000_000 < at
    work()

    cancelled = managed.hget(ORDERS, "17")
    left = own.execute_command("DEHYDRATOR.LEN", KEY) + managed.xlen(OUTBOX)
    assert cancelled == "1" and not early and left == 0, (cancelled, early, left)
    managed.delete(ORDERS, OUTBOX, DONE + "order:17")
    print("cancelled once, not early, and nothing is left")


if __name__ == "__main__":
    main()
