"""The directory of a queue's keys. Nothing here connects to a server.

`NAME:keys` holds lists of key names. The last list tells where an id belongs, and the earlier ones where it may still
be. No element is moved when the keys change: an id in a former key stays there until it is done.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dehydrator_queue.errors import DehydratorError
from dehydrator_queue.job import id_text
from dehydrator_queue.options import whole
from dehydrator_queue.queue.commands import Flow, Question, scanned
from dehydrator_queue.queue.library import NO_SCRIPT, ResponseError, key_slot, passes
from dehydrator_queue.wide.script import CHANGE, ROUTED, ROUTED_SHA

#: The number of keys, or one for each primary.
Keys = int | Literal["auto"]

#: How often a command is sent with a newer directory, before there is an error.
ATTEMPTS = 100


#: The end of an id that the server gave.
_OCCURRENCE = re.compile(rb"@[0-9]{13,}\Z")


class OutdatedDirectoryError(DehydratorError):
    """The directory is older than what clients used: a failover lost it."""


def home(id: bytes, names: Iterable[str]) -> str:
    """Returns the key of an id: that which gives the highest hash with it. Another key takes only its share of ids.

    The occurrences of schedules are where those are: in the first key, which all lists have.
    """
    if _OCCURRENCE.search(id):
        return next(name for name in names if name.endswith(":0}"))
    # For spreading ids, and as other programs do it: security is no matter.
    return max(names, key=lambda name: hashlib.md5(b"%b %b" % (name.encode(), id), usedforsecurity=False).digest())


@dataclass(frozen=True)
class Known:
    """What a client knows of the directory."""

    text: str
    generation: int
    lists: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, reply: Any) -> Known:
        if not reply:
            return cls("", 0, ())
        text = id_text(reply)
        told = json.loads(text)
        return cls(text, told["generation"], tuple(map(tuple, told["lists"])))

    @property
    def keys(self) -> list[str]:
        """Returns the keys of all lists, those of the last one first."""
        return list(dict.fromkeys(name for names in reversed(self.lists) for name in names))

    def places(self, id: bytes) -> list[str]:
        """Returns the keys in which an id can be: that where it belongs is the last."""
        *former, last = (home(id, names) for names in self.lists)
        return [*dict.fromkeys(key for key in former if key != last), last]

    def after(self, lists: Sequence[Sequence[str]], used: int = 0) -> str:
        """Returns the next text of the directory, as the package for Node writes it.

        `used`: the highest generation in use, if that is known: a failover can have lost it.
        """
        told = {"generation": max(self.generation, used) + 1, "lists": lists}
        return json.dumps(told, separators=(",", ":"), ensure_ascii=False)


class Directory:
    """Finds the keys of a queue, and changes them."""

    def __init__(self, name: str, keys: Keys, *, cluster: bool) -> None:
        if set("{}") & set(name):
            raise ValueError(f"with `keys`, the name of a queue has no braces: {name!r}")
        self.name, self.key = name, f"{name}:keys"
        #: The key that has the schedules, and stays however many keys there are.
        self.first = f"{{{name}:0}}"
        self._wanted, self._cluster = keys_of(keys), cluster
        #: Replaced as a whole, so threads need no lock.
        self._known: Known | None = None

    def open(self) -> Flow[Known]:
        """Returns what is known."""
        return self._known or (yield from self.read())

    def read(self) -> Flow[Known]:
        """Reads the directory. The first client of the queue writes it; the others take what is there.

        One that is older than what was known has been lost, as in a failover. Then its lists and those come together.
        """
        while True:
            known, mine = (yield from self._look()), self._known
            if mine is not None and known.generation < mine.generation:
                lost = [names for names in known.lists if names not in mine.lists]
                yield from self._write(known, [*lost, *mine.lists], mine.generation)
            elif known.lists:
                self._known = known
                return known
            else:
                yield from self._write(known, [(yield from self._names((), self._wanted))])

    def at(self, known: Known, key: str, when: str, id: bytes, words: Sequence[Any]) -> Flow[tuple[str, Any]]:
        """Runs a command on a key, unless this directory is outdated; returns `done`, `stale` or `elsewhere`.

        `words`: the command, without its key.
        """
        told = (2, key, f"{key}:generation", known.generation, when, id, *words)
        try:
            reply = yield Question(("EVALSHA", ROUTED_SHA, *told), tuple)
        except NO_SCRIPT:
            reply = yield Question(("EVAL", ROUTED, *told), tuple)
        return id_text(reply[0]), reply[1] if len(reply) > 1 else None

    def by_id(
        self, id: bytes, words: Sequence[Any], last: str = "always", former: Sequence[Any] | None = None
    ) -> Flow[Any]:
        """Runs a command for one id: in a former key if the id is there, otherwise in the key where it belongs.

        `former`: another command for former keys.
        """
        for _ in range(ATTEMPTS):
            known = yield from self.open()
            places = known.places(id)
            for key in places:
                when, what = (last, words) if key == places[-1] else ("if there", former or words)
                said, reply = yield from self.at(known, key, when, id, what)
                if said == "done":
                    return reply
                if said == "stale":
                    yield from self.read()
                    break
        raise OutdatedDirectoryError(f"{self.key} is older than what clients used: call set_keys again")

    def set_keys(self, keys: Keys) -> Flow[list[str]]:
        """Changes the number of keys, and returns their names: the current ones stay as far as there is room."""
        wanted = keys_of(keys)
        known = yield from self.read()
        names = yield from self._names(known.lists[-1], wanted)
        used = 0
        for key in dict.fromkeys((*known.keys, *names)):
            used = max(used, (yield Question(("GET", f"{key}:generation"), lambda reply: int(reply or 0))))
        is_new = tuple(names) != known.lists[-1]
        if is_new or used > known.generation:
            yield from self._change(known, [*known.lists, names] if is_new else known.lists, "set_keys", used)
        return names

    def forget_keys(self) -> Flow[int]:
        """Drops the former keys if nothing is left there, and returns what is left.

        That are ids in keys where they do not belong any more, and dead letters of keys that belong to the queue no
        more.
        """
        known = yield from self.read()
        left = 0
        for key in known.keys if len(known.lists) > 1 else ():
            # From now on, clients with a former list are refused here.
            said, _ = yield from self.at(known, key, "always", b"", ("DEHYDRATOR.LEN",))
            if said == "stale":
                raise DehydratorError(f"another client changes {self.key}: call forget_keys again")
            cursor: Any = 0
            while cursor is not None:
                cursor, ids = yield Question(("DEHYDRATOR.SCAN", key, cursor, "COUNT", 1000), scanned)
                left += sum(home(id, known.lists[-1]) != key for id in ids)
            if key not in known.lists[-1]:
                left += yield Question(("XLEN", f"{key}:dead"), int)
        if left == 0 and len(known.lists) > 1:
            yield from self._change(known, known.lists[-1:], "forget_keys")
        return left

    def _look(self) -> Flow[Known]:
        return (yield Question(("GET", self.key), Known.of))  # type: ignore[no-any-return]

    def _change(self, known: Known, lists: Sequence[Sequence[str]], caller: str, used: int = 0) -> Flow[None]:
        text = yield from self._write(known, lists, used)
        if (yield from self.read()).text != text:
            raise DehydratorError(f"another client changes {self.key}: call {caller} again")

    def _write(self, known: Known, lists: Sequence[Sequence[str]], used: int = 0) -> Flow[str]:
        """Writes the directory if it is as known; returns the text, with which a reader can tell."""
        text = known.after(lists, used)
        yield Question(("EVAL", CHANGE, 1, self.key, known.text, text), lambda reply: None)
        return text

    def _names(self, before: Sequence[str], keys: Keys) -> Flow[list[str]]:
        """Returns the names of so many keys: those before, and new ones that belong to primaries with too few."""
        slots: list[tuple[int, int, str]] = []
        if self._cluster:
            slots = yield Question(("CLUSTER SLOTS",), _slots)

        def node(name: str) -> str:
            slot = key_slot(name.encode())
            return next((node for first, last, node in slots if first <= slot <= last), "")

        nodes = len({node for _, _, node in slots}) or 1
        count = nodes if keys == "auto" else keys
        names, number, most = list(before[:count]), 0, -(-count // nodes)
        while len(names) < count:
            name, number = f"{{{self.name}:{number}}}", number + 1
            if name not in names and Counter(map(node, names))[node(name)] < most:
                names.append(name)
        return names


def check_narrow(name: str) -> Flow[None]:
    """Raises ValueError if a queue has a directory, and so several keys."""
    try:
        # Needs no other right than the commands of the module.
        yield Question(("DEHYDRATOR.LEN", f"{name}:keys"), lambda reply: None)
    except ResponseError as error:
        if str(error).startswith("WRONGTYPE"):
            raise ValueError(f"{name} has several keys: open the queue with `keys`") from None
        if passes(error):
            raise


def keys_of(keys: Keys) -> Keys:
    return keys if keys == "auto" else whole("keys", keys)


def _slots(reply: Any) -> list[tuple[int, int, str]]:
    """Returns the first and the last slot of each range, and its primary."""
    if isinstance(reply, dict):  # as the library parses it
        return [(first, last, str(told["primary"][:2])) for (first, last), told in reply.items()]
    return [(first, last, str(primary[:2])) for first, last, primary, *_ in reply]
