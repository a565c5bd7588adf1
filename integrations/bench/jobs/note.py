"""The work of each job, in any framework: it takes its time, and records outside of the broker that it ran.

BENCH_NOTES is a folder, in which each process has a file of its own, a line for each job: `id due started`. BENCH_WORK
is how many seconds a job takes.
"""

import asyncio
import os
import time

_FOLDER = os.environ.get("BENCH_NOTES", "")
_WORK = float(os.environ.get("BENCH_WORK", "0"))
_files: dict[int, int] = {}


def note(id: str, due: float) -> None:
    started = time.time()
    if _WORK:
        time.sleep(_WORK)
    _write(id, due, started)


async def note_async(id: str, due: float) -> None:
    started = time.time()
    if _WORK:
        await asyncio.sleep(_WORK)
    _write(id, due, started)


def _write(id: str, due: float, started: float) -> None:
    """One write for each job: a process that is killed leaves no half of a line."""
    pid = os.getpid()
    if pid not in _files:
        _files[pid] = os.open(f"{_FOLDER}/{pid}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(_files[pid], f"{id} {due!r} {started!r}\n".encode())
