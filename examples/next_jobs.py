"""An operator's view: late, leased and upcoming jobs, page by page, without taking any.

RANGE lists jobs, due or not, in the order in which workers will get them, and returns where the next page starts. It can
start at any deadline, at the same cost, so a page of a queue of millions is as fast as a page of a queue of ten.

Prints:

    late:
      mail:1         0 deliveries
    being worked on:
      card:1         1 delivery
    the next hour, three on a page:
      mail:2       in 10 min
      mail:3       in 10 min
      order:7      in 20 min
      --
      mail:4       in 30 min
      report       in 50 min
    mail:4 once more: {'element': 'send mail 4', 'ttl': 1800000, 'deliveries': 0, 'leased': 0, 'token': None, 'deliveries-limit': 0, 'until': None, 'group': None, 'held-since': None, 'reason': None}
"""

import os
import time

import redis

KEY = "demo:next"
MINUTE_MS = 60_000


def connect():
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, decode_responses=True)


def pages(server, start, end, size):
    """Yields pages of rows: id, deadline, ttl, deliveries, and whether it is leased."""
    while start is not None:
        start, rows = server.execute_command("DEHYDRATOR.RANGE", KEY, start, end, "COUNT", size)
        yield rows


def show(server):
    now = time.time_ns() // 1_000_000
    print("late:")
    for rows in pages(server, "-", now, 100):
        for id, _deadline, _ttl, deliveries, _leased in rows:
            print(f"  {id:<12}{deliveries:>4} deliveries")
    # Leased jobs are due when their lease expires.
    print("being worked on:")
    for rows in pages(server, f"({now}", now + 5 * MINUTE_MS, 100):
        for id, _deadline, _ttl, deliveries, leased in rows:
            if leased:
                print(f"  {id:<12}{deliveries:>4} delivery")
    print("the next hour, three on a page:")
    for number, rows in enumerate(pages(server, now + 5 * MINUTE_MS, now + 60 * MINUTE_MS, 3)):
        if number > 0:
            print("  --")
        for id, deadline, _ttl, _deliveries, _leased in rows:
            print(f"  {id:<13}in {round((deadline - now) / MINUTE_MS)} min")


def main():
    server = connect()
    server.delete(KEY)
    jobs = [("card:1", 0), ("mail:2", 10), ("mail:3", 10), ("order:7", 20), ("mail:4", 30)]
    for id, minutes in [*jobs, ("report", 50)]:
        job = f"send {id.replace(':', ' ')}"
        server.execute_command("DEHYDRATOR.PUSH", KEY, minutes * MINUTE_MS, job, id)
    # A worker takes the first one.
    server.execute_command("DEHYDRATOR.POLL", KEY, "COUNT", 1, "LEASE", MINUTE_MS)
    server.execute_command("DEHYDRATOR.PUSH", KEY, 0, "send mail 1", "mail:1")
    show(server)

    facts = server.execute_command("DEHYDRATOR.LOOK", KEY, "mail:4", "FULL")
    # A map in RESP3; alternating names and values in RESP2.
    facts = facts if isinstance(facts, dict) else dict(zip(facts[::2], facts[1::2]))
    del facts["deadline"]
    print("mail:4 once more:", facts)
    server.delete(KEY)


if __name__ == "__main__":
    main()
