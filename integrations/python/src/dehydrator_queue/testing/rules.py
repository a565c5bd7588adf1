"""Commands that set the rules of a key: its pause, its policy and its limits."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from dehydrator_queue.testing.arguments import Options, count, deliveries, refused
from dehydrator_queue.testing.dehydrator import MAX
from dehydrator_queue.testing.groups import OTHERS
from dehydrator_queue.testing.keys import Keys, Words
from dehydrator_queue.testing.reading import listed


class Rules(Keys):
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
                most = deliveries(policy[2])
            case [b"HOLD", b"DELIVERIES", _, b"STREAM", _, *trim]:
                most, dead = deliveries(policy[2]), policy[4]
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
