"""Schedules that a program's settings declare, while programs with different settings run, as in a rolling deploy.

Each program reports now and then, by the digest of its schedules, that its settings are in use. The settings that came
into use last are in force, until no program has reported them for a minute. So an old program that restarts in a deploy
changes nothing, and a rollback takes effect a minute after the last program with the new settings has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from dehydrator_queue.schedule import STORE, Element, State, look
from dehydrator_queue.verbs import BATCH, Flow, Question, as_bytes

#: Seconds between two reports of a program, and after which settings that none has reported are forgotten.
PRESENCE, ABSENCE = 10, 60

#: Records in a hash, for each digest, when it came into use and was reported last; and which one is in force. A program
#: remembers since when its settings have been in use, in case all programs lose the server for too long.
REPORT = """
local own, absence, since = unpack(ARGV)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local first = tonumber(since)
local newest, latest = own, 0
local told = redis.call('HGETALL', KEYS[2])
for i = 1, #told, 2 do
    local began, seen = string.match(told[i + 1], '^(%d+) (%d+)$')
    if began and tonumber(seen) < now - absence then
        redis.call('HDEL', KEYS[2], told[i])
    elseif began and told[i] == own then
        first = tonumber(began)
    elseif began and tonumber(began) > latest then
        newest, latest = told[i], tonumber(began)
    end
end
if first == 0 then first = now end
if first > latest or (first == latest and own > newest) then newest = own end
redis.call('HSET', KEYS[2], own, string.format('%.0f %.0f', first, now), 'in force', newest)
local stored = redis.call('HGET', KEYS[2], 'stored') == own and redis.call('EXISTS', KEYS[1]) == 1
return {newest == own and 1 or 0, stored and 1 or 0, first}
"""

#: Precedes a script, which does nothing if other settings are in force by now.
_IN_FORCE = """
if redis.call('HGET', KEYS[2], 'in force') ~= table.remove(ARGV) then return {0} end
"""

STORE_IN_FORCE = _IN_FORCE + STORE

REMOVE = (
    _IN_FORCE
    + """
if redis.call('DEHYDRATOR.LOOK', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('DEHYDRATOR.REM', KEYS[1], ARGV[1]) end
return {1}
"""
)

FINISH = (
    _IN_FORCE
    + """
redis.call('HSET', KEYS[2], 'stored', ARGV[1])
return {1}
"""
)


@dataclass(frozen=True)
class Declared:
    """A schedule as the settings declare it."""

    plan: bytes
    payload: bytes
    #: Returns the first occurrence from a moment on, for a new schedule, or one with another plan.
    first: Callable[[int], int | None]


@dataclass(frozen=True)
class Change:
    """The words of STORE for a schedule."""

    before: bytes | None
    after: bytes
    deadline: int


def change(key: str, name: bytes, declared: Declared) -> Flow[Change | None]:
    """Returns how the server's schedule has to change; None: not at all."""
    now, before = yield look(key, name)
    old = None if before is None else Element.decode(before)
    if old is not None and (old.plan, old.payload) == (declared.plan, declared.payload):
        return None
    state = State() if old is None else old.state
    if old is None or old.plan != declared.plan:
        state = replace(state, next=declared.first(now), ended=False)
    return Change(before, Element(state, declared.plan, declared.payload).encode(), state.deadline(now))


class Deploy:
    """The schedules that the settings of this program declare."""

    def __init__(self, key: str, declared: Mapping[bytes, Declared], is_declared: Any) -> None:
        """`is_declared`: returns, by its element, whether settings declared a schedule, so that it leaves with them."""
        self._keys = key, f"{key}:settings"
        self._declared = declared
        self._is_declared: Callable[[Element], bool] = is_declared
        told = sha256()
        for name, one in sorted(declared.items()):
            for part in (name, one.plan, one.payload):
                told.update(b"%d:%b" % (len(part), part))
        self._digest = told.hexdigest()
        self._since, self._is_new = 0, True

    @property
    def declares(self) -> bool:
        """Whether the settings declare any schedule."""
        return bool(self._declared)

    def report(self) -> Flow[bool]:
        """Reports that the settings are in use, and stores them if they are in force; returns whether they are."""
        in_force, stored = yield self._ask_report()
        if in_force and (self._is_new or not stored):
            in_force = yield from self._store()
        self._is_new = False
        return bool(in_force)

    def _ask_report(self) -> Question[tuple[bool, bool]]:
        def read(reply: Any) -> tuple[bool, bool]:
            in_force, stored, self._since = reply
            return in_force == 1, stored == 1

        return Question(("EVAL", REPORT, 2, *self._keys, self._digest, ABSENCE * 1000, self._since), read)

    def _store(self) -> Flow[bool]:
        for name, one in self._declared.items():
            while (new := (yield from change(self._keys[0], name, one))) is not None:
                if (yield self._if_in_force(STORE_IN_FORCE, name, "", new.before or b"", new.after, new.deadline)):
                    break
                if not (yield self._ask_report())[0]:
                    return False
        start: Any = "-"
        while start is not None:
            start, rows = yield page(self._keys[0], start)
            for name, element in rows:
                if name not in self._declared and self._is_declared(Element.decode(element)):
                    yield self._if_in_force(REMOVE, name, element)
        return bool((yield self._if_in_force(FINISH, self._digest)))

    def _if_in_force(self, script: str, *words: Any) -> Question[bool]:
        question = ("EVAL", script, 2, *self._keys, *words, self._digest)
        return Question(question, lambda reply: bool(reply[0] == 1))


def page(key: str, start: Any) -> Question[tuple[Any, list[tuple[bytes, bytes]]]]:
    """Lists names and elements from `start` on, and returns the start of the next page, or None."""
    words = ("DEHYDRATOR.RANGE", key, start, "+", "COUNT", BATCH, "WITHELEMENTS")
    return Question(words, lambda reply: (reply[0], [(as_bytes(row[0]), as_bytes(row[-1])) for row in reply[1]]))
