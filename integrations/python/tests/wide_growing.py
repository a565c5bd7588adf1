"""Changes the number of a queue's keys while several processes put, replace and cancel, and audits what came of it.

usage: wide_growing.py URL STEPS. Processes that work by an old directory are the danger, so all but one read it when
they are told to and not before, and all use the same ids.
"""

from __future__ import annotations

import collections
import multiprocessing
import random
import sys
import time
from pathlib import Path
from typing import Any

import redis

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
from dehydrator_queue import Queue, Raw

CLIENTS, IDS = 3, 300
# The number of steps between two changes: puts, and cancels that found their element.
THINGS, CANCELLED = int(sys.argv[2]), 5


class Growing:
    """The queue, with a client for commands of our own."""

    def __init__(self, url: str) -> None:
        kind = redis.RedisCluster if "+cluster" in url else redis.Redis
        self.cluster: Any = kind.from_url(url.replace("+cluster", ""), decode_responses=True)
        self.queue = Queue(self.cluster, "jobs", keys=3, codec=Raw())
        self.set_keys, self.forget, self.cancel = self.queue.set_keys, self.queue.forget_keys, self.queue.cancel
        self.read()

    def read(self) -> None:
        self.queue._server.plain.follow(self.queue._server.router.directory.read())

    @property
    def lists(self) -> Any:
        return self.queue._server.plain.follow(self.queue._server.router.directory.open()).lists

    def push(self, id: str, element: str, ttl: int, how: str) -> str | None:
        return "OK" if self.queue.put(element, id=id, delay=ttl / 1000, replace=how == "REPLACE") else None


def now():
    return time.time() * 1000


def client(url, name, stop, out, counts):
    """Does random things with random ids. Each thing: what, id, version, ttl, when it began and ended, the reply."""
    queue, things, random_ = Growing(url), [], random.Random(name)
    while not stop.is_set():
        id, ttl = f"id:{random_.randrange(IDS)}", random_.choice([100, 300, 800])
        version = f"{name}-{len(things)}"
        if name == 0:
            queue.read()
        what = random_.choice(["NX", "NX", "REPLACE", "cancel"])
        began = now()
        reply = queue.cancel(id) if what == "cancel" else queue.push(id, version, ttl, what)
        things.append((what, id, version, ttl, began, now(), reply))
        with counts.get_lock():
            counts[0] += 1
            counts[1] += what == "cancel" and reply
        time.sleep(0.002)
    out.put(("things", things))


def consumer(url, stop, out):
    """Takes what is due, at most once. Each: id, version, when the POLL began and ended."""
    queue, taken = Growing(url), []
    while True:
        last, rows = stop.is_set(), []
        queue.read()
        for key in sorted({name for names in queue.lists for name in names}):
            began = now()
            rows = queue.cluster.execute_command("DEHYDRATOR.POLL", key, "WITHIDS")
            taken.extend((id, version, began, now()) for id, version in rows)
        keys = queue.lists[0] + queue.lists[-1]
        if last and not any(queue.cluster.execute_command("DEHYDRATOR.LEN", key) for key in keys):
            break
        time.sleep(0.005)
    out.put(("taken", taken))


def audit(things, taken):
    wrong, deliveries = collections.Counter(), {}
    of_id = collections.defaultdict(list)
    for thing in things:
        of_id[thing[1]].append(thing)
    pushed = {it[2]: it for it in things if it[0] != "cancel" and it[6] == "OK"}
    for _, version, began, ended in taken:
        wrong["twice"] += version in deliveries
        wrong["never pushed"] += version not in pushed
        deliveries[version] = (began, ended)
    for version, (_, id, _, ttl, began, ended, _) in pushed.items():
        delivery = deliveries.get(version)
        wrong["early"] += delivery is not None and delivery[1] < int(began) + ttl
        # The cancel that may have removed it was concurrent, or came later.
        others = [it for it in of_id[id] if it[5] >= began and it[2] != version]
        removals = [it for it in others if it[0] == "REPLACE" or (it[0] == "cancel" and it[6])]
        wrong["lost"] += delivery is None and not removals
        if delivery is not None:
            # A cancel that came clearly after the push, and clearly before the delivery, must have found it.
            between = [it for it in of_id[id] if it[4] > ended and it[5] < delivery[0]]
            wrong["cancelled and done"] += any(it[0] == "cancel" for it in between)
            wrong["replaced and done"] += any(it[0] == "REPLACE" for it in between)
            wrong["pushed beside it"] += any(it[0] == "NX" and it[6] == "OK" for it in between)
    return wrong


def main():
    url = sys.argv[1]
    queue, out = Growing(url), multiprocessing.Queue()
    queue.set_keys(3)
    stop, stop_consumer = multiprocessing.Event(), multiprocessing.Event()
    counts = multiprocessing.Array("i", 2)

    def work():
        things, cancelled = counts
        while counts[0] < things + THINGS or counts[1] < cancelled + CANCELLED:
            time.sleep(0.01)

    processes = [(client, (url, name, stop, out, counts)) for name in range(CLIENTS)]
    processes.append((consumer, (url, stop_consumer, out)))
    for target, args in processes:
        multiprocessing.Process(target=target, args=args, daemon=True).start()
    changes = [len(set(queue.lists[-1]))]
    # The second change begins before the first one is complete: some ids still belong to their former keys.
    for numbers in [[5, 3], [4]]:
        work()
        queue.read()
        for count in numbers:
            queue.set_keys(count)
            changes.append(len(set(queue.lists[-1])))
            work()
        assert len(queue.lists) == 1 + len(numbers)
        while queue.forget():
            time.sleep(0.01)
        assert len(queue.lists) == 1
    work()
    stop.set()
    heard = [out.get() for _ in range(CLIENTS)]
    stop_consumer.set()
    heard.append(out.get())
    things = [it for kind, rows in heard if kind == "things" for it in rows]
    taken = [it for kind, rows in heard if kind == "taken" for it in rows]
    assert len(taken) > THINGS / 3, len(taken)
    print(f"{len(things)} pushes and cancels, {counts[1]} cancelled, {len(taken)} taken", file=sys.stderr)
    print(f"{changes} keys; wrong: {dict(+audit(things, taken))}")


if __name__ == "__main__":
    main()
