"""Schedules of the server in memory. It computes intervals alone: a cron is kept, and occurs when the test runs it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from dehydrator_queue.testing.arguments import Options, deliveries, number, refused
from dehydrator_queue.testing.dehydrator import MAX, Bounds, Dehydrator
from dehydrator_queue.testing.keys import Keys, Words
from dehydrator_queue.testing.reading import listed


@dataclass
class Schedule:
    name: bytes
    plan: bytes
    element: bytes
    told: dict[str, Any]
    #: The next occurrence; None: a cron, or it has ended.
    next: int | None
    last: int | None = None
    stored: int = 0
    missed: int = 0
    paused: bool = False
    #: What EVERY was told.
    words: Words = field(default=(), repr=False)

    def follow(self, moment: int | None) -> None:
        until, times = self.told["until"], self.told["times"]
        is_late = moment is not None and until is not None and moment > until
        self.next = None if is_late or (times is not None and self.stored >= times) else moment


class Schedules(Keys):
    def do_every(self, words: Words) -> Any:
        key, plan, element, name, *rest = words
        names = "ZONE FROM UNTIL TIMES MISSED OVERLAP JITTER DELIVERIES WITHIN GROUP"
        options = Options(rest, **dict.fromkeys(names.split(), 1))
        told: dict[str, Any] = {
            "zone": (options.word("ZONE") or b"UTC") if len(plan.split()) == 5 else None,
            "from": options.number("FROM"),
            "until": options.number("UNTIL"),
            "times": options.number("TIMES", 1),
            "if-missed": (options.word("MISSED") or b"ONE").upper(),
            "if-overlap": (options.word("OVERLAP") or b"ALLOW").upper(),
            "jitter": options.number("JITTER") or 0,
            "deliveries-limit": deliveries(options.word("DELIVERIES") or b"1") if "DELIVERIES" in options else 0,
            "within": options.number("WITHIN", 1),
            "group": options.group() or None,
        }
        if len(plan.split()) != 5 and not plan.isdigit():
            raise refused("ERR", f"plan {plan!r} is neither a number of milliseconds nor a cron of five fields")
        it = self._made(key)
        before = it.schedules.get(name)
        if before is not None and before.words == words[1:]:
            return 0
        schedule = Schedule(name, plan, element, told, None, words=words[1:])
        is_same = before is not None and (before.plan, before.told["from"]) == (plan, told["from"])
        if before is not None:
            changed = {"plan": plan, "element": element, "told": told, "words": words[1:], "stored": 0}
            schedule = replace(before, **changed)
        if plan.isdigit():
            schedule.follow(schedule.next if is_same and schedule.next else self._first(plan, told["from"]))
            if schedule.next is None:
                raise refused("ERR", "the schedule never occurs: not from now on, or not before its end")
        else:
            schedule.next = None
        _set(it, schedule)
        return 1

    def _first(self, plan: bytes, start: int | None) -> int:
        ms = number(plan, "plan", 1)
        return self._now + ms if start is None else start + max(0, -(-(self._now - start) // ms)) * ms

    def do_schedules(self, words: Words) -> Any:
        key, *names = words
        some = self._at(key).schedules
        if not names:
            names = sorted(some, key=lambda name: _moment(some[name]))
        return [self._listed(some[name]) if name in some else None for name in names]

    def _listed(self, one: Schedule) -> list[Any]:
        told, following = dict(one.told), None if one.paused else one.next
        zone = told.pop("zone")
        own = {"name": one.name, "plan": one.plan, "zone": zone, "element": one.element, "next": following}
        late = None if one.last is None else 0
        state = {"last": one.last, "late": late, "stored": one.stored, "missed": one.missed, "paused": int(one.paused)}
        return listed({**own, "next-stored-at": following, **state, **told})

    def do_unschedule(self, words: Words) -> int:
        key, *names = words
        some = self._at(key).schedules
        return sum(some.pop(name, None) is not None for name in names)

    def steer(self, key: bytes, name: bytes, paused: bool) -> bool:
        """Pauses or resumes a schedule; returns whether that changed something."""
        if (one := self._at(key).schedules.get(name)) is None:
            raise refused("ERR", f"no such schedule {name.decode(errors='replace')!r}")
        schedule: Schedule = one
        changed, schedule.paused = schedule.paused != paused, paused
        if changed:
            _set(self._at(key), schedule)
        if changed and not paused and one.next is not None:
            past, ms = self._now - one.next, int(one.plan)
            one.follow(one.next if past < 0 else one.next + (past // ms + 1) * ms)
        return changed

    def occur(self, it: Dehydrator, now: int) -> None:
        """Stores the elements of schedules whose moments have come, in their order."""
        while due := min(
            (one for one in it.schedules.values() if _moment(one) <= now and not one.paused), key=_moment, default=None
        ):
            moment, told = _moment(due), due.told
            last = b"%b@%d" % (due.name, due.last or 0)
            id, group = b"%b@%d" % (due.name, moment), told["group"] or b""
            if it.is_full() or it.is_group_full(group):
                return
            if it.get(id) is None and not (told["if-overlap"] == b"SKIP" and it.get(last) is not None):
                within = told["within"]
                bounds = Bounds(0 if within is None else moment + within, told["deliveries-limit"])
                it.push(id, due.element, 0, moment, bounds, group)
                due.last, due.stored = moment, due.stored + 1
            else:
                due.missed += 1
            due.follow(moment + int(due.plan))
            _set(it, due)


def _set(it: Dehydrator, one: Schedule) -> None:
    """Sets a schedule: of those with one moment, the one that was set first occurs first."""
    it.schedules.pop(one.name, None)
    it.schedules[one.name] = one


def _moment(one: Schedule) -> int:
    return MAX if one.next is None else one.next
