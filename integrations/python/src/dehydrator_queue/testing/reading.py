"""Commands that read."""

from __future__ import annotations

import re
from typing import Any

from dehydrator_queue.testing.arguments import Options, number, refused
from dehydrator_queue.testing.dehydrator import MAX, Dehydrator
from dehydrator_queue.testing.keys import Keys, Words


def listed(told: dict[str, Any]) -> list[Any]:
    """Returns a map as the server replies it."""
    return [one for name, value in told.items() for one in (name.encode(), value)]


class Reading(Keys):
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
            *(b"group", entry.group or None, b"held-since", entry.since, b"reason", entry.reason or None),
        ]

    def do_range(self, words: Words) -> Any:
        key, start, end, *rest = words
        options = Options(rest, COUNT=1, WITHELEMENTS=0)
        it, most = self._at(key), options.number("COUNT", 1) or MAX
        after = -1 if start == b"-" else number(start.removeprefix(b"("), "start")
        if end != b"+" or not (start == b"-" or start.startswith(b"(")):
            raise refused("ERR", "the server in memory lists elements from - or (deadline to +")
        rows: list[list[Any]] = []
        for entry in it:
            if entry.deadline <= after:
                continue
            # Elements with the same deadline are not separated.
            if len(rows) >= most and entry.deadline != rows[-1][1]:
                return [b"(%d" % rows[-1][1], rows]
            row: list[Any] = [entry.id, entry.deadline, entry.ttl, entry.deliveries, int(entry.runs(self._now))]
            rows.append(row + [entry.element] * ("WITHELEMENTS" in options))
        return [None, rows]

    def do_scan(self, words: Words) -> Any:
        """Returns all ids at once. A pattern of MATCH is a prefix."""
        key, _, *rest = words
        options = Options(rest, COUNT=1, MATCH=1)
        options.number("COUNT", 1)
        prefix = re.sub(rb"\\(.)", rb"\1", (options.word("MATCH") or b"*").removesuffix(b"*"))
        return [b"0", [entry.id for entry in self._at(key) if entry.id.startswith(prefix)]]

    def do_len(self, words: Words) -> Any:
        (key,) = words
        return len(self._at(key))

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
            "policy": listed(self._policy(it)),
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
            "each-length-limit": it.groups.each.length,
            "each-held-limit": it.groups.each.held,
            "each-rate-limit": it.groups.each.rate,
            "each-rate-per": it.groups.each.per,
            "leased": leased,
            "given-back": given_out - leased,
            "groups": len(it.groups),
            "schedules": len(it.schedules),
        }
        return listed(told)

    def _policy(self, it: Dehydrator) -> dict[str, Any]:
        is_limited = it.most_deliveries > 0
        return {
            "action": b"HOLD",
            "deliveries": it.most_deliveries,
            "dead-letters": b"STREAM" if is_limited else None,
            "dest": it.dead,
            "end": None,
            "maxlen": it.dead_length,
            "approximate": int(it.dead_length > 0),
            "confirmed": 1,
        }

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
