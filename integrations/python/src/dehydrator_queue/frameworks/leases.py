"""The messages that a process holds for a framework, and the thread that renews their leases."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from dehydrator_queue.job import id_text
from dehydrator_queue.queue.library import passes

log = logging.getLogger("dehydrator_queue")

#: Seconds between retries after a broken connection or a failover.
ANEW = 1.0


@dataclass(frozen=True)
class Lease:
    """The key and the token of a held message. `key` is the full name."""

    key: str
    id: bytes
    token: str
    deliveries: int

    def settle_words(self) -> tuple[Any, ...]:
        return "DEHYDRATOR.SETTLE", self.key, self.token, self.id

    def tell_lost(self) -> None:
        log.warning("%s: the lease of %s had run out, and it is another's by now", self.key, id_text(self.id))


class Leases:
    """The leases of one consumer, by tags of its choice. Thread-safe: acks come from any thread."""

    def __init__(
        self,
        client: Callable[[], Any],
        lease_ms: int,
        renewed: Callable[[str], None] = lambda key: None,
        *,
        are_apart: bool = False,
    ) -> None:
        """`client`: creates a thread-safe client with a reply timeout that suits the lease (`reply_in`).

        `renewed`: called for each queue in which leases were renewed, in another thread. `are_apart`: the keys are on
        several nodes, so each is renewed in a thread of its own.
        """
        self._client = client
        self._are_apart = are_apart
        self._renewing: dict[str, threading.Thread] = {}
        self._tell = renewed
        self.lease_ms = lease_ms
        self._held: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._due = time.monotonic() + lease_ms / 3000

    def __contains__(self, tag: str) -> bool:
        return tag in self._held

    def __len__(self) -> int:
        return len(self._held)

    def add(self, tag: str, lease: Lease) -> None:
        with self._lock:
            self._held[tag] = lease
        RENEWER.watch(self)

    def settle(self, tag: str) -> None:
        """Settles a message: the work is done."""
        self._end(tag, "DEHYDRATOR.SETTLE")

    def release(self, tag: str, *, counted: bool = True) -> None:
        """Gives a message back: it is due at once. `counted`: whether this delivery counts."""
        self._end(tag, "DEHYDRATOR.RELEASE", 0, option=() if counted else ("UNCOUNTED",))

    def release_all(self, but: Container[str] = ()) -> None:
        """Gives back the held messages, in their order of arrival."""
        for tag in list(self._held):
            if tag not in but:
                self.release(tag)

    def outlive(self) -> None:
        """Renews what is held until it is settled, whoever else forgets it."""
        RENEWER.outliving.add(self)

    def _end(self, tag: str, command: str, *arguments: Any, option: tuple[str, ...] = ()) -> None:
        lease = self.drop(tag)
        if lease is None:
            return
        if self._send(lease, (command, lease.key, *arguments, lease.token, lease.id, *option)) == [0]:
            lease.tell_lost()

    def settle_again(self, lease: Lease) -> None:
        """Settles a message that was dropped, and perhaps settled."""
        self._send(lease, lease.settle_words())

    def _send(self, lease: Lease, words: tuple[Any, ...]) -> Any:
        """Returns the reply, or nothing if the command must be sent again."""
        client = self._client()
        try:
            return client.execute_command(*words)
        except Exception as error:
            if not passes(error):
                raise
            # The token makes it safe to resend, even on another connection.
            log.warning("%s of %s is sent again: %s", words[0], id_text(lease.id), error)
            RENEWER.again(client, words, self.lease_ms / 1000)
            return None

    def tags(self) -> list[str]:
        return list(self._held)

    def get(self, tag: str) -> Lease | None:
        return self._held.get(tag)

    def drop(self, tag: str) -> Lease | None:
        """Forgets a lease, without a command."""
        with self._lock:
            dropped = self._held.pop(tag, None)
            if not self._held:
                RENEWER.outliving.discard(self)
        return dropped

    def forget(self) -> None:
        """Forgets all leases, which belong to the parent process, as may a holder of the lock at the fork."""
        self._lock = threading.Lock()
        self._held = {}
        self._renewing = {}

    def until_renewal(self) -> float:
        """Returns the seconds until the next renewal."""
        return max(0.0, self._due - time.monotonic())

    def renew(self) -> None:
        """Renews all held messages, if a third of a lease has passed. A failed renewal is retried soon."""
        if self.until_renewal() > 0:
            return
        self._due = time.monotonic() + self.lease_ms / 3000
        held: dict[str, list[tuple[str, Lease]]] = defaultdict(list)
        with self._lock:
            for tag, lease in self._held.items():
                held[lease.key].append((tag, lease))
        for key, some in held.items():
            if not self._are_apart:
                self._try_renew(key, some)
            elif key not in self._renewing or not self._renewing[key].is_alive():
                self._renewing[key] = threading.Thread(target=self._try_renew, args=(key, some), daemon=True)
                self._renewing[key].start()

    def _try_renew(self, key: str, some: list[tuple[str, Lease]]) -> None:
        try:
            self._renew(key, some)
        except Exception as error:
            self._due = time.monotonic() + min(ANEW, self.lease_ms / 10_000)
            log.warning("%s: leases could not be renewed, and will be again: %s", key, error)

    def _renew(self, key: str, some: list[tuple[str, Lease]]) -> None:
        words = [word for _, lease in some for word in (lease.token, lease.id)]
        renewed = self._client().execute_command("DEHYDRATOR.RENEW", key, self.lease_ms, *words)
        for (tag, lease), still in zip(some, renewed, strict=True):
            if not still and self.drop(tag) is not None:
                log.warning("%s: %s was cancelled, or its lease ran out", key, id_text(lease.id))
        self._tell(key)


class Renewer:
    """One thread per process that holds messages: a pool of one task blocks the loop while it works."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Starts afresh, also in a child process: a fork copies no threads, and the copied state is the parent's."""
        self._thread: threading.Thread | None = None
        self._watched: WeakSet[Leases] = WeakSet()
        #: Of channels that have ended.
        self.outliving: set[Leases] = set()
        self._again: list[tuple[Any, tuple[Any, ...], float]] = []
        self._resending: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def watch(self, leases: Leases) -> None:
        with self._lock:
            if leases in self._watched:
                return
            self._watched.add(leases)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dehydrator-renewal", daemon=True)
                self._thread.start()
        self._wake.set()

    def outliving_count(self) -> int:
        """Counts the messages of channels that have ended."""
        return sum(map(len, list(self.outliving)))

    def again(self, client: Any, words: tuple[Any, ...], seconds: float) -> None:
        """Retries a command until it arrives, or until its lease has expired."""
        with self._lock:
            self._again.append((client, words, time.monotonic() + seconds))
            if self._resending is None:
                # Apart from the renewals, which do not wait for a silent server, or node.
                self._resending = threading.Thread(target=self._resend, name="dehydrator-resending", daemon=True)
                self._resending.start()

    def _resend(self) -> None:
        while True:
            time.sleep(ANEW)
            self._send_again()
            with self._lock:
                if not self._again:
                    self._resending = None
                    return

    def _run(self) -> None:
        wake = self._wake
        while True:
            with self._lock:
                watched = list(self._watched)
            wait = min((leases.until_renewal() for leases in watched), default=None)
            # Do not keep the object alive meanwhile.
            del watched
            if wake.wait(wait):
                wake.clear()
            self._renew()

    def _renew(self) -> None:
        with self._lock:
            watched = list(self._watched)
        for leases in watched:
            try:
                leases.renew()
            except Exception as error:
                log.warning("leases could not be renewed, and will be again: %s", error)

    def _send_again(self) -> None:
        with self._lock:
            again, self._again = self._again, []
        # Where one has failed, the others wait for the next round.
        failed: dict[tuple[int, str], Exception] = {}
        for client, words, end in again:
            if (error := failed.get((id(client), words[1]))) is None:
                try:
                    client.execute_command(*words)
                    continue
                except Exception as raised:
                    error = failed[id(client), words[1]] = raised
            if time.monotonic() < end:
                with self._lock:
                    self._again.append((client, words, end))
            else:
                log.error("%s never arrived, and the message comes again: %s", words[0], error)


RENEWER = Renewer()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RENEWER._forget)
