"""Workers that are killed at random, and a server that is killed and started again."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from servers import RealServer, wait_until

from dehydrator_queue import Item, Queue

PROGRAM = Path(__file__).with_name("worker_program.py")


class Fleet:
    """Workers as processes."""

    def __init__(self, url: str, kind: str, size: int) -> None:
        self.command = [sys.executable, str(PROGRAM), url, "jobs", kind, "4"]
        self.workers = [self.start() for _ in range(size)]
        self.killed = 0

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command, stdout=subprocess.DEVNULL)

    def kill_one(self) -> None:
        at = random.randrange(len(self.workers))
        self.workers[at].kill()
        self.workers[at].wait()
        self.workers[at] = self.start()
        self.killed += 1

    def stop(self) -> list[int]:
        """Stops all of them, and returns their exit codes."""
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        return [worker.wait(240) for worker in self.workers]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "asyncio"])
def test_workers_and_the_server_are_killed_and_all_is_done(own_server: RealServer, kind: str) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    random.seed(seed)
    jobs = Queue(own_server.url, "jobs", patience=30)
    began = time.time()
    payloads = [{"due": began + n / 50, "seconds": 0.02, "fail": n % 10 == 0} for n in range(400)]
    jobs.put_many(Item({**payload, "fail": int(payload["fail"])}, str(n), n / 50) for n, payload in enumerate(payloads))
    fleet = Fleet(own_server.url, kind, 4)
    try:
        while len(jobs):
            time.sleep(random.uniform(0.2, 0.8))
            if random.random() < 0.1:
                own_server.restart()
            else:
                fleet.kill_one()
        # Those that were killed left nothing behind.
        wait_until(lambda: len(jobs) == 0)
    finally:
        codes = fleet.stop()
    # One that is asked before it has begun to listen ends by the signal.
    assert set(codes) <= {0, -signal.SIGTERM}
    done = [json.loads(line) for line in own_server.client.lrange("done", 0, -1)]
    counts = Counter(id for id, _, _ in done)
    assert set(counts) == {str(n) for n in range(400)}, f"seed {seed}"
    # Only jobs of a killed worker may be done twice: at most four per kill.
    assert sum(counts.values()) - 400 <= 4 * fleet.killed + 16
    assert all(at >= payloads[int(id)]["due"] for id, _, at in done)
    assert jobs.dead_letters() == []
