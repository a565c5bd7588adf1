"""The interface of a framework with a broker."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

JOBS = Path(__file__).resolve().parents[1] / "jobs"

#: Where the programs of the frameworks are.
PROGRAMS = Path(sys.executable).parent

#: Seconds after which another worker should do the jobs of a dead one, where that can be set.
VISIBILITY = 10


@dataclass(frozen=True)
class Program:
    """A command to start: its words and its environment."""

    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)


class Contender:
    """A framework on a broker.

    All programs are started in the folder `jobs`. Their environment has BENCH_URL (the broker), BENCH_NOTES, BENCH_WORK
    (see jobs/note.py), and BENCH_PLAN for who sends (see jobs/plan.py).
    """

    #: In tables.
    name: str
    #: Where a job is until it is due.
    waits: str
    #: The Python packages whose versions are reported.
    packages: tuple[str, ...] = ()
    needs_module = False
    #: Further options of the server.
    server_options: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ("quiet", "burst", "workers", "server", "failover")

    def workers(self, url: str, apart: bool) -> list[Program]:
        """Two processes that work: in one worker, or `apart`, so that the one can be killed without the other."""
        raise NotImplementedError

    def sender(self, url: str) -> Program:
        """Sends the jobs of the plan, and ends."""
        raise NotImplementedError

    def versions(self) -> str:
        return ", ".join(f"{package} {version(package)}" for package in self.packages)
