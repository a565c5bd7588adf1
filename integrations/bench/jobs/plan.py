"""The jobs to send: BENCH_PLAN is a file with a line for each job, `id due`."""

import os
import time
from collections.abc import Iterator


def planned() -> Iterator[tuple[str, float, float]]:
    """Yields the id, when it is due, and how many seconds that is from now."""
    with open(os.environ["BENCH_PLAN"]) as lines:
        for line in lines:
            id, due = line.split()
            yield id, float(due), max(0.0, float(due) - time.time())
