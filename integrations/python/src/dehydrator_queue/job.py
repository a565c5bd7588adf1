"""The jobs of a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from dehydrator_queue.envelope import unwrap, wrap
from dehydrator_queue.options import Duration


def id_text(id: bytes | str) -> str:
    """Returns an id as text; `id_bytes` restores bytes that are not UTF-8."""
    return id if isinstance(id, str) else id.decode("utf-8", "surrogateescape")


def id_bytes(id: bytes | str) -> bytes:
    if not isinstance(id, (bytes, str)):
        raise TypeError(f"an id is a str or bytes, not {id!r}")
    return id if isinstance(id, bytes) else id.encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Delivery:
    """An element that the server delivered with a lease."""

    key: str
    id: bytes
    element: bytes
    deliveries: int
    token: str

    def changed(self, headers: dict[str, str]) -> bytes | None:
        """Returns the element with these headers, or None if it has them."""
        before, element = unwrap(self.element)
        return None if headers == before else wrap(headers, element)


#: Why a job is lost. A renewal tells no more than that it has no lease.
CANCELLED, NO_LEASE, LATE, STOPPED = "cancelled", "its lease is over", "it took too long", "the worker stopped"


class Lost(threading.Event):
    """Set when the result of the work is ignored; true then."""

    #: Why it is set; empty until then.
    reason = ""

    def __bool__(self) -> bool:
        return self.is_set()

    def tell(self, reason: str) -> None:
        self.reason = reason
        self.set()

    def __repr__(self) -> str:
        return f"<Lost: {self.reason or self.is_set()}>"


@dataclass
class Job:
    """A delivery with its payload. While its work runs, its lease is renewed in the background."""

    id: str
    payload: Any
    #: How often it was delivered, including this time.
    attempt: int
    #: The name of its queue.
    queue: str
    #: The token of the lease, different for each attempt. It can fence the writes of the work.
    token: str
    #: Set when the job was cancelled, another worker has it, or a stop interrupted it: the work should end, and
    #: its result is ignored.
    lost: Lost = field(default_factory=Lost, repr=False)
    #: What hooks put beside the payload, such as the context of a trace. If it changes, the next attempt gets it so.
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    #: Free for hooks.
    context: Any = field(default=None, repr=False)
    #: Whether its work took longer than it may.
    late: bool = field(default=False, repr=False)

    @classmethod
    def of(cls, delivery: Delivery, decode: Callable[[bytes], Any], queue: str) -> Job:
        headers, element = unwrap(delivery.element)
        job = cls(id_text(delivery.id), decode(element), delivery.deliveries, queue, delivery.token)
        job.headers = headers
        return job


@dataclass(frozen=True)
class Item:
    """One of several payloads that are put into a queue at once."""

    payload: Any
    id: str | bytes | None = None
    #: This and what follows are those of `Queue.put`.
    delay: Duration = 0.0
    at: datetime | float | None = None
    within: Duration | None = None
    attempts: int | None = None
    group: str | bytes | None = None


class Put(NamedTuple):
    """What became of one of several payloads."""

    id: str
    #: `exists`: the id is in the queue, or remembered. `full`: a limit is reached.
    result: Literal["stored", "exists", "full"]


@dataclass(frozen=True)
class Waiting:
    """An element of the queue, as a reader sees it."""

    id: str
    payload: Any
    #: Its deadline, or the end of its lease, in seconds since 1970 by the server's clock.
    due: float
    #: How often it was delivered.
    attempts: int
    #: Whether a worker has it, with a running lease.
    leased: bool
    #: Why its payload, which is None then, cannot be decoded.
    error: Exception | None = None
    #: Why it was given back the last time, as `look` tells.
    reason: str = ""


@dataclass(frozen=True)
class DeadLetter:
    """An entry of the stream of dead letters."""

    #: The id of the entry, with which `revive` and `drop` name it.
    entry: str
    #: The id of the job.
    id: str
    element: bytes
    attempts: int
    #: Why; empty if its last worker did not say.
    reason: str
    group: str | None = None
    payload: Any = None
    #: Why its payload, which is None then, cannot be decoded.
    error: Exception | None = None
