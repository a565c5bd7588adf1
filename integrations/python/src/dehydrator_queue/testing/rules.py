"""Commands that set the rules of a key: its pause, its policy and its limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dehydrator_queue.testing.arguments import Options, count, deliveries, refused
from dehydrator_queue.testing.dehydrator import MAX
from dehydrator_queue.testing.groups import OTHERS
from dehydrator_queue.testing.keys import Words
from dehydrator_queue.testing.schedules import Schedules


class Rules(Schedules):
    def do_pause(self, words: Words) -> Any:
        key, *rest = words
        options = Options(rest, FOR=1, GROUP=1, SCHEDULE=1)
        self._at(key)
        if (name := options.word("SCHEDULE")) is not None:
            self.steer(key, name, True)
            return b"OK"
        until = MAX if (ms := options.number("FOR", 1)) is None else self._deadline(ms)
        group = self._named(options)
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
        it, options = self._at(key), Options(rest, GROUP=1, SCHEDULE=1)
        if (name := options.word("SCHEDULE")) is not None:
            return int(name in it.schedules and self.steer(key, name, False))
        if (group := self._named(options)) is None:
            was, it.pause = it.pause, 0
        else:
            settings = it.groups.settings(group)
            was = settings.pause
            it.groups.set(group, replace(settings, pause=0))
        return int(was > self._now)

    def do_ondue(self, words: Words) -> Any:
        key, *policy = words
        is_new = policy[0].upper() == b"NX"
        policy = policy[is_new:]
        hold, limit, most, stream, dead, *trim = (one.upper() if at != 4 else one for at, one in enumerate(policy))
        if (hold, limit, stream) != (b"HOLD", b"DELIVERIES", b"STREAM") or trim[:-1] not in ([], [b"MAXLEN", b"~"]):
            raise refused("ERR", "the server in memory knows HOLD DELIVERIES n STREAM key, with MAXLEN ~ n")
        length = count(trim[2], "MAXLEN") if trim else 0
        if dead == key:
            raise refused("ERR", "STREAM must not be the dehydrator's own key")
        most_deliveries = deliveries(most)
        if is_new and self._at(key).most_deliveries:
            return None
        it = self._made(key)
        it.most_deliveries, it.dead, it.dead_length = most_deliveries, dead, length
        return b"OK"

    def do_limit(self, words: Words) -> Any:
        key, *rest = words
        self._at(key)
        common = {"LENGTH": 1, "HELD": 1, "RATE": 1, "PER": 1}
        scope = rest[0].upper() if rest else b""
        if scope == b"EACH":
            return self._limit_groups(key, Options(rest[1:], **common))
        if scope == b"GROUP":
            return self._limit_groups(key, Options(rest, GROUP=1, SHARE=1, **common))
        options = Options(rest, **common, REMEMBER=1)
        if not rest:
            raise refused("ERR", "LIMIT needs a limit")
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
            raise refused("ERR", "LIMIT needs a limit")
        self._made(key).groups.set(group, replace(settings, **changed))
        return b"OK"
