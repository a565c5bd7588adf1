"""BullMQ, in Node."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from system import Client, payload
from systems.redis_server import RedisServer

#: Where `npm ci` has installed it.
NODE = Path(__file__).resolve().parents[3] / "node"


class Jobs(Client):
    """A process with a connection."""

    def __init__(self, port: int) -> None:
        words = ["node", str(Path(__file__).with_suffix(".mjs")), str(port)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=NODE)
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


class BullMq(RedisServer):
    name = "BullMQ"

    def version(self) -> str:
        return f"BullMQ {json.loads((NODE / 'node_modules/bullmq/package.json').read_text())['version']}"

    def client(self) -> Client:
        return Jobs(self.port)
