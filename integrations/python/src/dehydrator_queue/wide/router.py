"""Routes the commands of a queue to its keys. Nothing here connects to a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dehydrator_queue.job import Waiting, id_bytes, id_text
from dehydrator_queue.queue.commands import BATCH, Commands, Flow, Question, pairs
from dehydrator_queue.wide.directory import ATTEMPTS, Directory, Known, OutdatedDirectoryError

#: Where the id stands in the commands of one id.
ID_AT = {
    "DEHYDRATOR.PUSH": 4,
    "DEHYDRATOR.LOOK": 2,
    "DEHYDRATOR.PULL": 2,
    "DEHYDRATOR.UPDATE": 2,
    "DEHYDRATOR.TOUCH": -1,
}


def _info(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Merges the fields of INFO. Those that are of one key only, such as limits, are of the first."""

    def merged(name: str, values: list[Any]) -> Any:
        known = [value for value in values if value is not None]
        if name in _SUMMED:
            return sum(known) if known else None
        if name in _MERGED:
            return _MERGED[name](known, default=None)
        return values[0]

    return {name: merged(name, [row.get(name) for row in rows]) for name in rows[0]}


_SUMMED = {
    *("length", "due", "given-out", "ttls", "memory", "failures", "remembered", "running", "rate-room"),
    *("leased", "given-back", "overdue"),
}
_MERGED: dict[str, Callable[..., Any]] = {
    "next-deadline": min,
    "oldest-due-ms": max,
    "paused": max,
    "paused-until": max,
    "groups": max,
}

#: How the results of all keys become one.
MERGES: dict[str, Callable[[list[Any]], Any]] = {
    "DEHYDRATOR.LEN": sum,
    "DEHYDRATOR.PURGE": sum,
    "DEHYDRATOR.TOUCH": sum,
    "DEHYDRATOR.PAUSE": lambda results: None,
    "DEHYDRATOR.RESUME": any,
    "DEHYDRATOR.INFO": _info,
    "UNLINK": sum,
}


@dataclass(frozen=True)
class Pages:
    """Where the next page of all keys begins."""

    #: By key: the start of its next page, or None; and what was read but not shown.
    at: dict[str, tuple[Any, list[Waiting]]] = field(default_factory=dict)


class Router:
    """Turns a question about the queue into questions about its keys."""

    def __init__(self, directory: Directory, verbs: Commands) -> None:
        """`verbs`: those of the queue, whose key is its name."""
        self.directory = directory
        self._commands = verbs

    def route(self, question: Question[Any]) -> Flow[Any]:
        """Answers a question of the queue's verbs."""
        command, *_ = words = question.words
        if command == "XRANGE":
            return question.read([entry for _, entry in (yield from self._letters(words[-1], words[2]))])
        if command == "XDEL":
            return (yield from self._drop(words[2:]))
        if self._commands.key not in words[1:2]:
            # About one of its keys, or what is beside it.
            return (yield question)
        if command == "DEHYDRATOR.REVIVE":
            return question.read((yield from self._revive(words[2:])))
        if command == "DEHYDRATOR.RANGE":
            return (yield from self._page(words[2]))
        if command == "DEHYDRATOR.MPUSH":
            return question.read((yield from self._put_many(words)))
        if command == "DEHYDRATOR.REM":
            return (yield from self._cancel(words[2:]))
        if command == "DEHYDRATOR.SCAN":
            return (yield from self._scan(question))
        # TOUCH of a group has one word more than that of an id, with AT two.
        if command in ID_AT and not (command == "DEHYDRATOR.TOUCH" and len(words) == 5):
            id = id_bytes(words[ID_AT[command]])
            return question.read((yield from self.directory.by_id(id, (command, *words[2:]))))
        results = []
        for key in (yield from self.directory.read()).keys:
            results.append((yield replace(question, words=(command, key, *words[2:]))))
        return MERGES[command](results)

    def _in_parts(
        self, ids: Sequence[bytes], words: Callable[[list[int]], Sequence[Any]], read: Callable[[list[int], Any], None]
    ) -> Flow[None]:
        """Runs a command for several ids: one for a thousand of a key, or one for each id that can be in several keys.

        `words`: the command for the ids with these numbers, without its key.
        """
        left = dict.fromkeys(range(len(ids)))
        for _ in range(ATTEMPTS):
            known: Known = yield from self.directory.open()
            parts: dict[str, list[int]] = {}
            for number in list(left):
                places = known.places(ids[number])
                if len(places) == 1:
                    parts.setdefault(places[0], []).append(number)
                else:
                    read([number], (yield from self.directory.by_id(ids[number], words([number]))))
                    del left[number]
            # Lua's stack holds 8,000 words.
            batches = [(key, all[n : n + BATCH]) for key, all in parts.items() for n in range(0, len(all), BATCH)]
            for key, numbers in batches:
                said, reply = yield from self.directory.at(known, key, "always", b"", words(numbers))
                if said == "stale":
                    yield from self.directory.read()
                    break
                read(numbers, reply)
                for number in numbers:
                    del left[number]
            if not left:
                return
        raise OutdatedDirectoryError(f"{self.directory.key} is older than what clients used: call set_keys again")

    def _put_many(self, words: Sequence[Any]) -> Flow[list[int]]:
        end = next((n for n in range(2, len(words), 3) if not isinstance(words[n], int)), len(words))
        items, options = [words[n : n + 3] for n in range(2, end, 3)], words[end:]
        replies = [0] * len(items)

        def read(numbers: list[int], reply: Any) -> None:
            for number, one in zip(numbers, reply, strict=True):
                replies[number] = one

        def some(numbers: list[int]) -> Sequence[Any]:
            return ("DEHYDRATOR.MPUSH", *(word for number in numbers for word in items[number]), *options)

        yield from self._in_parts([id_bytes(item[2]) for item in items], some, read)
        return replies

    def _scan(self, question: Question[Any]) -> Flow[tuple[Any, list[bytes]]]:
        """Scans one key after the other. The cursor names the key too."""
        command, _, cursor, *rest = question.words
        keys = list((yield from self.directory.read()).keys)
        key, cursor = cursor if isinstance(cursor, tuple) else (keys[0], cursor)
        after, ids = yield replace(question, words=(command, key, cursor, *rest))
        if after is not None:
            return (key, after), ids
        # A key that belongs to the queue no more may have been the last: the scan begins again.
        left = keys[keys.index(key) + 1 :] if key in keys else keys
        return ((left[0], 0) if left else None), ids

    def _cancel(self, ids: Sequence[Any]) -> Flow[int]:
        counts: list[int] = []
        ids = [id_bytes(id) for id in ids]
        yield from self._in_parts(
            ids,
            lambda numbers: ("DEHYDRATOR.REM", *(ids[number] for number in numbers)),
            lambda _, reply: counts.append(reply),
        )
        return sum(counts)

    def _page(self, start: Any) -> Flow[tuple[Any, list[Waiting]]]:
        """Merges the pages of all keys by deadline."""
        if not isinstance(start, Pages):
            start = Pages({key: (start, []) for key in (yield from self.directory.read()).keys})
        buffers = {}
        for key, (begin, rows) in start.at.items():
            while begin is not None and not rows:
                begin, rows = yield self._commands.at(key).page(begin)
            buffers[key] = begin, rows
        # What a key has not shown yet is due no earlier than the last that it has shown.
        end = min((rows[-1].due for begin, rows in buffers.values() if begin is not None), default=float("inf"))
        shown = sorted((row for _, rows in buffers.values() for row in rows if row.due <= end), key=lambda row: row.due)
        left = {key: (begin, [row for row in rows if row.due > end]) for key, (begin, rows) in buffers.items()}
        more = any(begin is not None or rows for begin, rows in left.values())
        return Pages(left) if more else None, shown

    def _letters(self, count: int, start: str, end: str = "+") -> Flow[list[tuple[str, Any]]]:
        """Returns the first entries of the streams of dead letters, with the key of each."""
        found: list[tuple[str, Any]] = []
        for key in (yield from self.directory.read()).keys:
            words = ("XRANGE", f"{key}:dead", start, end, "COUNT", count)
            found += [(key, entry) for entry in (yield Question(words, lambda reply: reply or []))]
        return sorted(found, key=lambda one: tuple(map(int, id_text(one[1][0]).split("-"))))[:count]

    def _drop(self, entries: Sequence[str]) -> Flow[int]:
        dropped = 0
        for key in (yield from self.directory.read()).keys:
            dropped += yield Question(("XDEL", f"{key}:dead", *entries), int)
        return dropped

    def _revive(self, words: Sequence[Any]) -> Flow[tuple[int, str | None]]:
        """Puts letters back where their ids belong now; returns how many, and where to go on."""
        letters: list[tuple[str, Any]] = []
        following = None
        if "IDS" in words:
            for entry in words[words.index("IDS") + 2 :]:
                letters += yield from self._letters(1, entry, entry)
        else:
            start = f"({words[words.index('FROM') + 1]}" if "FROM" in words else "-"
            letters = yield from self._letters(words[-1], start)
            following = id_text(letters[-1][1][0]) if len(letters) == words[-1] else None
        new = words[words.index("ELEMENT") + 1] if "ELEMENT" in words else None
        revived = 0
        for key, (entry, fields) in letters:
            letter = pairs(fields)
            id, group = id_bytes(letter["id"]), ("GROUP", letter.get("group", b""))
            put = ("DEHYDRATOR.PUSH", 0, letter["element"] if new is None else new, id, "NX", *group)
            if (yield from self.directory.by_id(id, put)) is not None:
                revived += 1
                yield Question(("XDEL", f"{key}:dead", entry), lambda reply: None)
        return revived, following
