"""An operator's page: what is late, what is being worked on, and what comes next, page by page, taking nothing.

RANGE lists jobs in the order in which workers will get them, due or not, and says where to go on. It begins at any
moment, and costs the same wherever that is, so a page of a queue of millions is as quick as one of ten.

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
    mail:4 once more: {'element': 'send mail 4', 'ttl': 1800000, 'deliveries': 0, 'leased': 0, 'token': None}
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
    """Rows of id, deadline, ttl, deliveries and whether it is leased, a page at a time."""
    while start is not None:
        start, rows = server.execute_command("DEHYDRATOR.RANGE", KEY, start, end, "COUNT", size)
        yield rows


def show(server):
    now = time.time_ns() // 1_000_000
    print("late:")
    for rows in pages(server, "-", now, 100):
        for id, _deadline, _ttl, deliveries, _leased in rows:
            print(f"  {id:<12}{deliveries:>4} deliveries")
    # Those that are leased come due when their lease runs out.
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
    # A map in RESP3, names and values in turn in RESP2.
    facts = facts if isinstance(facts, dict) else dict(zip(facts[::2], facts[1::2]))
    del facts["deadline"]
    print("mail:4 once more:", facts)
    server.delete(KEY)


if __name__ == "__main__":
    main()
