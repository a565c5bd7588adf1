"""What a worker is given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


def id_text(id: bytes | str) -> str:
    """Returns an id as text; bytes that are no UTF-8 come back the same by `id_bytes`."""
    return id if isinstance(id, str) else id.decode("utf-8", "surrogateescape")


def id_bytes(id: bytes | str) -> bytes:
    if not isinstance(id, (bytes, str)):
        raise TypeError(f"an id is a str or bytes, not {id!r}")
    return id if isinstance(id, bytes) else id.encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Delivery:
    """An element that the server gave out under a lease."""

    key: str
    id: bytes
    element: bytes
    deliveries: int
    token: str


@dataclass
class Job:
    """A delivery with its payload. While its work runs, its lease is renewed in the background."""

    id: str
    payload: Any
    #: How often it was given out, this time included.
    attempt: int
    #: The name of the queue that it is from.
    queue: str
    #: The name of the lease: two attempts at one job never share it. Good for fencing what the work itself writes.
    token: str
    #: Set when the job was cancelled, is another worker's by now, or was cut off by a stop: the work should end, and
    #: its result counts no more.
    lost: threading.Event = field(default_factory=threading.Event, repr=False)

    @classmethod
    def of(cls, delivery: Delivery, decode: Callable[[bytes], Any]) -> Job:
        payload = decode(delivery.element)
        return cls(id_text(delivery.id), payload, delivery.deliveries, delivery.key, delivery.token)


@dataclass(frozen=True)
class Item:
    """One of several payloads that are put away at once."""

    payload: Any
    id: str | bytes | None = None
    #: In seconds, or a timedelta.
    delay: Any = 0.0


@dataclass(frozen=True)
class Waiting:
    """What the queue knows of an element that is in it."""

    id: str
    payload: Any
    #: When it is due, or when its lease ends, in seconds since 1970 by the server's clock.
    due: float
    #: How often it was given out.
    attempts: int
    #: Whether a worker has it, under a lease that runs.
    leased: bool


@dataclass(frozen=True)
class DeadLetter:
    """An entry of the stream of dead letters."""

    entry: str
    id: str
    element: bytes
    attempts: int
    #: Why it is one; empty if it was given out as often as it may be, and its last worker said nothing.
    reason: str
