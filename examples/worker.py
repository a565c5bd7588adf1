"""A worker to copy: it retries with exponential back-off, and what fails too often becomes a dead letter.

Prints:

    mail 17: failed, again in 100 ms
    mail 18: sent
    mail 17: failed, again in 200 ms
    mail 17: failed, again in 400 ms
    dead: mail 17, given out 3 times
"""

import os
import signal

import redis

QUEUE, DEAD = "{demo:mails}", "{demo:mails}:dead"
DELIVERIES, BLOCK_MS, LEASE_MS = 3, 1000, 60_000


def connect():
    # The read timeout must be longer than the block.
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
    return redis.Redis.from_url(url, socket_timeout=BLOCK_MS / 1000 + 5, decode_responses=True)


def work_once(server, send):
    options = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", LEASE_MS]
    jobs = server.execute_command("DEHYDRATOR.POLL", QUEUE, *options) or []
    for id, mail, deliveries, token in jobs:
        try:
            send(mail)
            server.execute_command("DEHYDRATOR.SETTLE", QUEUE, token, id)
        except OSError:
            back_off_ms = 100 * 2 ** (deliveries - 1)
            server.execute_command("DEHYDRATOR.RENEW", QUEUE, back_off_ms, token, id)
            print(f"{mail}: failed, again in {back_off_ms} ms")


def send(mail):
    if mail == "mail 17":
        raise OSError("no such address")
    print(f"{mail}: sent")


def main():
    server, running = connect(), [True]
    signal.signal(signal.SIGTERM, lambda *_: running.clear())  # finishes what is in hand
    server.delete(QUEUE, DEAD)
    server.execute_command("DEHYDRATOR.ONDUE", QUEUE, "HOLD", "DELIVERIES", DELIVERIES, "STREAM", DEAD)
    server.execute_command("DEHYDRATOR.MPUSH", QUEUE, 0, "mail 17", "mail:17", 50, "mail 18", "mail:18")
    while running and server.execute_command("DEHYDRATOR.LEN", QUEUE):  # a real one: while running
        work_once(server, send)
    for _, letter in server.xrange(DEAD):
        print(f"dead: {letter['element']}, given out {letter['deliveries']} times")
    server.delete(QUEUE, DEAD)


if __name__ == "__main__":
    main()
