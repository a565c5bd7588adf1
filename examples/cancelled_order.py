"""Cancelled orders: an order that is not paid in time is cancelled; a paid one is not.

The timer and the state of the order change together, in a script, and the script that removes the timer's element
decides. So an order is never both paid and cancelled, even if the payment arrives exactly at the deadline, or a worker
dies in between. The shop can also postpone the deadline.

Prints:

    order 18: paid, its timer is gone
    order 19: cancelled
    order 19: it is too late to pay
    order 20: has more time
    order 20: paid, its timer is gone
    nothing is left
"""

import os

import redis

TIMERS = "{demo:orders}:timers"
STATE = "{demo:orders}:state"
BLOCK_MS = 10_000

# PULL takes the element whether or not it is due, even if a worker has a lease on it.
PAY = """
if not redis.call('DEHYDRATOR.PULL', KEYS[1], ARGV[1]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], 'paid')
return 1
"""
# SETTLE changes nothing if the order was paid meanwhile, or if another worker has it.
CANCEL = """
if redis.call('DEHYDRATOR.SETTLE', KEYS[1], ARGV[1], ARGV[2])[1] == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], 'cancelled')
return 1
"""


def connect():
    # The read timeout must be longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def place(server, order, ms_to_pay):
    order_and_timer = server.pipeline(transaction=True)
    order_and_timer.hset(STATE, order, "placed")
    order_and_timer.execute_command("DEHYDRATOR.PUSH", TIMERS, ms_to_pay, "cancel", order)
    order_and_timer.execute()


def pay(server, order):
    paid = server.eval(PAY, 2, TIMERS, STATE, order)
    print(f"{order}: paid, its timer is gone" if paid else f"{order}: it is too late to pay")


def give_more_time(server, order, ms):
    # 0 if it is cancelled already. GT: only extend the time.
    if server.execute_command("DEHYDRATOR.TOUCH", TIMERS, ms, "GT", order):
        print(f"{order}: has more time")


def cancel_next(server):
    """Waits for an order whose time is up. If the worker dies here, another worker gets it after a second."""
    options = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", 1000]
    due = server.execute_command("DEHYDRATOR.POLL", TIMERS, *options)
    for order, _element, _deliveries, token in due or []:
        if server.eval(CANCEL, 2, TIMERS, STATE, token, order):
            print(f"{order}: cancelled")


def main():
    server = connect()
    server.delete(TIMERS, STATE)
    place(server, "order 18", 600_000)
    place(server, "order 19", 200)
    place(server, "order 20", 600_000)
    pay(server, "order 18")
    cancel_next(server)
    pay(server, "order 19")
    give_more_time(server, "order 20", 900_000)
    pay(server, "order 20")

    states = server.hgetall(STATE)
    assert states == {"order 18": "paid", "order 19": "cancelled", "order 20": "paid"}, states
    assert server.execute_command("DEHYDRATOR.LEN", TIMERS) == 0
    print("nothing is left")
    server.delete(STATE)


if __name__ == "__main__":
    main()
