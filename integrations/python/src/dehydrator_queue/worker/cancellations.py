"""What tells a worker at once that a job was cancelled: messages of the server, which name ids.

They are an addition to the renewals, which find out what nobody told. A worker that may not subscribe does without.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from dehydrator_queue.job import id_bytes, id_text
from dehydrator_queue.queue.library import is_cluster, key_slot, look_up_slots, node_of, option, passes

log = logging.getLogger("dehydrator_queue")

#: Seconds for which it waits for a message, and after which it subscribes again.
WAIT, AGAIN = 0.5, 1.0

#: Seconds of silence after which it asks whether the connection still leads anywhere.
SILENCE = 30.0


def channel_of(key: str, db: int | None) -> str:
    """Returns the channel of a key. Without a database, on a cluster, it is in the key's slot."""
    tag, brace, _ = key.partition("{")[2].partition("}")
    return f"__cancelled@{db or 0}__:{key if db is not None or (tag and brace) else f'{{{key}}}'}"


def groups(client: Any, keys: Iterable[str]) -> dict[int, dict[str, str]]:
    """Returns the key of each channel, by slot: those of one slot share a connection. Without a cluster it is 0."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    if (cluster := is_cluster(client)) or hasattr(client, "connection_pool"):
        for key in keys:
            channel = channel_of(key, None if cluster else int(option(client, "db") or 0))
            found[key_slot(id_bytes(channel)) if cluster else 0][channel] = key
    return found


class Listening:
    """What one connection has subscribed to, and what its replies say. It sends and waits for nothing itself."""

    def __init__(self, client: Any) -> None:
        self._verb = "SSUBSCRIBE" if is_cluster(client) else "SUBSCRIBE"
        self._keys: dict[str, str] = {}
        self._heard_at, self._has_asked = time.monotonic(), False

    def words(self, channels: dict[str, str]) -> Iterator[tuple[str, ...]]:
        """Yields the commands to send: of channels that are new, and after a long silence a question."""
        if new := channels.keys() - self._keys.keys():
            self._keys = dict(channels)
            yield self._verb, *new
        silence = time.monotonic() - self._heard_at
        if silence > 2 * SILENCE:
            raise TimeoutError("the server is silent")
        if silence > SILENCE and not self._has_asked:
            self._has_asked = True
            yield ("PING",)

    def heard(self, row: Any) -> tuple[str, bytes] | None:
        """Returns the key and the id of a cancelled job, if the reply names one."""
        self._heard_at, self._has_asked = time.monotonic(), False
        what = id_text(row[0]) if isinstance(row, list) else ""
        if what == "sunsubscribe":
            # The slot has moved, or the node is a replica by now.
            raise ConnectionError("the subscription has ended")
        return (self._keys[id_text(row[1])], id_bytes(row[2])) if what in ("message", "smessage") else None


def is_final(error: Exception) -> bool:
    """Returns whether there are no messages at all for this worker, and writes that down."""
    if not passes(error):
        log.info("cancelled jobs are told at the next renewal: %s", error)
    return not passes(error)


class Cancellations:
    """Calls `hear` with the key and the id of each job that is cancelled, in threads of its own, one for each slot."""

    def __init__(self, client: Any, keys: Callable[[], Iterable[str]], hear: Callable[[str, bytes], Any]) -> None:
        """`keys`: returns the keys of the worker, of which there may be more later."""
        self._client, self._keys, self._hear = client, keys, hear
        self._ended = threading.Event()
        self._start(self._look)

    def stop(self) -> None:
        self._ended.set()

    def _start(self, run: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=run, args=arguments, name="dehydrator-cancellations", daemon=True).start()

    def _look(self) -> None:
        slots: set[int] = set()
        while not self._ended.is_set():
            for slot in groups(self._client, self._keys()).keys() - slots:
                slots.add(slot)
                self._start(self._listen, slot)
            self._ended.wait(AGAIN)

    def _listen(self, slot: int) -> None:
        while not self._ended.is_set():
            try:
                self._listen_once(slot)
            except Exception as error:
                if self._ended.is_set() or is_final(error):
                    self._ended.set()
                    return
                with suppress(Exception):
                    look_up_slots(self._client)
            self._ended.wait(AGAIN)

    def _listen_once(self, slot: int) -> None:
        pool = node_of(self._client, next(iter(groups(self._client, self._keys())[slot]))).connection_pool
        # It takes none of the pool's.
        connection = pool.connection_class(**pool.connection_kwargs)
        listening = Listening(self._client)
        try:
            # That of Sentinel looks up the address only then.
            connection.connect()
            while not self._ended.is_set():
                for words in listening.words(groups(self._client, self._keys())[slot]):
                    connection.send_command(*words)
                if connection.can_read(timeout=WAIT):
                    row = connection.read_response(disable_decoding=True, push_request=True)
                    if (told := listening.heard(row)) is not None:
                        self._hear(*told)
        finally:
            connection.disconnect()
