"""The arguments of a command, and the errors that refuse them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dehydrator_queue.queue.library import ResponseError
from dehydrator_queue.testing.dehydrator import MAX


def refused(code: str, text: str) -> Exception:
    """Returns the error of the client library for a reply of the server. The library leaves ERR out."""
    return ResponseError[0](text if code == "ERR" else f"{code} {text}")


def word(argument: Any) -> bytes:
    return argument if isinstance(argument, bytes) else str(argument).encode("utf-8", "surrogateescape")


def number(text: bytes, name: str, least: int = 0) -> int:
    if not text.isdigit() or (text[0] == 48 and len(text) > 1) or not least <= int(text) <= MAX:
        raise refused("ERR", f"{name} {text!r} is not a whole number of milliseconds from {least} on")
    return int(text)


def count(text: bytes, name: str) -> int:
    return number(text, name, 1)


def deliveries(text: bytes) -> int:
    most = count(text, "DELIVERIES")
    if most > 65_535:
        raise refused("ERR", "DELIVERIES is from 1 to 65535")
    return most


class Options:
    """The options of a command, which come in any order, each at most once."""

    def __init__(self, words: Sequence[bytes], **known: int) -> None:
        """`known`: the names of the options, and the number of words that follow each."""
        self._found: dict[str, Sequence[bytes]] = {}
        at = 0
        while at < len(words):
            name = words[at].decode(errors="replace").upper()
            if name not in known or name in self._found:
                raise refused("ERR", f"unexpected option {name}")
            self._found[name] = words[at + 1 : at + 1 + known[name]]
            if len(self._found[name]) < known[name]:
                raise refused("ERR", f"{name} needs a value")
            at += 1 + known[name]

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def number(self, name: str, least: int = 0) -> int | None:
        return number(self._found[name][0], name, least) if name in self else None

    def rate(self) -> tuple[int, int] | tuple[None, None]:
        """Returns the numbers of RATE and PER. A RATE of 0, without a limit, needs no PER."""
        rate, per = self.number("RATE"), self.number("PER", 1)
        if (per is None and rate) or (per is not None and rate is None):
            raise refused("ERR", "RATE needs PER")
        return (None, None) if rate is None else (rate, per if rate and per else 0)

    def group(self) -> bytes | None:
        """Returns the name of a group, which is empty for the elements without one."""
        name = self.word("GROUP")
        if name is not None and len(name) > 1024:
            raise refused("ERR", "the name of a GROUP has at most 1024 bytes")
        return name

    def word(self, name: str) -> bytes | None:
        return self._found[name][0] if name in self else None
