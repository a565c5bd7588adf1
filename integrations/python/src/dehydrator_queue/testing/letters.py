"""Commands on dead letters, and those of the server's own that read their streams."""

from __future__ import annotations

from typing import Any

from dehydrator_queue.testing.arguments import Options, count, refused
from dehydrator_queue.testing.dehydrator import Bounds
from dehydrator_queue.testing.keys import Keys, Words

#: How many letters REVIVE looks at, if COUNT does not say, and at most.
FEW, MOST = 100, 1000


class Letters(Keys):
    def xdel(self, words: Words) -> int:
        key, *ids = words
        stream = self._stream(key)
        before = len(stream.entries)
        stream.entries = [entry for entry in stream.entries if entry[0] not in ids]
        return before - len(stream.entries)

    def xrange(self, words: Words) -> Any:
        key, start, end, *rest = words
        if end != b"+" or not (start == b"-" or start.startswith(b"(")):
            raise refused("ERR", "the server in memory lists a stream from - or (id to +")
        most = Options(rest, COUNT=1).number("COUNT")
        return [[id, fields] for id, fields in self._stream(key).after(start[1:])[:most]]

    def do_revive(self, words: Words) -> Any:
        key, *rest = words
        at = next((at for at, word in enumerate(rest) if word.upper() == b"IDS"), len(rest))
        options = Options(rest[:at], FROM=1, COUNT=1, ELEMENT=1)
        it = self._at(key)
        if key not in self._keys:
            return [0, None]
        if it.dead is None:
            raise refused("NORULE", "dead letters go to no stream")
        stream, many = self._stream(it.dead), min(options.number("COUNT", 1) or FEW, MOST)
        some, following = stream.after(options.word("FROM") or b"")[:many], None
        if at < len(rest):
            named = rest[at + 2 :]
            if count(rest[at + 1], "IDS") != len(named):
                raise refused("ERR", "IDS has another number of letters")
            some = [entry for id in named for entry in stream.entries if entry[0] == id]
        elif len(some) == many:
            following = some[-1][0]
        revived, before = 0, None
        for entry in some:
            letter = dict(zip(entry[1][::2], entry[1][1::2], strict=True))
            id, group = letter[b"id"], letter.get(b"group", b"")
            if it.get(id) is None and it.is_full():
                if not revived:
                    raise refused("FULL", "the LENGTH that LIMIT set is reached")
                return [revived, None if at < len(rest) else before]
            if it.get(id) is None and not it.is_group_full(group):
                element = options.word("ELEMENT")
                it.push(id, letter[b"element"] if element is None else element, 0, self._now, Bounds(), group)
                stream.entries.remove(entry)
                revived += 1
            before = entry[0]
        return [revived, following]
