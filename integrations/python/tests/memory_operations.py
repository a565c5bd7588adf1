"""Random operations on the server in memory, each also sent to a real server whose clock the test sets too."""

from __future__ import annotations

import random
import re
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from typing import Any

import redis
from servers import StillServer, wait_until

from dehydrator_queue.queue.library import ResponseError
from dehydrator_queue.testing import MemoryServer

KEYS = ("high", "low", "bulk")
#: The groups, the last of which is that of the elements without one.
GROUPS = ("anna", "bert", "carl", "")
#: In seconds since 1970.
BEGIN = 2_000_000_000
TTLS = (0, 0, 0, 1, 5, 10, 100, 1000, 60_000)
#: How often each command is drawn, of a hundred or so.
SHARES = {
    "push": 20,
    "mpush": 6,
    "poll": 20,
    "mpoll": 6,
    "settle": 8,
    "release": 5,
    "renew": 4,
    "reject": 2,
    "revive": 1,
    "touch": 5,
    "update": 2,
    "rem": 2,
    "look": 6,
    "range": 3,
    "len": 4,
    "info": 4,
    "dead": 2,
    "ondue": 0.5,
    "limit": 1.5,
    "pause": 0.3,
    "resume": 0.5,
    "delete": 0.3,
    "nonsense": 0.5,
    "turns": 0.5,
    "occur": 0.3,
    "advance": 8,
}


#: Returns the lengths of keys, and those of their streams of dead letters.
LENGTHS = """
local lengths = {}
for _, key in ipairs(KEYS) do
    lengths[#lengths + 1] = redis.pcall('DEHYDRATOR.LEN', key)
    lengths[#lengths + 1] = redis.pcall('XLEN', key .. ':dead')
end
return lengths
"""

#: Those after which nothing leaves by itself.
READS = ("look", "range", "len", "info", "dead")


class Operations:
    """Draws commands, and compares the replies."""

    def __init__(self, server: StillServer, seed: int) -> None:
        self.memory = MemoryServer(BEGIN)
        self.server = server
        self.client = redis.Redis(port=server.port, protocol=2)
        # Replies as they are.
        self.client.response_callbacks.clear()
        self.lengths = ("EVALSHA", self.client.script_load(LENGTHS), len(KEYS), *KEYS)
        self.draw = random.Random(seed)
        self.now = BEGIN * 1000
        #: The leases that were given out, also those that have ended.
        self.held: list[tuple[str, str, bytes, bytes]] = []
        self.tokens = 0
        #: The key whose elements are in groups.
        self.fair = ""
        #: The number of commands of each kind, and of errors by their codes.
        self.counts: Counter[str] = Counter()

    def run(self, number: int) -> None:
        kinds, shares = list(SHARES), list(SHARES.values())
        for kind in self.draw.choices(kinds, shares, k=number):
            self.counts[kind] += 1
            words = getattr(self, f"_{kind}")()
            if words is not None:
                self._compare(words, moves=kind not in READS)

    def _compare(self, words: tuple[Any, ...], moves: bool = False) -> Any:
        """Compares the replies, and returns one. `moves`: something may leave by itself then, and is waited for."""
        told = self._told(words)
        # In one round trip: a busy machine takes milliseconds for each.
        real, *lengths = self._real(words, *([self.lengths] if moves else []))
        if isinstance(told, Code):
            self.counts[told.text] += 1
        if words[0] == "DEHYDRATOR.SCHEDULES" and isinstance(real, list):
            told, real = self._timeless(told), self._timeless(real)
        if words[0] == "XRANGE":
            self.counts["expired"] += sum(b"expired" in fields for _, fields in told)
        if words[0] == "DEHYDRATOR.INFO" and isinstance(real, list):
            # Those of the others that depend on the server's memory or history are not told.
            told = dict(zip(told[::2], told[1::2], strict=True))
            real = {name: value for name, value in zip(real[::2], real[1::2], strict=True) if name in told}
        assert told == real, f"{words}\nin memory: {told}\nreal: {real}"
        if words[0] in ("DEHYDRATOR.POLL", "DEHYDRATOR.MPOLL") and "LEASE" in words and isinstance(told, list):
            key, rows = (words[1], told) if words[0] == "DEHYDRATOR.POLL" else (told[0].decode(), told[1])
            self.held += [(key, token.decode(), id, element) for id, element, _, token in rows]
            del self.held[:-40]
        if moves:
            self._await_moves(*lengths)
        return told

    @staticmethod
    def _timeless(schedules: Any) -> Any:
        """Returns what SCHEDULES replies without how late the machine was."""
        for one in schedules:
            if one is not None:
                one[one.index(b"late") + 1] = None
        return schedules

    def _told(self, words: tuple[Any, ...]) -> Any:
        try:
            return self.memory.execute_command(*words)
        except ResponseError as error:
            return Code(error)

    def _real(self, *commands: tuple[Any, ...]) -> list[Any]:
        pipeline = self.client.pipeline(transaction=False)
        for words in commands:
            pipeline.execute_command(*words)
        replies = pipeline.execute(raise_on_error=False)
        return [Code(reply) if isinstance(reply, ResponseError) else reply for reply in replies]

    # The words of commands.

    def _key(self) -> str:
        return self.draw.choice(KEYS)

    def _id(self) -> str:
        return f"id{self.draw.randrange(12)}"

    def _element(self) -> str:
        return f"element {self.draw.randrange(1000)}"

    def _ttl(self) -> int:
        return self.draw.choice(TTLS)

    def _maybe(self, chance: float, *words: Any) -> tuple[Any, ...]:
        return words if self.draw.random() < chance else ()

    def _moment(self) -> int:
        return self.now + self.draw.choice((-1000, -1, 0, 1, 7, 50, 1000))

    def _if_there(self) -> tuple[Any, ...]:
        return self.draw.choice(((), ("NX",), ("REPLACE",)))

    def _push(self) -> tuple[Any, ...]:
        options = (*self._if_there(), *self._maybe(0.2, "AT", self._moment()), *self._bounds())
        return ("DEHYDRATOR.PUSH", self._key(), self._ttl(), self._element(), self._id(), *options)

    def _mpush(self) -> tuple[Any, ...]:
        some = [(self._ttl(), self._element(), self._id()) for _ in range(self.draw.randrange(1, 5))]
        options = (*self._if_there(), *self._maybe(0.2, "AT", self._moment()), *self._bounds())
        return ("DEHYDRATOR.MPUSH", self._key(), *(word for one in some for word in one), *options)

    def _bounds(self) -> tuple[Any, ...]:
        within = self._maybe(0.3, "WITHIN", self.draw.choice((1, 5, 50, 1000, 60_000)))
        return (*within, *self._maybe(0.3, "DELIVERIES", self.draw.randrange(1, 6)))

    def _poll_options(self) -> tuple[Any, ...]:
        options = self._maybe(0.7, "COUNT", self.draw.randrange(1, 4))
        self.tokens += 1
        is_resent = self.held and self.draw.random() < 0.1
        token = self.draw.choice(self.held)[1] if is_resent else str(self.tokens)
        return (*options, "LEASE", self.draw.choice((1, 10, 100, 1000, 60_000)), "TOKEN", token)

    def _poll(self) -> tuple[Any, ...]:
        return ("DEHYDRATOR.POLL", self._key(), *self._poll_options())

    def _mpoll(self) -> tuple[Any, ...]:
        keys = self.draw.sample(KEYS, self.draw.randrange(1, 4))
        return ("DEHYDRATOR.MPOLL", len(keys), *keys, *self._poll_options())

    def _pairs(self) -> tuple[Any, ...]:
        """Returns a key, and some tokens and ids, most of which were held there."""
        if not self.held:
            return (self._key(), "17", self._id())
        key = self.draw.choice(self.held)[0]
        here = [(token, id) for of, token, id, _ in self.held if of == key]
        some = self.draw.choices(here[-8:], k=self.draw.randrange(1, 4))
        return (key, *(word for pair in some for word in pair))

    def _settle(self) -> tuple[Any, ...]:
        return ("DEHYDRATOR.SETTLE", *self._pairs())

    def _release(self) -> tuple[Any, ...]:
        key, *pairs = self._pairs()
        # Without a REASON: with one, a small dehydrator pages as a large one does.
        element = self._maybe(0.3, "ELEMENT", self._element()) if len(pairs) == 2 else ()
        return ("DEHYDRATOR.RELEASE", key, self._ttl(), *pairs, *self._maybe(0.4, "UNCOUNTED"), *element)

    def _renew(self) -> tuple[Any, ...]:
        key, *pairs = self._pairs()
        return ("DEHYDRATOR.RENEW", key, self._ttl(), *pairs)

    def _reject(self) -> tuple[Any, ...]:
        element = self._maybe(0.3, "ELEMENT", self._element())
        return ("DEHYDRATOR.REJECT", *self._pairs(), *element, *self._maybe(0.4, "REASON", "it cannot succeed"))

    def _revive(self) -> tuple[Any, ...]:
        key = self._key()
        entries = [entry for entry, _ in self.memory.execute_command("XRANGE", f"{key}:dead", "-", "+", "COUNT", 4)]
        if entries and self.draw.random() < 0.5:
            some = self.draw.sample(entries, self.draw.randrange(1, len(entries) + 1))
            element = self._maybe(0.5, "ELEMENT", self._element()) if len(some) == 1 else ()
            return ("DEHYDRATOR.REVIVE", key, *element, "IDS", len(some), *some)
        further = ("FROM", self.draw.choice(entries)) if entries and self.draw.random() < 0.3 else ()
        return ("DEHYDRATOR.REVIVE", key, *further, *self._maybe(0.7, "COUNT", self.draw.randrange(1, 4)))

    def _occur(self) -> None:
        """Makes schedules of intervals, in a key of their own, and lets them occur."""
        key = f"often:{self.counts['occur']}"
        for _ in range(self.draw.randrange(4, 20)):
            name, ms = self.draw.choice(("a", "b")), self.draw.choice((20, 100))
            options = (
                *self._maybe(0.3, "FROM", self._moment()),
                *self._maybe(0.3, "UNTIL", self.now + 200),
                *self._maybe(0.3, "TIMES", self.draw.randrange(1, 5)),
                *self._maybe(0.3, "OVERLAP", "SKIP"),
                *self._maybe(0.3, "GROUP", "anna"),
            )
            kinds: tuple[tuple[Any, ...], ...] = (
                ("EVERY", key, ms, self._element(), name, "MISSED", "ALL", *options),
                ("SCHEDULES", key, "a", "b"),
                ("UNSCHEDULE", key, name),
                ("PAUSE", key, "SCHEDULE", name),
                ("RESUME", key, "SCHEDULE", name),
                ("POLL", key, "COUNT", 2, "LEASE", 60_000, "TOKEN", str(self.draw.randrange(2**40))),
                ("RANGE", key, "-", "+", "WITHELEMENTS"),
            )
            kind, *words = self.draw.choices(kinds, (6, 3, 1, 1, 1, 3, 2))[0]
            told = self._compare((f"DEHYDRATOR.{kind}", *words))
            for id, _, _, token in told if kind == "POLL" else ():
                self._compare(("DEHYDRATOR.SETTLE", key, token, id))
            if self.draw.random() < 0.5:
                self._advance(self.draw.choice((1, 5, 20)))
                # The server stores elements a moment later.
                look = ("DEHYDRATOR.SCHEDULES", key, "a", "b")
                wait_until(lambda look=look: self._timeless(self._real(look)[0]) == self._timeless(self._told(look)))
        self._compare(("DEL", key))

    def _touch(self) -> tuple[Any, ...]:
        return ("DEHYDRATOR.TOUCH", self._key(), self._ttl(), *self._maybe(0.3, "AT", self._moment()), self._id())

    def _update(self) -> tuple[Any, ...]:
        return ("DEHYDRATOR.UPDATE", self._key(), self._id(), self._element())

    def _rem(self) -> tuple[Any, ...]:
        return ("DEHYDRATOR.REM", self._key(), self._id(), *self._maybe(0.5, self._id()))

    def _look(self) -> tuple[Any, ...]:
        return ("DEHYDRATOR.LOOK", self._key(), self._id(), *self._maybe(0.7, "FULL"))

    def _range(self) -> tuple[Any, ...]:
        more = (*self._maybe(0.5, "COUNT", self.draw.randrange(1, 5)), *self._maybe(0.5, "WITHELEMENTS"))
        return ("DEHYDRATOR.RANGE", self._key(), self.draw.choice(("-", f"({self.now}")), "+", *more)

    def _len(self) -> tuple[Any, ...]:
        return ("DEHYDRATOR.LEN", self._key())

    def _info(self) -> tuple[Any, ...]:
        return ("DEHYDRATOR.INFO", self._key())

    def _dead(self) -> tuple[Any, ...]:
        return ("XRANGE", f"{self._key()}:dead", "-", "+", "COUNT", 5)

    def _ondue(self) -> tuple[Any, ...]:
        key = self._key()
        stream = ("HOLD", "DELIVERIES", self.draw.randrange(1, 4), "STREAM", f"{key}:dead")
        return ("DEHYDRATOR.ONDUE", key, *self._maybe(0.3, "NX"), *stream, *self._maybe(0.3, "MAXLEN", "~", 10_000))

    def _limit(self) -> tuple[Any, ...]:
        some = [
            ("LENGTH", 8),
            ("LENGTH", 4),
            ("LENGTH", 0),
            ("HELD", 2),
            ("HELD", 0),
            ("REMEMBER", 500),
            ("REMEMBER", 0),
        ]
        some += [("RATE", 3, "PER", self.draw.choice((20, 100, 1000))), ("RATE", 0, "PER", 1)]
        return ("DEHYDRATOR.LIMIT", self._key(), *self.draw.choice(some))

    def _pause(self) -> tuple[Any, ...]:
        return ("DEHYDRATOR.PAUSE", self._key(), *self._maybe(0.5, "FOR", self.draw.choice((100, 1000))))

    def _resume(self) -> tuple[Any, ...]:
        return ("DEHYDRATOR.RESUME", self._key())

    def _delete(self) -> tuple[Any, ...]:
        return ("DEL", self.draw.choice((self._key(), f"{self._key()}:dead")))

    def _nonsense(self) -> tuple[Any, ...]:
        key, id = self._key(), self._id()
        return self.draw.choice(
            (
                ("DEHYDRATOR.PUSH", key, "soon", "e", id),
                ("DEHYDRATOR.PUSH", key, 0, "e", id, "NX", "REPLACE"),
                ("DEHYDRATOR.PUSH", key, 2**63 - 1, "e", id),
                ("DEHYDRATOR.PUSH", key, 0, "e", id, "AT"),
                ("DEHYDRATOR.PUSH", key, 0, "e", id, "WITHIN", 0),
                ("DEHYDRATOR.PUSH", key, 0, "e", id, "DELIVERIES", 65_536),
                ("DEHYDRATOR.PUSH", key, 0, "e", id, "GROUP", "g" * 1025),
                ("DEHYDRATOR.LIMIT", key, "GROUP", "anna", "SHARE", 65_536),
                ("DEHYDRATOR.LIMIT", key, "GROUP", "", "HELD", 1),
                ("DEHYDRATOR.LIMIT", key, "GROUP", "", "RATE", 1, "PER", 9),
                ("DEHYDRATOR.LIMIT", key, "EACH", "SHARE", 2),
                ("DEHYDRATOR.LIMIT", key, "EACH", "RATE", 2),
                ("DEHYDRATOR.LIMIT", key, "HELD", 1, "EACH"),
                ("DEHYDRATOR.PAUSE", key, "GROUP", ""),
                ("DEHYDRATOR.PAUSE", key, 9),
                ("DEHYDRATOR.LIMIT", key),
                ("DEHYDRATOR.LIMIT", key, "EACH"),
                ("DEHYDRATOR.LIMIT", key, "GROUP", "anna"),
                ("DEHYDRATOR.RESUME", key, "anna"),
                ("DEHYDRATOR.PURGE", key, "GROUP", ""),
                ("DEHYDRATOR.PURGE", key, "ALL", "anna"),
                ("DEHYDRATOR.TOUCH", key, "soon", "GROUP", "anna"),
                ("DEHYDRATOR.INFO", key, "anna"),
                ("DEHYDRATOR.LEN", key, "GROUP"),
                ("DEHYDRATOR.RELEASE", key, 0, "17", id, "COUNTED"),
                ("DEHYDRATOR.POLL", key, "COUNT", 0),
                ("DEHYDRATOR.POLL", key, "TOKEN", "17"),
                ("DEHYDRATOR.POLL", key, "LEASE", 0),
                ("DEHYDRATOR.MPUSH", key, 0, "e", id, "soon", "e", id),
                ("DEHYDRATOR.SETTLE", key, "17"),
                ("DEHYDRATOR.TOUCH", key, id, 10),
                ("DEHYDRATOR.ONDUE", key, "HOLD", "DELIVERIES", 3),
                ("DEHYDRATOR.ONDUE", key, "HOLD", "DELIVERIES", 3, "STREAM", key),
                ("DEHYDRATOR.LIMIT", key, "RATE", 3),
                ("DEHYDRATOR.PAUSE", key, "FOR", 0),
                ("DEHYDRATOR.RANGE", key, "tonight", "+"),
                ("DEHYDRATOR.POLL", f"{key}:dead", "LEASE", 0),
                ("DEHYDRATOR.LEN",),
            )
        )

    def _turns(self) -> None:
        """Fills a key with groups and gives it out, under limits and pauses of groups.

        It takes less time than the server lets pass until it forgets a pause that is over, also one of an earlier key
        with that name: where a group that waited for it joins the round depends on that.
        """
        self.fair = f"fair:{self.counts['turns']}"
        # The server knows turns where anything is set for a group.
        self._compare(("DEHYDRATOR.LIMIT", self.fair, "GROUP", "dora", "SHARE", 2))
        for _ in range(self.draw.randrange(30)):
            self._compare_turns(self._in_groups())
        end = self.now + 450
        for _ in range(self.draw.randrange(60)):
            self._compare_turns(self._in_turn())
            if self.draw.random() < 0.2:
                self._advance(min(self.draw.choice((1, 2, 9, 50)), end - self.now))
        self._compare(("DEHYDRATOR.RANGE", self.fair, "-", "+", "WITHELEMENTS"))
        for group in GROUPS[:-1]:
            self._compare(("DEHYDRATOR.RESUME", self.fair, "GROUP", group))
        self._compare(("DEL", self.fair))

    def _in_groups(self) -> tuple[Any, ...]:
        """Returns a command that fills the key or sets something for its groups."""
        name, ttl = self.draw.choice(GROUPS), self.draw.choice((0, 0, 0, 0, 5, 50))
        group, element = ("GROUP", name), (ttl, self._element(), self._id())
        pause = self.draw.choice(((), ("FOR", 1), ("FOR", 20), ("FOR", 100)))
        some = (*self._maybe(0.4, "LENGTH", self.draw.randrange(5)), *self._maybe(0.5, "HELD", self.draw.randrange(3)))
        some += self._maybe(0.6, *self._rate())
        kinds: tuple[tuple[Any, ...], ...] = (
            ("PUSH", self.fair, *element, "REPLACE", *group),
            ("PUSH", self.fair, *element, *self._if_there(), *self._maybe(0.5, *group)),
            ("MPUSH", self.fair, *element, 0, "more", self._id(), *self._if_there(), *group),
            ("TOUCH", self.fair, ttl, self._id()),
            ("UPDATE", self.fair, self._id(), "more"),
            ("REM", self.fair, self._id()),
            (
                "LIMIT",
                self.fair,
                *group,
                *self._maybe(0.8, "SHARE", self.draw.randrange(1, 4)),
                *self._maybe(0.5, *some),
            ),
            ("LIMIT", self.fair, "EACH", *some),
            ("PAUSE", self.fair, *pause, *group),
            ("RESUME", self.fair, *group),
            ("TOUCH", self.fair, ttl, *self._maybe(0.3, "AT", self.now + 60), *group),
            ("PURGE", self.fair, *group),
        )
        name, *words = self.draw.choices(kinds, (24, 24, 24, 5, 3, 3, 12, 8, 3, 3, 2, 2))[0]
        return (f"DEHYDRATOR.{name}", *words)

    def _compare_turns(self, words: tuple[Any, ...]) -> None:
        if not self._lets_many_join(words):
            self._compare(words)

    def _lets_many_join(self, words: tuple[Any, ...]) -> bool:
        """Returns whether several groups come into the round at once, in an order that only the server knows."""
        if "EACH" not in words:
            return False
        ahead = deepcopy(self.memory._commands)
        groups = ahead._at(self.fair.encode()).groups
        before = {name for name, _ in groups._round}
        with suppress(ResponseError):
            ahead.call(words, self.now)
        return len({name for name, _ in groups._round} - before) > 1

    def _rate(self) -> tuple[Any, ...]:
        rate = ("RATE", self.draw.randrange(4), "PER", self.draw.choice((2, 5, 20, 100, 1000)))
        return self.draw.choice((rate, rate, rate, ("RATE", 0)))

    def _in_turn(self) -> tuple[Any, ...]:
        """Returns a command that takes from the key with groups, gives back, reads, or sometimes changes it."""
        here = [(token, id) for key, token, id, _ in self.held if key == self.fair]
        held = self.draw.choice(here[-8:] or [("17", self._id())])
        self.tokens += 1
        count, lease = self._maybe(0.8, "COUNT", self.draw.randrange(1, 4)), self.draw.choice((2, 10, 100, 60_000))
        how = ("LEASE", lease, "TOKEN", str(self.tokens))
        poll = self.draw.choice((("DEHYDRATOR.POLL", self.fair), ("DEHYDRATOR.MPOLL", 1, self.fair)))
        group = ("GROUP", self.draw.choice(GROUPS))
        kinds: tuple[tuple[Any, ...], ...] = (
            (*poll, *count, *how),
            ("DEHYDRATOR.SETTLE", self.fair, *held),
            ("DEHYDRATOR.RELEASE", self.fair, self.draw.choice((0, 5, 50)), *held, *self._maybe(0.4, "UNCOUNTED")),
            ("DEHYDRATOR.RENEW", self.fair, lease, *held),
            ("DEHYDRATOR.RANGE", self.fair, "-", "+", "WITHELEMENTS"),
            ("DEHYDRATOR.LEN", self.fair),
            ("DEHYDRATOR.INFO", self.fair, *self._maybe(0.7, *group)),
            ("DEHYDRATOR.LOOK", self.fair, self._id(), "FULL"),
            ("DEHYDRATOR.TOUCH", self.fair, self.draw.choice((0, 5, 500)), *group),
            ("DEHYDRATOR.LIMIT", self.fair, *self.draw.choice((group, ("EACH",))), *self._rate()),
            self._in_groups(),
        )
        return self.draw.choices(kinds, (12, 3, 3, 2, 1, 1, 2, 1, 1, 1.5, 6))[0]

    def _advance(self, ms: int | None = None) -> None:
        ms = self.draw.choice((1, 2, 9, 50, 1000, 60_000)) if ms is None else ms
        self.now += ms
        self.memory.advance(ms / 1000)
        self.server.set_clock(self.now)
        self._await_moves()

    def _await_moves(self, lengths: Any = None) -> None:
        """Waits until the server has moved dead letters, and dropped what is too late: it does a moment later."""
        told = [self._told(words) for key in KEYS for words in (("DEHYDRATOR.LEN", key), ("XLEN", f"{key}:dead"))]
        if lengths != told:
            wait_until(lambda: self._real(self.lengths) == [told])


class Code:
    """The code of an error: texts may change."""

    def __init__(self, error: Exception) -> None:
        # The library leaves ERR out.
        found = re.match("(EXISTS|FULL|NORULE|NOSUCHID|WRONGTYPE) ", str(error))
        self.text = found[1] if found else "ERR"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Code) and self.text == other.text

    def __repr__(self) -> str:
        return f"error {self.text}"
