"""The scripts of this package, and the commands of the server's own that they use."""

from __future__ import annotations

from typing import Any

from dehydrator_queue.library import ResponseError
from dehydrator_queue.schedule import LOOK, STORE
from dehydrator_queue.testing.arguments import Options, refused
from dehydrator_queue.testing.directories import Directories
from dehydrator_queue.testing.elements import Elements
from dehydrator_queue.testing.keys import Words
from dehydrator_queue.testing.reading import Reading
from dehydrator_queue.verbs import BURY, RETRY, REVIVE
from dehydrator_queue.wide.script import CHANGE, GUARD, ROUTED, ROUTED_SHA


class Scripts(Elements, Reading):
    directories: Directories

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
        stream, entry = self._stream(dead), self._at(key).get(id)
        if self.do_settle([key, token, id]) == [0]:
            return 0
        self._keys[dead] = stream
        fields = (b"id", id, b"element", element, b"deliveries", deliveries, b"reason", reason)
        stream.add(self._now, *fields, *((b"group", entry.group) if entry and entry.group else ()))
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
                self.do_push(
                    [key, b"0", letter[b"element"], letter[b"id"], b"REPLACE", b"GROUP", letter.get(b"group", b"")]
                )
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
