"""A queue beyond this project: its server, and what a program does with it."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from waiting import wait_until

#: Below those that the system draws for clients: one of them would take the port of a server that starts.
PORTS = range(12_000, 32_000)

#: Bytes of a job, beside its number.
PAYLOAD = 64


def payload(number: int) -> str:
    """Returns a job that carries its number."""
    return f"{number:>{PAYLOAD}}"


@dataclass
class Options:
    """What the servers are started with."""

    redis: str
    module: str
    pgmq: str


class Client:
    """One connection of a program. It is used by one thread."""

    def put(self, number: int, delay: float) -> Any:
        """Puts one job, due after `delay` seconds. Returns, when the server has the job, what `cancel` needs."""
        raise NotImplementedError

    def put_many(self, numbers: range, delay: float) -> None:
        """Puts jobs in the way that the system offers for many."""
        for number in numbers:
            self.put(number, delay)

    def cancel(self, job: Any) -> None:
        raise NotImplementedError

    def work(self, done: Callable[[int], None], stopping: threading.Event) -> None:
        """Takes jobs one at a time, calls `done` with the number of each, and settles it, until `stopping` is set."""
        raise NotImplementedError

    def close(self) -> None:
        pass


class System:
    """A server with an empty queue, in a folder of its own. It writes to disk once a second, or as its default is."""

    #: In tables.
    name: str
    can_cancel = True

    def __init__(self, options: Options, folder: Path) -> None:
        self.options, self.folder, self.port = options, folder, random.choice(PORTS)
        self.prepare()
        self.start()

    def version(self) -> str:
        raise NotImplementedError

    def prepare(self) -> None:
        """Makes what the server needs before its first start."""

    def words(self) -> list[str]:
        """Returns the command that starts the server in the foreground."""
        raise NotImplementedError

    def environment(self) -> dict[str, str] | None:
        return None

    def is_up(self) -> bool:
        raise NotImplementedError

    def client(self) -> Client:
        raise NotImplementedError

    def start(self) -> None:
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                self.words(), stdout=log, stderr=log, cwd=self.folder, env=self.environment(), start_new_session=True
            )
        wait_until(self._is_up, 60, f"{self.name} answers, see {self.folder / 'log'}")

    def _is_up(self) -> bool:
        with suppress(Exception):
            return self.is_up()
        return False

    def processes(self) -> list[psutil.Process]:
        leader = psutil.Process(self.process.pid)
        return [leader, *leader.children(recursive=True)]

    def processor_seconds(self) -> float:
        """Returns what all its processes have used, also those that have ended."""
        seconds = 0.0
        for process in self.processes():
            with suppress(psutil.Error):
                times = process.cpu_times()
                seconds += times.user + times.system + times.children_user + times.children_system
        return seconds

    def memory(self) -> int:
        """Returns the bytes of memory of all its processes; what they share counts once."""
        taken = 0
        for process in self.processes():
            # Some end at once.
            with suppress(psutil.Error):
                taken += process.memory_full_info().pss
        return taken

    def disk(self) -> int:
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def kill(self) -> None:
        """Kills all its processes at once."""
        processes = self.processes()
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        self.process.wait()
        psutil.wait_procs(processes)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
