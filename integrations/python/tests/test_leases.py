from __future__ import annotations

import os
import threading
import time

import pytest

from dehydrator_queue.leases import RENEWER, Leases, Renewer


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
