from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from topologies import Cluster

from dehydrator_queue.frameworks.leases import RENEWER, Lease, Leases, Renewer
from dehydrator_queue.queue.commands import pairs
from dehydrator_queue.queue.library import connect, node_of, reply_in


class Consumer(Leases):
    """Notes that it was to renew."""

    def __init__(self) -> None:
        super().__init__(lambda: None, 300)
        self.renewed = threading.Event()

    def renew(self) -> None:
        self.renewed.set()


def test_consumers_that_begin_at_once_are_all_watched_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, start, getpid = [], threading.Thread.start, os.getpid

    def noting(thread: threading.Thread) -> None:
        if thread.name == "dehydrator-renewal":
            begun.append(thread)
            # Time for another one to come to the same place.
            time.sleep(0.002)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noting)
    monkeypatch.setattr(os, "getpid", lambda: (time.sleep(0.001), getpid())[1])
    unwatched, second = 0, 0
    for _ in range(20):
        renewer, consumers, together = Renewer(), [Consumer() for _ in range(4)], threading.Barrier(4)
        begun.clear()

        def watch(consumer: Consumer, renewer: Renewer = renewer, together: threading.Barrier = together) -> None:
            together.wait()
            renewer.watch(consumer)

        threads = [threading.Thread(target=watch, args=[consumer]) for consumer in consumers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        end = time.monotonic() + 120
        unwatched += sum(not consumer.renewed.wait(max(0, end - time.monotonic())) for consumer in consumers)
        second += len(begun) > 1
    assert (unwatched, second) == (0, 0)


def test_a_forked_process_watches_its_own_whatever_its_parent_was_about() -> None:
    renewer, parent = RENEWER, Consumer()
    renewer.watch(parent)
    # As if another thread were in the middle of something.
    with renewer._lock, parent._lock:
        child = os.fork()
        if child == 0:
            parent.forget()
            own = Consumer()
            renewer.watch(own)
            os._exit(0 if own.renewed.wait(120) and len(renewer._watched) == 1 else 1)
    # A stuck one does not end by itself.
    killing = threading.Timer(240, lambda: os.kill(child, 9))
    killing.start()
    _, status = os.waitpid(child, 0)
    killing.cancel()
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_silent_node_ends_no_lease_of_another(tmp_path: Path) -> None:
    with closing(Cluster(tmp_path)) as cluster:
        for node in cluster.nodes:
            node.client.config_set("cluster-require-full-coverage", "no")
        url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
        client, lease = connect(url, reply_in(3000)), 3000
        leases = Leases(lambda: client, lease, are_apart=True)
        # On three nodes, most on the first one.
        keys = {str(n): f"{{celery}}{n}" for n in range(6)} | {"high": "{high}", "low": "{low}"}
        for tag, key in keys.items():
            client.execute_command("DEHYDRATOR.PUSH", key, 0, "element", tag)
            client.execute_command("DEHYDRATOR.POLL", key, "COUNT", 1, "LEASE", lease, "TOKEN", tag)
            leases.add(tag, Lease(key, tag.encode(), tag, 1))
        port = node_of(client, "{celery}1").connection_pool.connection_kwargs["port"]
        silent = next(node for node in cluster.nodes if node.port == port)
        silent.process.send_signal(signal.SIGSTOP)
        try:
            # Sent again, each with a wait for its reply.
            leases.settle("1")
            end = time.monotonic() + 3 * lease / 1000
            while time.monotonic() < end:
                for tag in ("high", "low"):
                    told = pairs(client.execute_command("DEHYDRATOR.LOOK", f"{{{tag}}}", tag, "FULL"))
                    assert told["leased"] == 1
                time.sleep(0.05)
        finally:
            silent.process.send_signal(signal.SIGCONT)
        assert {"high", "low"} <= leases._held.keys()
        leases.forget()
