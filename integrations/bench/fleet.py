"""Workers as processes, and a supervisor that restarts them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil

from contenders import Program
from contenders.base import JOBS


def start(program: Program, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Starts it as the leader of a group of processes."""
    with log.open("ab") as told:
        return subprocess.Popen(
            program.words,
            env={**os.environ, **environment, **program.environment},
            cwd=JOBS,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            start_new_session=True,
        )


class Fleet:
    def __init__(self, programs: list[Program], environment: dict[str, str], folder: Path) -> None:
        self.programs = programs
        self.environment = environment
        self.folder = folder
        #: How many were killed, and how many ended by themselves.
        self.killed = self.ended = 0
        self.processes = [self._start(n) for n in range(len(programs))]

    def _start(self, n: int) -> subprocess.Popen[bytes]:
        return start(self.programs[n], self.environment, self.folder / f"worker-{n}.log")

    def signal(self, number: int) -> None:
        """Sends a signal to all processes of the workers."""
        for process in self.processes:
            os.killpg(process.pid, number)

    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def kill_one(self, chance: random.Random) -> None:
        """Kills one with all that it started, as when its container or machine dies, and starts it again."""
        n = chance.randrange(len(self.processes))
        self._kill(n)
        self.killed += 1
        self.processes[n] = self._start(n)

    def _kill(self, n: int) -> None:
        process = self.processes[n]
        family = []
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(process.pid).children(recursive=True)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()

    def mend(self) -> None:
        """Restarts processes that exited."""
        for n, process in enumerate(self.processes):
            if process.poll() is not None:
                self._kill(n)
                self.ended += 1
                self.processes[n] = self._start(n)

    def close(self) -> None:
        for n in range(len(self.processes)):
            self._kill(n)
