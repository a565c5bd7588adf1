"""beanstalkd, with its journal."""

from __future__ import annotations

import math
import subprocess
import threading
from collections.abc import Callable

import greenstalk

from system import Client, System, payload


class Jobs(Client):
    def __init__(self, port: int) -> None:
        self._client = greenstalk.Client(("127.0.0.1", port))

    def put(self, number: int, delay: float) -> int:
        # Whole seconds, and never early.
        return self._client.put(payload(number), delay=math.ceil(delay))

    def cancel(self, job: int) -> None:
        self._client.delete(job)

    def work(self, done: Callable[[int], None], stopping: threading.Event) -> None:
        while not stopping.is_set():
            try:
                job = self._client.reserve(timeout=1)
            except greenstalk.TimedOutError:
                continue
            done(int(job.body))
            self._client.delete(job)

    def close(self) -> None:
        self._client.close()


class Beanstalkd(System):
    name = "beanstalkd"

    def version(self) -> str:
        return subprocess.run(["beanstalkd", "-v"], check=True, capture_output=True, text=True).stdout.strip()

    def words(self) -> list[str]:
        # Written to disk once a second.
        return ["beanstalkd", "-l", "127.0.0.1", "-p", str(self.port), "-b", str(self.folder), "-f", "1000"]

    def is_up(self) -> bool:
        with greenstalk.Client(("127.0.0.1", self.port)):
            return True

    def client(self) -> Client:
        return Jobs(self.port)
