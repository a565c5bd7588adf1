"""The commands: their words, and the parsing of their replies. Nothing here connects to a server."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from dehydrator_queue.codec import Codec
from dehydrator_queue.envelope import unwrap, wrap
from dehydrator_queue.job import DeadLetter, Delivery, Item, Put, Waiting, id_bytes, id_text
from dehydrator_queue.options import (
    LONGEST_MS,
    MOST_ATTEMPTS,
    Duration,
    attempts_of,
    flag,
    group_words,
    instance,
    milliseconds,
    rounded_up,
    text,
    unix_milliseconds,
    whole,
)

T = TypeVar("T")

#: How many dead letters to keep; None: all. By default so many.
Keep = int | None
KEEP = 10_000

#: What the replies of MPUSH mean.
RESULTS: dict[int, Literal["stored", "exists", "full"]] = {1: "stored", 0: "exists", -1: "full"}

#: The most bytes of a reason.
REASON_BYTES = 4096

#: The maximum number of elements per command, and of bytes, if there are several.
BATCH, BATCH_BYTES = 1000, 1 << 20


@dataclass(frozen=True)
class Question(Generic[T]):
    """A command and the parser of its reply. Each is safe to repeat."""

    words: tuple[Any, ...]
    read: Callable[[Any], T]


#: Yields questions, is sent what their replies were read as, and returns a result.
Flow = Generator[Question[Any], Any, T]


def name_of(id: str | bytes | None) -> bytes:
    """Returns the id of a payload: the given one, or a generated one."""
    return id_bytes(uuid.uuid4().hex if id is None else text("id", id))


def _moment_words(delay: Duration, at: datetime | float | None) -> tuple[int, tuple[Any, ...]]:
    """Returns the delay in milliseconds, and the option AT."""
    ms = milliseconds("delay", delay)
    if at is not None and delay:
        raise ValueError("`delay` and `at` exclude each other")
    return ms, () if at is None else ("AT", unix_milliseconds("at", at))


def _own_words(
    replace: bool, within: Duration | None, attempts: int | None, group: str | bytes | None
) -> tuple[Any, ...]:
    """Returns the options of PUSH and MPUSH for what holds of a job alone."""
    end = () if within is None else ("WITHIN", milliseconds("within", within, 1))
    most = () if attempts is None else ("DELIVERIES", attempts_of(attempts))
    return ("REPLACE" if flag("replace", replace) else "NX", *end, *most, *group_words(group))


def _repeated(question: Question[int]) -> Flow[int]:
    """Repeats a command that changes some elements until it has changed all. Returns how many."""
    total = 0
    while (changed := (yield question)) > 0:
        total += changed
    return total


def scanned(reply: Any) -> tuple[Any, list[bytes]]:
    """Reads a reply of SCAN: the cursor of the next call, or None, and ids."""
    cursor, ids = reply
    return None if id_text(cursor) == "0" else cursor, [id_bytes(id) for id in ids]


def _pattern(prefix: bytes) -> bytes:
    return re.sub(rb"([\\*?\[])", rb"\\\1", prefix) + b"*"


def new_token() -> str:
    return uuid.uuid4().hex


def as_bytes(reply: Any) -> bytes:
    """Returns a reply in bytes, even if the client decodes replies."""
    return reply.encode() if isinstance(reply, str) else bytes(reply)


def pairs(reply: Any) -> dict[str, Any]:
    """Parses a map in RESP3, or an array of names and values in RESP2."""
    if not isinstance(reply, dict):
        reply = dict(zip(reply[::2], reply[1::2], strict=True))
    return {id_text(name): value for name, value in reply.items()}


def _each_is_one(reply: Any) -> list[bool]:
    return [one == 1 for one in reply]


def _is_one(reply: Any) -> bool:
    return bool(reply == 1)


def _deliveries(key: str, reply: Any) -> list[Delivery]:
    return [
        Delivery(key, as_bytes(id), as_bytes(element), count, id_text(token))
        for id, element, count, token in reply or []
    ]


def poll(keys: Sequence[str], count: int, lease_ms: int, token: str, block_ms: int | None) -> Question[list[Delivery]]:
    """Leases due elements of the first key that has any."""
    options: list[Any] = ["COUNT", count, "LEASE", lease_ms, "TOKEN", token]
    if block_ms is not None:
        options += ["BLOCK", max(1, block_ms)]
    if len(keys) == 1:
        return Question(("DEHYDRATOR.POLL", keys[0], *options), lambda reply: _deliveries(keys[0], reply))
    words = ("DEHYDRATOR.MPOLL", len(keys), *keys, *options)
    return Question(words, lambda reply: _deliveries(id_text(reply[0]), reply[1]) if reply else [])


def keep_words(keep: Keep) -> tuple[Any, ...]:
    """Returns the option of ONDUE that limits a stream."""
    return () if keep is None else ("MAXLEN", "~", whole("keep_dead", keep))


def reason_words(reason: str) -> tuple[Any, ...]:
    """Returns the option of RELEASE and REJECT that tells the reason."""
    told = reason.encode(errors="backslashreplace")[:REASON_BYTES]
    return ("REASON", told.decode(errors="ignore").encode()) if told else ()


def check_deliveries(deliveries: int | None) -> None:
    """Checks an option of frameworks, which may be none."""
    if deliveries is not None:
        whole("deliveries", deliveries, 1, MOST_ATTEMPTS)


def limit_words(key: str, dead: str, attempts: int | None, keep: Keep, *how: str) -> tuple[Any, ...]:
    """Returns the words that limit the deliveries of a queue: with NX, unless it has a policy already."""
    most = MOST_ATTEMPTS if attempts is None else attempts_of(attempts)
    return ("DEHYDRATOR.ONDUE", key, *how, "HOLD", "DELIVERIES", most, "STREAM", dead, *keep_words(keep))


def reject(
    key: str,
    dead: str,
    token: str,
    id: bytes,
    reason: str,
    attempts: int | None = None,
    keep: Keep = None,
    element: bytes | None = None,
) -> Flow[bool]:
    """Makes what is still held a dead letter. A queue without a policy, as after a flush, gets one."""
    question = _reject(key, token, id, reason, element)
    try:
        return bool((yield question))
    except Exception as error:
        if not str(error).startswith("NORULE"):
            raise
    yield Question(limit_words(key, dead, attempts, keep, "NX"), lambda reply: None)
    return bool((yield question))


def _reject(key: str, token: str, id: bytes, reason: str, element: bytes | None) -> Question[bool]:
    return Question(("DEHYDRATOR.REJECT", key, token, id, *_new(element), *reason_words(reason)), _is_only)


def _new(element: bytes | None) -> tuple[Any, ...]:
    return () if element is None else ("ELEMENT", element)


def _is_only(reply: Any) -> bool:
    return bool(reply[0] == 1)


class Commands:
    """The commands of one queue."""

    def __init__(self, key: str, dead: str, codec: Codec, keep: Keep = KEEP, queue: str | None = None) -> None:
        """`queue`: the name of the queue, if it is not its key."""
        keep_words(keep)
        self.keep = keep
        self.key = key
        self.queue = queue or key
        self.dead = dead
        self.codec = codec

    def at(self, key: str) -> Commands:
        """Returns the same for one of the keys of a queue."""
        return Commands(key, f"{key}:dead", self.codec, self.keep, self.queue)

    def encode(self, payload: Any, headers: Mapping[str, str] | None = None) -> bytes:
        return wrap(headers or {}, self.codec.encode(payload))

    def decode(self, element: Any) -> Any:
        return self.codec.decode(unwrap(as_bytes(element))[1])

    def read(self, element: Any) -> tuple[Any, Exception | None]:
        """Returns the payload, or None and why it cannot be decoded."""
        try:
            return self.decode(element), None
        except Exception as error:
            return None, error

    def put(
        self,
        payload: Any,
        id: str | bytes | None,
        delay: Duration,
        at: datetime | float | None,
        replace: bool,
        within: Duration | None,
        attempts: int | None,
        group: str | bytes | None,
    ) -> tuple[bytes, Callable[[Mapping[str, str]], Question[str | None]]]:
        """Returns the id, and what makes the question from the headers."""
        is_drawn, name = id is None, name_of(id)
        ms, moment = _moment_words(delay, at)
        options = _own_words(replace, within, attempts, group)

        def sent(headers: Mapping[str, str]) -> Question[str | None]:
            words = ("DEHYDRATOR.PUSH", self.key, ms, self.encode(payload, headers), name, *options, *moment)
            # A generated id exists only if the same command arrived before.
            return Question(words, lambda reply: id_text(name) if is_drawn or reply is not None else None)

        return name, sent

    def put_many(
        self,
        items: Iterable[Item],
        replace: bool,
        within: Duration | None,
        attempts: int | None,
        group: str | bytes | None,
    ) -> tuple[list[bytes], Callable[[Mapping[str, str]], list[Question[list[tuple[int, Put]]]]]]:
        """Returns the ids, and what makes the questions from the headers. Their results name items by number."""
        ids: list[bytes] = []
        #: Those of each command have the same options.
        alike: dict[tuple[Any, ...], list[tuple[int, int, Item]]] = {}
        # They are checked without an item, too.
        _own_words(replace, within, attempts, group)
        for number, item in enumerate(items):
            ms, moment = _moment_words(instance("items", item, Item, "some of Item").delay, item.at)
            own = (
                within if item.within is None else item.within,
                attempts if item.attempts is None else item.attempts,
                group if item.group is None else item.group,
            )
            ids.append(name_of(item.id))
            alike.setdefault((*_own_words(replace, *own), *moment), []).append((number, ms, item))

        def sent(headers: Mapping[str, str]) -> list[Question[list[tuple[int, Put]]]]:
            questions = []
            for options, some in alike.items():
                batch: list[tuple[int, bytes, bytes, int, bool]] = []
                weight = 0
                for number, ms, item in some:
                    element = self.encode(item.payload, headers)
                    if len(batch) == BATCH or (batch and weight + len(element) > BATCH_BYTES):
                        questions.append(self._batch(batch, options))
                        batch, weight = [], 0
                    batch.append((ms, element, ids[number], number, item.id is None))
                    weight += len(element)
                questions.append(self._batch(batch, options))
            return questions

        return ids, sent

    def _batch(
        self, batch: Sequence[tuple[int, bytes, bytes, int, bool]], options: Sequence[Any]
    ) -> Question[list[tuple[int, Put]]]:
        def read(reply: Any) -> list[tuple[int, Put]]:
            # A generated id exists only if the same command arrived before.
            return [
                (number, Put(id_text(id), "stored" if is_drawn and one == 0 else RESULTS[one]))
                for (_, _, id, number, is_drawn), one in zip(batch, reply, strict=True)
            ]

        words = (word for one in batch for word in one[:3])
        return Question(("DEHYDRATOR.MPUSH", self.key, *words, *options), read)

    def cancel(self, ids: Sequence[str | bytes]) -> Question[int]:
        return Question(("DEHYDRATOR.REM", self.key, *(id_bytes(text("id", id)) for id in ids)), int)

    def cancel_some(self, ids: Sequence[str | bytes]) -> Flow[int]:
        return (yield self.cancel(ids)) if ids else 0

    def cancel_all(self, group: str | bytes | None, prefix: str | bytes | None) -> Flow[int]:
        if (group is None) == (prefix is None):
            raise ValueError("name either a `group` or a `prefix` of ids")
        if prefix is None:
            return _repeated(Question(("DEHYDRATOR.PURGE", self.key, *group_words(group)), int))
        return self._cancel_matching(_pattern(id_bytes(text("prefix", prefix, may_be_empty=True))))

    def _cancel_matching(self, pattern: bytes) -> Flow[int]:
        total, cursor = 0, 0
        while cursor is not None:
            words = ("DEHYDRATOR.SCAN", self.key, cursor, "MATCH", pattern, "COUNT", BATCH)
            cursor, ids = yield Question(words, scanned)
            if ids:
                total += yield self.cancel(ids)
        return total

    def postpone_all(self, delay: Duration, group: str | bytes) -> Flow[int]:
        words = ("DEHYDRATOR.TOUCH", self.key, milliseconds("delay", delay), *group_words(text("group", group)))
        return _repeated(Question(words, int))

    def postpone(self, id: str | bytes, delay: Duration, at: datetime | float | None) -> Question[bool]:
        ms, moment = _moment_words(delay, at)
        # A ttl of 0 would take the element from its worker; a millisecond does not.
        words = ("DEHYDRATOR.TOUCH", self.key, max(1, ms), *moment, id_bytes(text("id", id)))
        return Question(words, _is_one)

    def look(self, id: str | bytes) -> Question[Waiting | None]:
        def read(reply: Any) -> Waiting | None:
            if reply is None:
                return None
            told = pairs(reply)
            payload, error = self.read(told["element"])
            due, reason = told["deadline"] / 1000, id_text(told.get("reason") or b"")
            return Waiting(id_text(id), payload, due, told["deliveries"], told["leased"] == 1, error, reason)

        return Question(("DEHYDRATOR.LOOK", self.key, id_bytes(text("id", id)), "FULL"), read)

    def own_attempts(self, id: str | bytes) -> Question[int | None]:
        """Returns the attempts that `put` gave a job."""

        def read(reply: Any) -> int | None:
            return pairs(reply or []).get("deliveries-limit") or None

        return Question(("DEHYDRATOR.LOOK", self.key, id_bytes(id), "FULL"), read)

    def update(self, id: str | bytes, payload: Any) -> Question[None]:
        words = ("DEHYDRATOR.UPDATE", self.key, id_bytes(text("id", id)), self.encode(payload))
        return Question(words, lambda reply: None)

    def page(self, start: Any) -> Question[tuple[Any, list[Waiting]]]:
        """Lists a thousand from `start` on, and returns the start of the next page, or None."""

        def read(reply: Any) -> tuple[Any, list[Waiting]]:
            rows = []
            for id, deadline, _, deliveries, leased, element in reply[1]:
                payload, error = self.read(element)
                rows.append(Waiting(id_text(id), payload, deadline / 1000, deliveries, leased == 1, error))
            return reply[0], rows

        return Question(("DEHYDRATOR.RANGE", self.key, start, "+", "COUNT", BATCH, "WITHELEMENTS"), read)

    def length(self) -> Question[int]:
        return Question(("DEHYDRATOR.LEN", self.key), int)

    def info(self, group: str | bytes | None = None) -> Question[dict[str, Any]]:
        def read(reply: Any) -> dict[str, Any]:
            told = pairs(reply)
            # Of a group there is none.
            return {**told, "policy": pairs(told["policy"])} if "policy" in told else told

        return Question(("DEHYDRATOR.INFO", self.key, *group_words(group, may_be_empty=True)), read)

    def pause(self, duration: Duration | None, group: str | bytes | None = None) -> Question[None]:
        end = () if duration is None else ("FOR", milliseconds("duration", duration))
        return Question(("DEHYDRATOR.PAUSE", self.key, *end, *group_words(group)), lambda reply: None)

    def resume(self, group: str | bytes | None = None) -> Question[bool]:
        return Question(("DEHYDRATOR.RESUME", self.key, *group_words(group)), _is_one)

    def settle(self, token: str, id: str | bytes) -> Question[bool]:
        return Question(("DEHYDRATOR.SETTLE", self.key, token, id_bytes(id)), _is_only)

    def renew(self, lease_ms: int, held: Sequence[tuple[str, str | bytes]]) -> Question[list[bool]]:
        words: list[Any] = ["DEHYDRATOR.RENEW", self.key, lease_ms]
        for token, id in held:
            words += [token, id_bytes(id)]
        return Question(tuple(words), _each_is_one)

    def give_back(self, token: str, id: str | bytes, reason: str = "") -> Question[bool]:
        """Gives a job back that did not fail, to its old place. It counts as no attempt."""
        words = ("DEHYDRATOR.RELEASE", self.key, 0, token, id_bytes(id), "UNCOUNTED", *reason_words(reason))
        return Question(words, _is_only)

    def release(
        self, delay: float, delivery: Delivery, reason: str = "", element: bytes | None = None
    ) -> Question[bool]:
        """Gives a failed job back. `element`: takes the place of the one it has."""
        told = (min(rounded_up(delay), LONGEST_MS), delivery.token, delivery.id)
        return Question(("DEHYDRATOR.RELEASE", self.key, *told, *_new(element), *reason_words(reason)), _is_only)

    def reject(self, delivery: Delivery, reason: str, element: bytes | None = None) -> Question[bool]:
        """Makes a job a dead letter, by the policy of the queue."""
        return _reject(self.key, delivery.token, delivery.id, reason, element)

    def bury(self, delivery: Delivery, reason: str, attempts: int, element: bytes | None = None) -> Flow[bool]:
        """Makes a job a dead letter, also if the queue has no policy yet."""
        return reject(self.key, self.dead, delivery.token, delivery.id, reason, attempts, self.keep, element)

    def limit_attempts(self, attempts: int | None, keep: Keep = None, *how: str) -> Question[bool]:
        """Limits the deliveries; returns whether it has: with NX, only if there was no policy."""
        return Question(limit_words(self.key, self.dead, attempts, keep, *how), lambda reply: reply is not None)

    def dead_letters(self, count: int, start: str = "-") -> Question[list[DeadLetter]]:
        def letter(entry: Any, fields: Any) -> DeadLetter:
            told = pairs(fields)
            element = unwrap(as_bytes(told["element"]))[1]
            group = told.get("group")
            return DeadLetter(
                id_text(entry),
                id_text(told["id"]),
                element,
                int(told.get("deliveries", 0)),
                id_text(told.get("reason", b"")),
                None if group is None else id_text(group),
                *self.read(element),
            )

        def read(reply: Any) -> list[DeadLetter]:
            return [letter(entry, fields) for entry, fields in reply or []]

        words = ("XRANGE", self.dead, text("start", start), "+", "COUNT", whole("count", count))
        return Question(words, read)

    def drop_letters(self, entries: Sequence[str]) -> Flow[int]:
        return (yield Question(("XDEL", self.dead, *entries), int)) if entries else 0

    def revive(self, count: int, entries: Sequence[str] = (), element: bytes | None = None) -> Flow[int]:
        """Brings letters back: those of these entries, or the first `count`."""
        whole("count", count)
        if entries:
            total = 0
            for at in range(0, len(entries), BATCH):
                some = entries[at : at + BATCH]
                total += yield Question(
                    (*self._revive, *_new(element), "IDS", len(some), *some), lambda one: int(one[0])
                )
            return total
        total, start = 0, None
        while total < count:
            further = () if start is None else ("FROM", start)
            words = (*self._revive, *further, "COUNT", min(count - total, BATCH))
            revived, start = yield Question(words, tuple)
            total += revived
            if start is None:
                break
        return total

    @property
    def _revive(self) -> tuple[Any, ...]:
        return "DEHYDRATOR.REVIVE", self.key
