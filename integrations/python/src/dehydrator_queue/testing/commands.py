"""The commands of the server in memory: what they change, and what they reply, at a given time in milliseconds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dehydrator_queue.library import ResponseError
from dehydrator_queue.schedule import LOOK, STORE
from dehydrator_queue.testing.arguments import Options, count, number, refused, word
from dehydrator_queue.testing.dehydrator import MAX, UNTIL_MAX, Bounds, Dehydrator, Entry
from dehydrator_queue.testing.directories import Directories
from dehydrator_queue.testing.groups import OTHERS
from dehydrator_queue.verbs import BURY, RETRY, REVIVE
from dehydrator_queue.wide.script import CHANGE, GUARD, ROUTED, ROUTED_SHA

Words = Sequence[bytes]

#: The names of the options of PUSH and MPUSH.
PUSH_OPTIONS = (b"NX", b"REPLACE", b"SLACK", b"AT", b"DELIVERIES", b"WITHIN", b"GROUP")


@dataclass
class Stream:
    """A stream of dead letters."""

    entries: list[tuple[bytes, list[bytes]]] = field(default_factory=list)
    _last: tuple[int, int] = (0, 0)

    def add(self, now: int, *fields: bytes) -> None:
        ms, sequence = self._last
        self._last = (now, 0) if now > ms else (ms, sequence + 1)
        self.entries.append((b"%d-%d" % self._last, list(fields)))


@dataclass
class Blocks:
    """The reply of a POLL that blocks: nothing is due in `keys`."""

    keys: list[bytes]
    ms: int


def listed(told: dict[str, Any]) -> list[Any]:
    """Returns a map as the server replies it."""
    return [one for name, value in told.items() for one in (name.encode(), value)]


class Commands:
    """All keys, and the commands on them. A refused command raises the library's error, and changes nothing."""

    def __init__(self) -> None:
        self._keys: dict[bytes, Dehydrator | Stream] = {}
        self.directories = Directories(lambda command, words: self._verbs[command](words))
        self._now = 0
        self._verbs: dict[bytes, Callable[[Words], Any]] = {
            b"DEL": self._del,
            b"EVAL": self._eval,
            b"EVALSHA": self._eval,
            b"GET": lambda words: self.directories.strings.get(words[0]),
            b"XDEL": self._xdel,
            b"XLEN": lambda words: len(self._stream(words[0]).entries),
            b"XRANGE": self._xrange,
        }
        for name in dir(self):
            if name.startswith("do_"):
                self._verbs[b"DEHYDRATOR." + name[3:].upper().encode()] = getattr(self, name)

    def call(self, words: Sequence[Any], now: int) -> Any:
        """Runs a command, and returns its reply, or Blocks."""
        self._now = now
        name, *arguments = map(word, words)
        verb = self._verbs.get(name.upper())
        if verb is None:
            raise refused("ERR", f"unknown command '{name.decode(errors='replace')}' of the server in memory")
        try:
            return verb(arguments)
        except (IndexError, ValueError):
            raise refused("ERR", f"wrong number of arguments for {name.decode()!r}") from None
        finally:
            self.pass_time(now)

    def pass_time(self, now: int) -> None:
        """Removes elements that are too late, moves dead letters that are due, and ends pauses."""
        self._now = now
        for key, it in list(self._keys.items()):
            if isinstance(it, Dehydrator):
                if 0 < it.pause <= now:
                    it.pause = 0
                if not it.pause:
                    for late in it.late(now):
                        self._move(it, late)
                    while (next_due := it.next_due(now)) is not None and it.is_dead(next_due, now):
                        self._move(it, next_due)
                if not len(it) and it.is_usual(now):
                    del self._keys[key]

    def holds(self, keys: Iterable[bytes], tokens: set[bytes]) -> bool:
        """Returns whether an element is held under one of these tokens."""
        some = (self._keys.get(key) for key in keys)
        return any(entry.token in tokens for it in some if isinstance(it, Dehydrator) for entry in it)

    def has_due(self, keys: Iterable[bytes]) -> bool:
        """Returns whether one of the keys has something to give out."""
        return any(self._at(key).next_due(self._now) is not None for key in keys)

    # What commands share.

    def _at(self, key: bytes) -> Dehydrator:
        """Returns the dehydrator of a key; a new one, which is not stored, if there is none."""
        it = self._keys.get(key)
        if isinstance(it, Stream):
            raise refused("WRONGTYPE", "Operation against a key holding the wrong kind of value")
        return Dehydrator() if it is None else it

    def _made(self, key: bytes) -> Dehydrator:
        it = self._at(key)
        self._keys[key] = it
        return it

    def _stream(self, key: bytes) -> Stream:
        it = self._keys.get(key)
        if isinstance(it, Dehydrator):
            raise refused("WRONGTYPE", "Operation against a key holding the wrong kind of value")
        return Stream() if it is None else it

    def _deadline(self, ttl: int, at: int | None = None) -> int:
        if at == MAX or (at is None and self._now + ttl > MAX):
            raise refused("ERR", "the deadline is too late")
        return self._now + ttl if at is None else at

    def _move(self, it: Dehydrator, entry: Entry, is_rejected: bool = False) -> None:
        """Moves a dead letter to its destination."""
        it.remove(entry.id)
        if it.dead is not None:
            stream = self._stream(it.dead)
            self._keys[it.dead] = stream
            told = (b"id", entry.id, b"element", entry.element, b"deliveries", b"%d" % entry.deliveries)
            reason = (b"reason", b"expired") if entry.is_late(self._now) and not is_rejected else ()
            stream.add(self._now, *told, *reason)
            if it.dead_length:
                del stream.entries[: -it.dead_length]

    # Commands that store and take.

    def do_push(self, words: Words) -> Any:
        key, ttl, element, id, *rest = words
        options = self._push_options(rest)
        ttl_ms, deadline = self._timer(ttl, options)
        it = self._at(key)
        there = it.get(id) is not None
        if (there or it.remembers(id, self._now)) and "REPLACE" not in options:
            if "NX" in options:
                return None
            raise refused("EXISTS", f"id {id!r} is there already")
        group = options.group() or OTHERS
        if (not there and it.is_full()) or (not it.has(id, group) and it.is_group_full(group)):
            raise refused("FULL", "the LENGTH that LIMIT set is reached")
        self._made(key).push(id, element, ttl_ms, deadline, self._bounds(deadline, options), group)
        return b"OK"

    def do_mpush(self, words: Words) -> Any:
        key, *rest = words
        # Options come last, but an element may be spelled like one.
        size = 3
        while size < len(rest) and rest[size].upper() not in PUSH_OPTIONS:
            size += 3
        options = self._push_options(rest[size:])
        pushed = [
            (*self._timer(ttl, options), element, id)
            for ttl, element, id in zip(rest[:size:3], rest[1:size:3], rest[2:size:3], strict=True)
        ]
        if not pushed:
            raise refused("ERR", "wrong number of arguments for 'dehydrator.mpush'")
        it = self._at(key)
        replaces, group = "REPLACE" in options, options.group() or OTHERS
        new: set[bytes] = set()
        #: Those that come into the group, from another or anew.
        moved: set[bytes] = set()
        replies = []
        for _, _, _, id in pushed:
            there = it.get(id) is not None or id in new
            inside = it.has(id, group) or id in moved
            if not replaces and (there or it.remembers(id, self._now)):
                if "NX" not in options:
                    raise refused("EXISTS", f"id {id!r} is there already")
                replies.append(0)
            elif (not there and it.is_full(len(new))) or (not inside and it.is_group_full(group, len(moved))):
                replies.append(-1)
            else:
                replies.append(1)
                if not there:
                    new.add(id)
                if not inside:
                    moved.add(id)
        it = self._made(key)
        for (ttl, deadline, element, id), reply in zip(pushed, replies, strict=True):
            if reply == 1:
                it.push(id, element, ttl, deadline, self._bounds(deadline, options), group)
        return replies

    def _push_options(self, words: Words) -> Options:
        options = Options(words, NX=0, REPLACE=0, SLACK=1, AT=1, DELIVERIES=1, WITHIN=1, GROUP=1)
        options.only_one("NX", "REPLACE")
        options.only_one("SLACK", "AT")
        if (most := options.word("DELIVERIES")) is not None:
            self._deliveries(most)
        options.number("WITHIN", 1)
        options.group()
        return options

    def _bounds(self, deadline: int, options: Options) -> Bounds:
        within = options.number("WITHIN")
        until = 0 if within is None else deadline + within
        return Bounds(until if until <= UNTIL_MAX else 0, options.number("DELIVERIES") or 0)

    def _timer(self, ttl: bytes, options: Options) -> tuple[int, int]:
        ms, step = number(ttl, "ttl"), 1
        slack = options.number("SLACK") or 0
        while step * 2 - 1 <= slack:
            step *= 2
        ms = -(-ms // step) * step
        return ms, self._deadline(ms, options.number("AT"))

    def do_poll(self, words: Words) -> Any:
        key, *rest = words
        options = self._poll_options(rest)
        given = self._poll(key, options)
        block = options.number("BLOCK")
        return given if given or block is None else Blocks([key], block)

    def do_mpoll(self, words: Words) -> Any:
        many = count(words[0], "numkeys")
        keys, options = list(words[1 : 1 + many]), self._poll_options(words[1 + many :])
        if len(keys) < many:
            raise refused("ERR", "numkeys is greater than the number of keys")
        found = [self._at(key) for key in keys]
        token = options.word("TOKEN")
        held = [
            key
            for key, it in zip(keys, found, strict=True)
            if token is not None and any(entry.token == token and entry.runs(self._now) for entry in it)
        ]
        # Nobody looks whose turn it is in a key with nothing to give out.
        due = [key for key, it in zip(keys, found, strict=True) if it.next_due(self._now) is not None]
        for key in held[:1] or due:
            if given := self._poll(key, options):
                return [key, given]
        block = options.number("BLOCK")
        return None if block is None else Blocks(keys, block)

    def _poll_options(self, words: Words) -> Options:
        options = Options(words, COUNT=1, BLOCK=1, LEASE=1, TOKEN=1, WITHIDS=0)
        if "TOKEN" in options and "LEASE" not in options:
            raise refused("ERR", "TOKEN needs LEASE")
        options.number("COUNT", 1)
        options.number("BLOCK")
        if (lease := options.number("LEASE", 1)) is not None:
            self._deadline(lease)
        return options

    def _poll(self, key: bytes, options: Options) -> list[Any]:
        it, now = self._at(key), self._now
        most = options.number("COUNT") or MAX
        lease, token = options.number("LEASE"), options.word("TOKEN")
        if token is None:
            # The server draws such numbers.
            token = b"%d" % random.randrange(2**62, 2**63)
        else:
            held = [entry for entry in it if entry.token == token and entry.runs(now)]
            if held:
                return [[entry.id, entry.element, entry.deliveries, token] for entry in held[:most]]
        most = min(most, it.room(now))
        given: list[Any] = []
        while len(given) < most and it.pause <= now:
            if (entry := it.next_due(now)) is not None and it.is_dead(entry, now):
                self._move(it, entry)
            elif (entry := it.take_turn(now)) is None:
                break
            elif lease is not None:
                it.lease(entry, lease, now + lease, token)
                given.append([entry.id, entry.element, entry.deliveries, token])
            else:
                it.finish(entry.id, now)
                given.append([entry.id, entry.element] if "WITHIDS" in options else entry.element)
        it.give(now, len(given))
        return given

    def do_pull(self, words: Words) -> Any:
        key, id = words
        entry = self._at(key).finish(id, self._now)
        return None if entry is None else entry.element

    def do_rem(self, words: Words) -> Any:
        key, _, *_ = words
        it = self._at(key)
        return sum(it.remove(id) is not None for id in words[1:])

    # Commands on leases.

    def _held(self, it: Dehydrator, words: Words) -> list[Callable[[], Entry | None]]:
        if not words or len(words) % 2:
            raise refused("ERR", "each token needs an id")
        pairs = zip(words[::2], words[1::2], strict=True)
        # Looked up one after the other: an id may be there twice.
        return [lambda token=token, id=id: it.held(token, id) for token, id in pairs]  # type: ignore[misc]

    def do_settle(self, words: Words) -> Any:
        key, *pairs = words
        it = self._at(key)
        found = (entry() for entry in self._held(it, pairs))
        return [int(entry is not None and it.finish(entry.id, self._now) is not None) for entry in found]

    def do_renew(self, words: Words) -> Any:
        key, ttl, *pairs = words
        it, ms = self._at(key), number(ttl, "ttl")
        deadline, replies = self._deadline(ms), []
        for find in self._held(it, pairs):
            entry = find()
            if entry is not None and entry.deadline <= self._now and ms and not it.may_hold(entry, self._now):
                entry = None
            if entry is not None:
                it.restart(entry, ms, deadline)
            replies.append(int(entry is not None))
        return replies

    def do_release(self, words: Words) -> Any:
        key, ttl, *pairs = words
        uncounted = len(pairs) % 2 == 1 and pairs[-1].upper() == b"UNCOUNTED"
        it, deadline, replies = self._at(key), self._deadline(number(ttl, "ms")), []
        for find in self._held(it, pairs[:-1] if uncounted else pairs):
            if (entry := find()) is not None:
                it.restart(entry, 0, deadline)
                entry.deliveries -= uncounted
            replies.append(int(entry is not None))
        return replies

    def do_reject(self, words: Words) -> Any:
        key, *pairs = words
        it, replies = self._at(key), []
        held = self._held(it, pairs)
        if key in self._keys and not it.most_deliveries:
            raise refused("NORULE", "there is no rule for dead letters")
        for find in held:
            if (entry := find()) is not None:
                self._move(it, entry, is_rejected=True)
            replies.append(int(entry is not None))
        return replies

    # Commands by id.

    def do_look(self, words: Words) -> Any:
        key, id, *rest = words
        options = Options(rest, FULL=0)
        entry = self._at(key).get(id)
        if entry is None or "FULL" not in options:
            return None if entry is None else entry.element
        return [
            *(b"element", entry.element, b"deadline", entry.deadline, b"ttl", entry.ttl),
            *(b"deliveries", entry.deliveries, b"leased", int(entry.runs(self._now)), b"token", entry.token),
            *(b"deliveries-limit", entry.bounds.deliveries, b"until", entry.bounds.until or None),
            *(b"group", entry.group or None),
        ]

    def do_update(self, words: Words) -> Any:
        key, id, element = words
        entry = self._at(key).get(id)
        if entry is None:
            raise refused("NOSUCHID", f"no such id {id!r}")
        before, entry.element = entry.element, element
        return before

    def do_purge(self, words: Words) -> Any:
        key, kind, name = words
        it = self._at(key)
        return sum(it.remove(id) is not None for id in self._many(it, kind, name))

    def _many(self, it: Dehydrator, kind: bytes, name: bytes) -> list[bytes]:
        """Returns the ids in a group, or those with a prefix."""
        is_prefix = "PREFIX" in (options := Options([kind, name], GROUP=1, PREFIX=1))
        group = options.group()
        if not is_prefix and not group:
            raise refused("ERR", "GROUP needs a name here")
        return [entry.id for entry in it if (entry.id.startswith(name) if is_prefix else entry.group == group)]

    def _touch_many(self, key: bytes, kind: bytes, name: bytes, ttl: bytes) -> int:
        it, ms = self._at(key), number(ttl, "ttl")
        deadline, ids = self._deadline(ms), self._many(it, kind, name)
        if kind.upper() == b"GROUP":
            ids = it.groups.at_rest(name, deadline, self._now)
        touched = 0
        for id in ids:
            entry = it.get(id)
            if entry is not None and entry.deadline != deadline and not entry.runs(self._now):
                it.touch(entry, ms, deadline, self._now)
                touched += 1
        return touched

    def do_touch(self, words: Words) -> Any:
        key, first, second, *rest = words
        if len(rest) == 1 and first.upper() in (b"GROUP", b"PREFIX") and rest[0].upper() not in (b"GT", b"LT"):
            return self._touch_many(key, first, second, rest[0])
        if second.upper() == b"IDS":
            many = count(rest[0], "numids")
            ids, ttl, rest = rest[1 : 1 + many], first, rest[1 + many :]
            if len(ids) < many:
                raise refused("ERR", "numids is greater than the number of ids")
        else:
            ids, ttl = [first], second
        options = Options(rest, GT=0, LT=0, AT=1)
        options.only_one("GT", "LT")
        it, ms, at = self._at(key), number(ttl, "ttl"), options.number("AT")
        deadline, touched = self._deadline(ms, at), 0
        for id in ids:
            entry = it.get(id)
            if entry is None:
                continue
            if ("GT" in options and deadline <= entry.deadline) or ("LT" in options and deadline >= entry.deadline):
                continue
            own = max(ms, 1) if entry.token is not None and at is not None else ms
            it.touch(entry, own, deadline, self._now)
            touched += 1
        return touched

    def do_pttl(self, words: Words) -> Any:
        key, id = words
        entry = self._at(key).get(id)
        return -2 if entry is None else max(0, entry.deadline - self._now)

    # Commands on a key.

    def do_range(self, words: Words) -> Any:
        key, start, end, *rest = words
        options = Options(rest, COUNT=1, GROUP=1, WITHELEMENTS=0, WITHTOKENS=0)
        group = options.group()
        it, most = self._at(key), options.number("COUNT", 1) or MAX
        low, above = self._bound(start, "start", (b"-", 0))
        high, below = self._bound(end, "end", (b"+", MAX))
        rows: list[list[Any]] = []
        last = -1
        for entry in it:
            if entry.deadline < low + above or entry.deadline > high - below or group not in (None, entry.group):
                continue
            # Elements with the same deadline are not separated.
            if len(rows) >= most and entry.deadline != last:
                return [b"(%d" % last, rows]
            row: list[Any] = [entry.id, entry.deadline, entry.ttl, entry.deliveries, int(entry.runs(self._now))]
            row += [entry.element] * ("WITHELEMENTS" in options) + [entry.token] * ("WITHTOKENS" in options)
            rows.append(row)
            last = entry.deadline
        return [None, rows]

    def _bound(self, text: bytes, name: str, outermost: tuple[bytes, int]) -> tuple[int, bool]:
        """Returns a moment, and whether it is excluded."""
        if text == outermost[0]:
            return outermost[1], False
        excluded = text.startswith(b"(")
        return number(text[1:] if excluded else text, name), excluded

    def do_scan(self, words: Words) -> Any:
        """Returns all ids at once."""
        key, _, *rest = words
        Options(rest, COUNT=1).number("COUNT", 1)
        return [b"0", [entry.id for entry in self._at(key)]]

    def do_len(self, words: Words) -> Any:
        key, *rest = words
        it, group = self._at(key), Options(rest, GROUP=1).group()
        return len(it) if group is None else it.groups.length(group)

    def do_ttn(self, words: Words) -> Any:
        (key,) = words
        it = self._at(key)
        opens = it.opens()
        if opens is None or it.pause == MAX:
            return None
        return max(0, max(opens, it.pause, it.room_from(self._now)) - self._now)

    def do_pause(self, words: Words) -> Any:
        key, *rest = words
        it, until = self._at(key), MAX
        if rest and rest[0].upper() not in (b"AT", b"GROUP"):
            until = self._deadline(count(rest.pop(0), "PAUSE"))
            options = Options(rest, GROUP=1)
        else:
            options = Options(rest, AT=1, GROUP=1)
            until = options.number("AT") or until
        group = self._named(options)
        if until <= self._now:
            raise refused("ERR", "the pause ends before it begins")
        it = self._made(key)
        if group is None:
            it.pause = until
        else:
            it.groups.set(group, replace(it.groups.settings(group), pause=until))
        return b"OK"

    def _named(self, options: Options) -> bytes | None:
        if (group := options.group()) == OTHERS:
            raise refused("ERR", "elements without a group have no pause of their own")
        return group

    def do_resume(self, words: Words) -> Any:
        key, *rest = words
        it, group = self._at(key), self._named(Options(rest, GROUP=1))
        if group is None:
            was, it.pause = it.pause, 0
        else:
            settings = it.groups.settings(group)
            was = settings.pause
            it.groups.set(group, replace(settings, pause=0))
        return int(was > self._now)

    def do_ondue(self, words: Words) -> Any:
        key, *policy = words
        names = [one.upper() for one in policy]
        self._at(key)
        most, dead, length = 0, None, 0
        match names:
            case [b"HOLD"]:
                pass
            case [b"HOLD", b"DELIVERIES", _, b"DROP"]:
                most = self._deliveries(policy[2])
            case [b"HOLD", b"DELIVERIES", _, b"STREAM", _, *trim]:
                most, dead = self._deliveries(policy[2]), policy[4]
                match trim:
                    case []:
                        pass
                    case [b"MAXLEN", _]:
                        length = count(policy[6], "MAXLEN")
                        names.insert(6, b"=")
                    case [b"MAXLEN", b"=", _]:
                        length = count(policy[7], "MAXLEN")
                    case _:
                        raise refused("ERR", "unexpected option of STREAM")
                if dead == key:
                    raise refused("ERR", "STREAM must not be the dehydrator's own key")
            case _:
                raise refused("ERR", "the server in memory knows HOLD, and HOLD DELIVERIES n with DROP or STREAM")
        if dead is not None:
            names[4] = dead
        it = self._made(key)
        it.most_deliveries, it.dead, it.dead_length, it.policy = most, dead, length, b" ".join(names)
        return b"OK"

    def _deliveries(self, text: bytes) -> int:
        most = count(text, "DELIVERIES")
        if most > 65_535:
            raise refused("ERR", "DELIVERIES is from 1 to 65535")
        return most

    def do_limit(self, words: Words) -> Any:
        key, *rest = words
        it = self._at(key)
        if not rest:
            return listed(asdict(it.limits))
        common = {"LENGTH": 1, "HELD": 1, "RATE": 1, "PER": 1}
        if rest[0].upper() == b"EACH":
            return self._limit_groups(key, Options(rest[1:], **common))
        if rest[0].upper() == b"GROUP":
            return self._limit_groups(key, Options(rest, GROUP=1, SHARE=1, **common))
        options = Options(rest, **common, REMEMBER=1)
        told, (rate, per) = {name: options.number(name) for name in ("LENGTH", "HELD", "REMEMBER")}, options.rate()
        it = self._made(key)
        limits = it.limits
        limits.length = limits.length if told["LENGTH"] is None else told["LENGTH"]
        limits.held = limits.held if told["HELD"] is None else told["HELD"]
        if rate is not None and per is not None:
            it.set_rate(rate, per)
        if told["REMEMBER"] is not None:
            limits.remember = told["REMEMBER"]
            if not limits.remember:
                it.remembered.clear()
        return b"OK"

    def _limit_groups(self, key: bytes, options: Options) -> Any:
        """Limits a group, or without GROUP each that has no limits of its own."""
        group, it = options.group(), self._at(key)
        settings = it.groups.each if group is None else it.groups.settings(group)
        told = {name.lower(): options.number(name) for name in ("LENGTH", "HELD")}
        told["rate"], told["per"] = options.rate()
        if group == OTHERS and set(told.values()) != {None}:
            raise refused("ERR", "elements without a group can have a SHARE, but no limit")
        told["share"] = options.number("SHARE", 1)
        if (told["share"] or 0) > 65_535:
            raise refused("ERR", "SHARE is from 1 to 65535")
        changed = {name: value for name, value in told.items() if value is not None}
        if not changed:
            hidden = ("pause",) if group is not None else ("pause", "share")
            return listed({name: value for name, value in asdict(settings).items() if name not in hidden})
        self._made(key).groups.set(group, replace(settings, **changed))
        return b"OK"

    def do_info(self, words: Words) -> Any:
        """The fields that do not depend on the server's memory or history."""
        key, *rest = words
        it, now = self._at(key), self._now
        if (group := Options(rest, GROUP=1).group()) is not None:
            return self._info_of_group(it, group)
        limits, paused = it.limits, it.pause > now
        given_out = sum(entry.deliveries > 0 for entry in it)
        leased = sum(entry.token is not None for entry in it)
        told = {
            "length": len(it),
            "due": sum(entry.deadline <= now for entry in it),
            "given-out": given_out,
            "next-deadline": it.opens(),
            "policy": it.policy,
            "paused": int(paused),
            "paused-until": it.pause if paused and it.pause < MAX else None,
            "length-limit": limits.length,
            "held-limit": limits.held,
            "running": len(it.running(now)) if limits.held else None,
            "rate-limit": limits.rate,
            "rate-per": limits.per,
            "rate-room": it.rate_room(now) if limits.rate else None,
            "remember": limits.remember,
            "remembered": sum(until > now for until in it.remembered.values()),
            "leased": leased,
            "given-back": given_out - leased,
            "groups": len(it.groups),
        }
        return listed(told)

    def _info_of_group(self, it: Dehydrator, group: bytes) -> Any:
        first, limits = it.groups.first(group), it.groups.limits(group)
        paused = limits.pause > self._now
        told = {
            "length": it.groups.length(group),
            "next-deadline": None if first is None else first[0],
            "paused": int(paused),
            "paused-until": limits.pause if paused and limits.pause < MAX else None,
            "share": limits.share,
            "length-limit": limits.length,
            "held-limit": limits.held,
            "rate-limit": limits.rate,
            "rate-per": limits.per,
        }
        return listed(told)

    # Commands of the server's own.

    def _del(self, words: Words) -> Any:
        return sum(self._keys.pop(key, None) is not None for key in words)

    def _xdel(self, words: Words) -> int:
        key, *ids = words
        stream = self._stream(key)
        before = len(stream.entries)
        stream.entries = [entry for entry in stream.entries if entry[0] not in ids]
        return before - len(stream.entries)

    def _xrange(self, words: Words) -> Any:
        key, start, end, *rest = words
        if (start, end) != (b"-", b"+"):
            raise refused("ERR", "the server in memory lists a stream from - to +")
        most = Options(rest, COUNT=1).number("COUNT")
        return [[id, fields] for id, fields in self._stream(key).entries[:most]]

    def _eval(self, words: Words) -> Any:
        script, keys, *rest = words
        if script.startswith(GUARD.encode()):
            *rest, generation = rest
            latest = rest.pop(int(keys) - 1)
            script = script[len(GUARD) :]
            if self.directories.is_outdated(latest, generation):
                return [-2]
        if script in (ROUTED.encode(), ROUTED_SHA.encode()):
            return self.directories.routed(*rest)
        if script == CHANGE.encode():
            return self.directories.change(*rest)
        if script == BURY.encode():
            return self._bury(*rest)
        if script == RETRY.encode():
            return self._retry(*rest)
        if script == REVIVE.encode():
            return self._revive(*rest)
        if script == LOOK.encode():
            return [[b"%d" % (self._now // 1000), b"%d" % (self._now % 1000 * 1000)], self.do_look(rest)]
        if script == STORE.encode():
            return self._store(*rest)
        raise refused("ERR", "the server in memory runs the scripts of this package alone")

    def _bury(self, key: bytes, dead: bytes, token: bytes, id: bytes, *told: bytes) -> int:
        element, deliveries, reason, *keep = told
        stream = self._stream(dead)
        if self.do_settle([key, token, id]) == [0]:
            return 0
        self._keys[dead] = stream
        fields = (b"id", id, b"element", element, b"deliveries", deliveries, b"reason", reason)
        stream.add(self._now, *fields)
        match keep:
            case [b"MAXLEN", most]:
                del stream.entries[: -int(most)]
            case [b"MINID", ms]:
                # The script counts in whole seconds.
                least = max(0, self._now // 1000 * 1000 - int(ms))
                stream.entries = [entry for entry in stream.entries if int(entry[0].split(b"-")[0]) >= least]
        return 1

    def _retry(self, key: bytes, ms: bytes, token: bytes, id: bytes, element: bytes) -> Any:
        released = self.do_release([key, ms, token, id])
        if released == [1]:
            self.do_update([key, id, element])
        return released

    def _revive(self, key: bytes, dead: bytes, most: bytes) -> int:
        stream, revived = self._stream(dead), 0
        for entry in stream.entries[: int(most)]:
            letter = dict(zip(entry[1][::2], entry[1][1::2], strict=True))
            if self._at(key).get(letter[b"id"]) is None:
                self.do_push([key, b"0", letter[b"element"], letter[b"id"], b"REPLACE"])
                stream.entries.remove(entry)
                revived += 1
        return revived

    def _store(self, key: bytes, queue: bytes, name: bytes, token: bytes, *told: bytes) -> Any:
        before, after, deadline, *jobs = told
        pushed: list[bytes] = []
        fits, at = 0, 0

        def release(ms: bytes) -> bool:
            return not token or self.do_release([key, ms, token, name, b"UNCOUNTED"]) == [1]

        if (self.do_look([key, name]) or b"") != before:
            release(b"0")
            return [0]
        try:
            while at < len(jobs):
                words = jobs[at + 1 : at + 1 + int(jobs[at])]
                pushed += [words[2]] * (self.do_push([queue, *words]) is not None)
                fits, at = fits + 1, at + 1 + len(words)
            if release(b"1000"):
                self.do_push([key, b"0", after, name, b"REPLACE", b"AT", deadline])
                return [1]
        except ResponseError as error:
            if pushed:
                self.do_rem([queue, *pushed])
            if not token:
                raise
            if not fits:
                release(b"1000")
            return [-1, fits, str(error).encode()]
        if pushed:
            self.do_rem([queue, *pushed])
        return [0]
