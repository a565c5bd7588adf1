"""Commands on elements: push, take, lease and change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dehydrator_queue.testing.arguments import Options, count, deliveries, number, refused
from dehydrator_queue.testing.dehydrator import MAX, Bounds, Dehydrator, Entry
from dehydrator_queue.testing.groups import OTHERS
from dehydrator_queue.testing.keys import Keys, Words

PUSH_OPTIONS = (b"NX", b"REPLACE", b"AT", b"DELIVERIES", b"WITHIN", b"GROUP")


#: The longest reason of RELEASE and REJECT, in bytes.
REASON_MAX = 4096

#: The elements that PURGE and TOUCH of a group change at once.
MANY = 1024


def _named(options: Options) -> bytes:
    """Returns the name of the group that is changed."""
    if not (group := options.group()):
        raise refused("ERR", "GROUP needs a name here: elements without a group are no group")
    return group


@dataclass
class Blocks:
    """The reply of a POLL that blocks: nothing is due in `keys`."""

    keys: list[bytes]
    ms: int
    #: The reply if nothing comes due in time.
    nothing: Any


class Elements(Keys):
    # Commands that store and take.

    def do_push(self, words: Words) -> Any:
        key, ttl, element, id, *rest = words
        options = self._push_options(rest)
        ttl_ms, deadline = self._timer(ttl, options)
        it = self._at(key)
        there = it.get(id) is not None
        if (there or it.remembers(id, self._now)) and "REPLACE" not in options:
            return self._refuse(id, options)
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
                self._refuse(id, options)
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

    def _refuse(self, id: bytes, options: Options) -> None:
        if "NX" not in options:
            raise refused("EXISTS", f"id {id!r} is there already")

    def _push_options(self, words: Words) -> Options:
        options = Options(words, NX=0, REPLACE=0, AT=1, DELIVERIES=1, WITHIN=1, GROUP=1)
        if "NX" in options and "REPLACE" in options:
            raise refused("ERR", "NX and REPLACE exclude each other")
        if (most := options.word("DELIVERIES")) is not None:
            deliveries(most)
        options.number("WITHIN", 1)
        options.group()
        return options

    def _bounds(self, deadline: int, options: Options) -> Bounds:
        within = options.number("WITHIN")
        return Bounds(0 if within is None else deadline + within, options.number("DELIVERIES") or 0)

    def _timer(self, ttl: bytes, options: Options) -> tuple[int, int]:
        ms = number(ttl, "ttl")
        return ms, self._deadline(ms, options.number("AT"))

    def do_poll(self, words: Words) -> Any:
        key, *rest = words
        options = self._poll_options(rest)
        given = self._poll(key, options)
        block = options.number("BLOCK")
        return given if given or block is None else Blocks([key], block, [])

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
            if any(entry.token == token and entry.runs(self._now) for entry in it)
        ]
        # Nobody looks whose turn it is in a key with nothing to give out.
        due = [key for key, it in zip(keys, found, strict=True) if it.next_due(self._now) is not None]
        for key in held[:1] or due:
            if given := self._poll(key, options):
                return [key, given]
        block = options.number("BLOCK")
        return None if block is None else Blocks(keys, block, None)

    def _poll_options(self, words: Words) -> Options:
        options = Options(words, COUNT=1, BLOCK=1, LEASE=1, TOKEN=1)
        if "TOKEN" not in options or (lease := options.number("LEASE", 1)) is None:
            raise refused("ERR", "the server in memory knows a POLL with LEASE and TOKEN")
        options.number("COUNT", 1)
        options.number("BLOCK")
        self._deadline(lease)
        return options

    def _poll(self, key: bytes, options: Options) -> list[Any]:
        it, now = self._at(key), self._now
        most = options.number("COUNT") or MAX
        lease, token = options.number("LEASE") or 0, options.word("TOKEN") or b""
        if held := [entry for entry in it if entry.token == token and entry.runs(now)]:
            return [[entry.id, entry.element, entry.deliveries, token] for entry in held[:most]]
        most = min(most, it.room(now))
        given: list[Any] = []
        while len(given) < most and it.pause <= now:
            if (entry := it.next_due(now)) is not None and it.is_dead(entry, now):
                self._move(it, entry)
            elif (entry := it.take_turn(now)) is None:
                break
            else:
                it.lease(entry, lease, now + lease, token)
                given.append([entry.id, entry.element, entry.deliveries, token])
        it.give(now, len(given))
        return given

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

    def _split(self, words: Words, **options: int) -> tuple[Words, Options]:
        """Returns the tokens and ids, and the options behind them, the first of which is in the place of a token."""
        names = [name.encode() for name in options]
        end = next((at for at in range(2, len(words), 2) if words[at].upper() in names), len(words))
        found = Options(words[end:], **options)
        if "ELEMENT" in found and end > 2:
            raise refused("ERR", "syntax error, ELEMENT is for one id")
        if len(found.word("REASON") or b"") > REASON_MAX:
            raise refused("ERR", f"a REASON has at most {REASON_MAX} bytes")
        return words[:end], found

    def do_release(self, words: Words) -> Any:
        key, ttl, *rest = words
        ms = number(ttl, "ttl")
        pairs, options = self._split(rest, UNCOUNTED=0, ELEMENT=1, REASON=1)
        element, reason = options.word("ELEMENT"), options.word("REASON")
        it, deadline = self._at(key), self._deadline(ms)
        held = self._held(it, pairs)
        replies = [0] * len(held)
        firsts = {(pairs[at], pairs[at + 1]): at // 2 for at in reversed(range(0, len(pairs), 2))}
        order = sorted(firsts.values(), reverse="UNCOUNTED" in options)
        for at in order:
            if (entry := held[at]()) is None:
                continue
            replies[at] = 1
            if element is not None:
                entry.element = element
            if reason is not None:
                entry.reason = reason
            if "UNCOUNTED" in options:
                entry.deliveries -= 1
                it.put_first(entry, deadline if ms else min(entry.was_due, self._now))
            else:
                it.restart(entry, 0, deadline)
        return replies

    def do_reject(self, words: Words) -> Any:
        key, *rest = words
        pairs, options = self._split(rest, ELEMENT=1, REASON=1)
        it, replies = self._at(key), []
        held = self._held(it, pairs)
        if key in self._keys and not it.most_deliveries:
            raise refused("NORULE", "no destination for dead letters")
        for find in held:
            if (entry := find()) is not None:
                entry.element = entry.element if (element := options.word("ELEMENT")) is None else element
                entry.reason = entry.reason if (reason := options.word("REASON")) is None else reason
                self._move(it, entry, is_rejected=True)
            replies.append(int(entry is not None))
        return replies

    # Commands by id.

    def do_update(self, words: Words) -> Any:
        key, id, element = words
        entry = self._at(key).get(id)
        if entry is None:
            raise refused("NOSUCHID", f"no such id {id!r}")
        before, entry.element = entry.element, element
        return before

    def do_purge(self, words: Words) -> Any:
        key, *rest = words
        it, group = self._at(key), _named(Options(rest, GROUP=1))
        ids = [entry.id for entry in it if entry.group == group][:MANY]
        return sum(it.remove(id) is not None for id in ids)

    def do_touch(self, words: Words) -> Any:
        key, ttl, *rest = words
        it, ms, at = self._at(key), number(ttl, "ttl"), None
        if rest[0].upper() == b"AT" and len(rest) > 1:
            at, rest = number(rest[1], "AT"), rest[2:]
        deadline, ids = self._deadline(ms, at), rest
        if len(rest) > 1:
            # About the new deadline is near enough, so that a loop ends.
            about = min(max(ms // 8, 1000), 60_000, ms // 2)
            near = deadline if at is not None else 0 if ms == 0 else max(0, deadline - about)
            ids = it.groups.at_rest(_named(Options(rest, GROUP=1)), (near, deadline), self._now)[:MANY]
        some = [entry for id in ids if (entry := it.get(id)) is not None]
        for entry in some:
            own = max(ms, 1) if entry.token is not None and at is not None else ms
            it.touch(entry, own, deadline, self._now)
        return len(some)
