"""The commands of the server in memory: what they change, and what they reply, at a given time in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dehydrator_queue.testing.arguments import refused, word
from dehydrator_queue.testing.elements import Elements
from dehydrator_queue.testing.keys import Words
from dehydrator_queue.testing.letters import Letters
from dehydrator_queue.testing.reading import Reading
from dehydrator_queue.testing.rules import Rules


class Commands(Elements, Reading, Letters, Rules):
    """All keys, and the commands on them. A refused command raises the library's error, and changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._commands: dict[bytes, Callable[[Words], Any]] = {
            b"DEL": lambda words: sum(self._keys.pop(key, None) is not None for key in words),
            b"XDEL": self.xdel,
            b"XLEN": lambda words: len(self._stream(words[0]).entries),
            b"XRANGE": self.xrange,
        }
        for name in dir(self):
            if name.startswith("do_"):
                self._commands[b"DEHYDRATOR." + name[3:].upper().encode()] = getattr(self, name)

    def call(self, words: Sequence[Any], now: int) -> Any:
        """Runs a command, and returns its reply, or Blocks."""
        self._now = now
        name, *arguments = map(word, words)
        verb = self._commands.get(name.upper())
        if verb is None:
            raise refused("ERR", f"unknown command '{name.decode(errors='replace')}' of the server in memory")
        try:
            return verb(arguments)
        except (IndexError, ValueError):
            raise refused("ERR", f"wrong number of arguments for {name.decode()!r}") from None
        finally:
            self.pass_time(now)
