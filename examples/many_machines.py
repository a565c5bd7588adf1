"""A consumer of a queue that is spread over keys of a cluster: start it on as many machines as you like.

On one connection to each primary it hears `dehydrator.due`, and asks for jobs when there are some. Whatever happens to
the cluster (a primary dies, slots move, nodes come and go), it asks again under the same token. A job begins when a
replica knows of its lease, so that a failover does not give it out again within the lease.

    python many_machines.py jobs 10.0.0.1:6379 10.0.0.2:6379

Each node needs `notify-keyspace-events Ed`. The names of the keys are in `jobs:keys`: see many_keys.py. docs/cluster.md
says why it is made so.
"""

import json
import logging
import os
import random
import signal
import sys
import threading
import time
import uuid

import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError
from redis.retry import Retry

LEASE_MS = int(os.environ.get("LEASE_MS", 60_000))  # for all jobs of a POLL together
COUNT = int(os.environ.get("COUNT", 10))
REPLICAS = 1  # so many know of a lease before its job begins; with 0 jobs are done while there is no replica, too
SWEEP_S = int(os.environ.get("SWEEP_S", 60))  # a safety net: so often it asks without having heard anything
ERRORS = (redis.RedisError, OSError, StopIteration)

DIRECTORY, seeds = sys.argv[1] + ":keys", [tuple(at.rsplit(":", 1)) for at in sys.argv[2:]]
slots, keys = [], {}  # who serves what, as the cluster said last: (first, last, primary); our keys by name
stop, survey_now = threading.Event(), threading.Event()


def connect(node):
    # Without the library's own retries: what was said while the connection was down is missed, so we must know.
    options = {"socket_timeout": 5, "retry": Retry(NoBackoff(), 0)}
    return redis.Redis(node[0], int(node[1]), **options)


def do(id, element, until):
    """The work. What it prints is for the tests: when it began, and until when the job is this consumer's."""
    print(f"begin {id.decode()} {int(time.time() * 1000)} {int(until * 1000)}\n", end="", flush=True)
    if element.startswith(b"long"):
        time.sleep(0.3)
    if element.startswith(b"fail"):
        raise ValueError(element)


class Key(threading.Thread):
    """Does the jobs of one key, over a connection of its own to whoever serves it."""

    def __init__(self, name):
        super().__init__()
        self.key, self.due, self.node, self.server = name, threading.Event(), None, None

    def send(self, *commands):
        """Sends commands in one go, over one connection: WAIT is about the writes of its own connection."""
        slot, asking = key_slot(self.key.encode()), []
        node = self.node or next(node for first, last, node in slots if first <= slot <= last)
        for _ in range(5):
            if node != self.node:
                self.node, self.server = node, connect(node)
            pipe = self.server.pipeline(transaction=False)
            for command in commands:
                for words in [*asking, command]:
                    pipe.execute_command(*words)
            try:
                return pipe.execute()[len(asking) :: len(asking) + 1]
            except AskError as error:  # or MOVED. ASK: the slot is on its way, and each command is to say so
                node, asking = (error.host, error.port), [] if isinstance(error, MovedError) else [["ASKING"]]
        raise redis.RedisError("sent from node to node")

    def insist(self, attempt, until=float("inf")):
        """Tries until something comes of it: a connection breaks, there is CLUSTERDOWN, READONLY, LOADING."""
        while time.time() < until:
            try:
                if (result := attempt()) is not None:
                    return result
            except ERRORS as error:
                logging.warning("%s: %s", self.key, error)
                self.node = None
                survey_now.set()
            time.sleep(random.uniform(0.05, 0.2))
            if stop.is_set() and until == float("inf"):
                break
        return None

    def confirmed(self, *command):
        """The reply to a write, if replicas have it."""
        reply, replicas = self.send(command, ["WAIT", REPLICAS, 500])
        if replicas < REPLICAS:
            logging.warning("%s: %d of %d replicas have it: trying again", self.key, replicas, REPLICAS)
            return None
        return reply

    def lease(self):
        """Jobs that are due. If a reply is lost, the same jobs come again under the same token."""
        token = uuid.uuid4().hex

        def attempt():
            [jobs] = self.send(["DEHYDRATOR.POLL", self.key, "COUNT", COUNT, "LEASE", LEASE_MS, "TOKEN", token])
            # RENEW is a write of this connection, also if the lease was one of a connection that broke.
            until, held = time.time() + LEASE_MS / 1000, [word for id, *_ in jobs for word in (token, id)]
            mine = jobs and self.confirmed("DEHYDRATOR.RENEW", self.key, LEASE_MS, *held)
            return mine and [(*job[:3], token, until) for job, is_mine in zip(jobs, mine) if is_mine]

        return self.insist(attempt)

    def run(self):
        while not stop.is_set():
            # Until nothing is left, and not one POLL for each event: while something is due there is no other event.
            while not stop.is_set() and (jobs := self.lease()):
                for job in jobs:
                    self.work(*job)
            self.due.wait(SWEEP_S)
            self.due.clear()

    def work(self, id, element, deliveries, token, until):
        if time.time() > until:
            return  # the jobs before it took too long, and others may have it
        command = ["DEHYDRATOR.SETTLE", self.key, token, id]
        try:
            if stop.is_set():
                command = ["DEHYDRATOR.RELEASE", self.key, 0, token, id]  # given back
            else:
                do(id, element, until)
        except Exception:  # tried again, later each time; after the last time the server makes it a dead letter
            command = ["DEHYDRATOR.RELEASE", self.key, 100 * 2**deliveries, token, id]
        self.insist(lambda: self.confirmed(*command), until)


def listen(node):
    """Hears what is due on a primary, until the connection breaks, or it is a primary no more."""
    try:
        with connect(node) as server, server.pubsub() as events:
            events.subscribe("__keyevent@0__:dehydrator.due")
            heard = time.monotonic()
            while not stop.is_set() and node in primaries():
                event = events.get_message(timeout=1) or events.ping() or {"type": None}
                if event["type"] == "subscribe":
                    sweep()  # nobody keeps events: what came due before has not been heard of
                elif event["type"] == "message" and (name := event["data"].decode(errors="replace")) in keys:
                    keys[name].due.set()
                if event["type"]:
                    heard = time.monotonic()
                elif time.monotonic() > heard + 5:
                    raise redis.ConnectionError("no pong")  # a machine that has gone without a word
    except ERRORS as error:
        logging.warning("%s: %s", node, error)
        survey_now.set()


def sweep():
    for key in list(keys.values()):
        key.due.set()


def primaries():
    return {node for _, _, node in slots}


def survey(directory):
    """Asks who serves what, and which keys there are."""
    for node in [*primaries(), *seeds]:
        try:
            with connect(node) as server:
                rows = server.execute_command("CLUSTER SLOTS")
                slots[:] = sorted((first, last, (at[0].decode(), at[1])) for first, last, at, *_ in rows)
            [text] = directory.send(["GET", DIRECTORY])
            return {name for names in json.loads(text or "{}").get("lists", []) for name in names}
        except ERRORS as error:
            logging.warning("%s: %s", node, error)
            directory.node = None
    return set()


def main():
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: (stop.set(), survey_now.set()))  # what has begun is ended
    ears, directory = {}, Key(DIRECTORY)
    while not stop.is_set() or any(key.is_alive() for key in keys.values()):
        before = list(slots)
        for name in survey(directory) - set(keys):
            keys[name] = Key(name)
            keys[name].start()
        for node in primaries():
            if node not in ears or not ears[node].is_alive():
                ears[node] = threading.Thread(target=listen, args=[node])
                ears[node].start()
        if slots != before or stop.is_set():
            sweep()  # a key that came with its slot was perhaps announced before; and who sleeps is to stop
        survey_now.wait(1)
        survey_now.clear()
        time.sleep(0.2)


if __name__ == "__main__":
    main()
