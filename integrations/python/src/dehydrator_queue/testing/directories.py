"""The directories of queues of several keys in the server in memory, and the scripts that read and change them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any


class Directories:
    """The strings of the server in memory: directories, and the generations beside their keys."""

    def __init__(self, call: Callable[[bytes, Sequence[bytes]], Any]) -> None:
        """`call` runs a command of the server in memory."""
        self._call = call
        self.strings: dict[bytes, bytes] = {}

    def keys(self, directory: bytes) -> set[bytes]:
        """Returns the keys of all lists of a directory."""
        text = self.strings.get(directory)
        lists = json.loads(text)["lists"] if text and directory.endswith(b":keys") else []
        return {name.encode() for names in lists for name in names}

    def change(self, key: bytes, before: bytes, after: bytes) -> bytes | None:
        if self.strings.get(key, b"") != before:
            return None
        self.strings[key] = after
        return b"OK"

    def is_outdated(self, latest: bytes, generation: bytes) -> bool:
        """Returns whether a client with this generation is; or else notes the generation at the key `latest`."""
        if int(self.strings.get(latest, 0)) > int(generation):
            return True
        self.strings[latest] = generation
        return False

    def routed(self, key: bytes, latest: bytes, generation: bytes, *words: bytes) -> list[Any]:
        when, id, command, *rest = words
        if self.is_outdated(latest, generation):
            return [b"stale"]
        is_there = self._call(b"DEHYDRATOR.PTTL", (key, id)) != -2
        if when == b"if there" and not is_there:
            return [b"elsewhere"]
        if when == b"unless there" and is_there:
            return [b"done", None]
        return [b"done", self._call(command, (key, *rest))]
