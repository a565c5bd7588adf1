"""The records of the jobs: which ran, when, and how often."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

#: Seconds. Deadlines travel in milliseconds.
TOLERANCE = 0.001


@dataclass
class Outcome:
    jobs: int
    executions: int
    once: int
    twice: int
    more: int
    never: int
    early: int
    #: Seconds, by how much the first execution of each job was late.
    p50: float
    p99: float
    most: float
    earliest: float


class Notes:
    """Reads the files of a folder incrementally."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, int] = {}
        self._forgotten: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.late: dict[str, float] = {}
        self.executions = 0
        self.early = 0

    def read(self) -> int:
        """Returns how many are new."""
        before = self.executions
        for file in self.folder.iterdir():
            with file.open("rb") as lines:
                lines.seek(self._read.get(file, 0))
                for line in lines:
                    self._note(*line.decode().split())
                self._read[file] = lines.tell()
        return self.executions - before

    def _note(self, id: str, due: str, started: str) -> None:
        if id in self._forgotten:
            return
        late = float(started) - float(due)
        self.executions += 1
        self.counts[id] += 1
        self.early += late < -TOLERANCE
        self.late[id] = min(late, self.late.get(id, late))

    def forget(self) -> None:
        """Starts over, without the jobs that were read so far."""
        self._forgotten.update(self.counts)
        self.counts.clear()
        self.late.clear()
        self.executions = self.early = 0

    def outcome(self, jobs: int) -> Outcome:
        late = sorted(self.late.values()) or [float("nan")]
        often = Counter(self.counts.values())
        return Outcome(
            jobs=jobs,
            executions=self.executions,
            once=often[1],
            twice=often[2],
            more=sum(times for count, times in often.items() if count > 2),
            never=jobs - len(self.counts),
            early=self.early,
            p50=late[len(late) // 2],
            p99=late[min(len(late) - 1, len(late) * 99 // 100)],
            most=late[-1],
            earliest=late[0],
        )
