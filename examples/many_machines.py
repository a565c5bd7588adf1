"""A consumer of a queue that is spread over several keys of a cluster. Start it on any number of machines.

On one connection per primary, it subscribes to `dehydrator.due`, and polls when there are jobs. Whatever happens to the
cluster (a primary dies, slots move, nodes join or leave), it repeats commands with the same token. A job begins only when
a replica has its lease, so that a failover does not deliver the job again within the lease.

    python many_machines.py jobs 10.0.0.1:6379 10.0.0.2:6379

Each node needs `notify-keyspace-events Ed`. The names of the keys are in `jobs:keys`: see many_keys.py. docs/cluster.md
explains the design.
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
REPLICAS = 1  # replicas that must have a lease before its job begins; 0 also does jobs while there is no replica
SWEEP_S = int(os.environ.get("SWEEP_S", 60))  # the interval at which it polls without an event, as a safety net
ERRORS = (redis.RedisError, OSError, StopIteration)

DIRECTORY, seeds = sys.argv[1] + ":keys", [tuple(at.rsplit(":", 1)) for at in sys.argv[2:]]
slots, keys = [], {}  # the last known slots: (first, last, primary); our keys by name
stop, survey_now = threading.Event(), threading.Event()


def connect(node):
    # No retries by the library: events are lost while a connection is down, so we must notice that.
    options = {"socket_timeout": 5, "retry": Retry(NoBackoff(), 0)}
    return redis.Redis(node[0], int(node[1]), **options)


def do(id, element, until):
    """The work. It prints, for the tests, when it began and until when this consumer holds the lease."""
    print(f"begin {id.decode()} {int(time.time() * 1000)} {int(until * 1000)}\n", end="", flush=True)
    if element.startswith(b"long"):
        time.sleep(0.3)
    if element.startswith(b"fail"):
        raise ValueError(element)


class Key(threading.Thread):
    """Does the jobs of one key, over its own connection to the node that serves the key."""

    def __init__(self, name):
        super().__init__()
        self.key, self.due, self.node, self.server = name, threading.Event(), None, None

    def send(self, *commands):
        """Sends commands in one pipeline, over one connection: WAIT covers the writes of its own connection."""
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
            except AskError as error:  # or MOVED. ASK: the slot is migrating, and each command needs ASKING
                node, asking = (error.host, error.port), [] if isinstance(error, MovedError) else [["ASKING"]]
        raise redis.RedisError("sent from node to node")

    def insist(self, attempt, until=float("inf")):
        """Retries until there is a result: after broken connections, CLUSTERDOWN, READONLY, LOADING."""
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
        """Sends a write. Returns the reply if enough replicas have the write, else None."""
        reply, replicas = self.send(command, ["WAIT", REPLICAS, 500])
        if replicas < REPLICAS:
            logging.warning("%s: %d of %d replicas have it: trying again", self.key, replicas, REPLICAS)
            return None
        return reply

    def lease(self):
        """Leases due jobs. If a reply is lost, the same token gets the same jobs again."""
        token = uuid.uuid4().hex

        def attempt():
            [jobs] = self.send(["DEHYDRATOR.POLL", self.key, "COUNT", COUNT, "LEASE", LEASE_MS, "TOKEN", token])
            # RENEW is a write of this connection, even if an earlier, broken connection took the lease.
            until, held = time.time() + LEASE_MS / 1000, [word for id, *_ in jobs for word in (token, id)]
            mine = jobs and self.confirmed("DEHYDRATOR.RENEW", self.key, LEASE_MS, *held)
            return mine and [(*job[:3], token, until) for job, is_mine in zip(jobs, mine) if is_mine]

        return self.insist(attempt)

    def run(self):
        while not stop.is_set():
            # Poll until nothing is left, not once per event: while elements are due, there are no further events.
            while not stop.is_set() and (jobs := self.lease()):
                for job in jobs:
                    self.work(*job)
            self.due.wait(SWEEP_S)
            self.due.clear()

    def work(self, id, element, deliveries, token, until):
        if time.time() > until:
            return  # the jobs before it took too long, so another consumer may have it
        command = ["DEHYDRATOR.SETTLE", self.key, token, id]
        try:
            if stop.is_set():
                command = ["DEHYDRATOR.RELEASE", self.key, 0, token, id]  # given back
            else:
                do(id, element, until)
        except Exception:  # retried, later each time; after the last delivery, the server makes it a dead letter
            command = ["DEHYDRATOR.RELEASE", self.key, 100 * 2**deliveries, token, id]
        self.insist(lambda: self.confirmed(*command), until)


def listen(node):
    """Receives the events of a primary, until the connection breaks or the node is no longer a primary."""
    try:
        with connect(node) as server, server.pubsub() as events:
            events.subscribe("__keyevent@0__:dehydrator.due")
            heard = time.monotonic()
            while not stop.is_set() and node in primaries():
                event = events.get_message(timeout=1) or events.ping() or {"type": None}
                if event["type"] == "subscribe":
                    sweep()  # events are not stored: elements may have come due before the subscription
                elif event["type"] == "message" and (name := event["data"].decode(errors="replace")) in keys:
                    keys[name].due.set()
                if event["type"]:
                    heard = time.monotonic()
                elif time.monotonic() > heard + 5:
                    raise redis.ConnectionError("no pong")  # the machine is gone, but the connection was not closed
    except ERRORS as error:
        logging.warning("%s: %s", node, error)
        survey_now.set()


def sweep():
    for key in list(keys.values()):
        key.due.set()


def primaries():
    return {node for _, _, node in slots}


def survey(directory):
    """Reads the slots, and the names of the keys."""
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
        signal.signal(number, lambda *_: (stop.set(), survey_now.set()))  # jobs that have begun are finished
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
            sweep()  # the event for a moved key may have come before; and blocked threads must stop
        survey_now.wait(1)
        survey_now.clear()
        time.sleep(0.2)


if __name__ == "__main__":
    main()
