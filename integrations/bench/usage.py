"""How much memory and processor the workers take, looked at twice a second."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import psutil

EVERY = 0.5


class Usage:
    def __init__(self, pids: Callable[[], list[int]]) -> None:
        """`pids` returns the current processes; their children count too."""
        self._pids = pids
        #: Resident memory in bytes: of the greatest process, and of all together.
        self.greatest = self.all = 0
        self.greatest_peak = self.all_peak = 0
        self._seconds: dict[tuple[int, float], float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY):
            self.look()

    def look(self) -> None:
        sizes = [0]
        for pid in self._pids():
            with suppress(psutil.Error):
                leader = psutil.Process(pid)
                for process in [leader, *leader.children(recursive=True)]:
                    with suppress(psutil.Error), process.oneshot():
                        sizes.append(process.memory_info().rss)
                        spent = process.cpu_times()
                        self._seconds[process.pid, process.create_time()] = spent.user + spent.system
        self.greatest, self.all = max(sizes), sum(sizes)
        self.greatest_peak, self.all_peak = max(self.greatest_peak, self.greatest), max(self.all_peak, self.all)

    def processor_seconds(self) -> float:
        return sum(self._seconds.values())

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
