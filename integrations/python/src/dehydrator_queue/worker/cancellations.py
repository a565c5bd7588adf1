"""What tells a worker at once that a job was cancelled: messages of the server, which name ids.

They are an addition to the renewals, which find out what nobody told. A worker that may not subscribe does without.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from dehydrator_queue.job import id_bytes, id_text
from dehydrator_queue.queue.library import is_cluster, option, passes

log = logging.getLogger("dehydrator_queue")

#: Seconds for which it waits for a message, and after which it subscribes again.
WAIT, AGAIN = 0.5, 1.0

#: A client of the user with fewer connections keeps them for commands.
FEWEST = 8


def channels(client: Any, keys: Iterable[str]) -> dict[str, str]:
    """Returns the channels of some keys, and the key of each; none where nobody can subscribe."""
    pool = getattr(client, "connection_pool", None)
    if pool is None or is_cluster(client) or not hasattr(client, "pubsub"):
        return {}
    if (getattr(pool, "max_connections", None) or FEWEST) < FEWEST:
        return {}
    return {f"__cancelled@{option(client, 'db') or 0}__:{key}": key for key in keys}


class Cancellations:
    """Calls `hear` with the key and the id of each job that is cancelled, in a thread of its own."""

    def __init__(self, client: Any, hear: Callable[[str, bytes], Any]) -> None:
        self._client, self._hear = client, hear
        self._ended = threading.Event()

    def start(self, keys: Iterable[str]) -> None:
        if some := channels(self._client, keys):
            threading.Thread(target=self._run, args=(some,), name="dehydrator-cancellations", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def _run(self, some: dict[str, str]) -> None:
        while not self._ended.is_set():
            try:
                with self._client.pubsub(ignore_subscribe_messages=True) as pubsub:
                    pubsub.subscribe(*some)
                    while not self._ended.is_set():
                        if (message := pubsub.get_message(timeout=WAIT)) is not None:
                            self._hear(some[id_text(message["channel"])], id_bytes(message["data"]))
            except Exception as error:
                if self._ended.is_set():
                    return
                if not passes(error):
                    log.info("cancelled jobs are told at the next renewal: %s", error)
                    return
            self._ended.wait(AGAIN)
