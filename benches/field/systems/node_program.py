"""A client that is a program in Node: it reads one request a line, and replies with one line."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from system import Client, payload


class NodeProgram(Client):
    """The requests: `{"put": [[number, text, delay in ms], ...]}`, `{"cancel": number}`, or `{"work": true}`.

    After the last, the program prints the number of each job that it does, until it is killed.
    """

    def __init__(self, program: Path, folder: Path, address: str) -> None:
        """`folder`: where its libraries are."""
        words = ["node", str(program), address]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
        assert self._process.stdin
        assert self._process.stdout
        self._to, self._from = self._process.stdin, self._process.stdout

    def _ask(self, **request: Any) -> None:
        self._send(**request)
        assert self._from.readline() == "done\n"

    def _send(self, **request: Any) -> None:
        self._to.write(json.dumps(request) + "\n")
        self._to.flush()

    def put(self, number: int, delay: float) -> int:
        self._ask(put=[(number, payload(number), round(delay * 1000))])
        return number

    def put_many(self, numbers: range, delay: float) -> None:
        for start in range(numbers.start, numbers.stop, 1000):
            some = range(start, min(start + 1000, numbers.stop))
            self._ask(put=[(number, payload(number), round(delay * 1000)) for number in some])

    def cancel(self, job: int) -> None:
        self._ask(cancel=job)

    def work(self, done: Callable[[int], None], stopping: threading.Event) -> None:
        self._send(work=True)
        threading.Thread(target=lambda: stopping.wait() and self._process.kill(), daemon=True).start()
        for line in self._from:
            done(int(line))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
