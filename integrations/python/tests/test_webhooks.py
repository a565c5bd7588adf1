"""The example examples/webhooks.py: twenty processes of it, killed at random."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from servers import RealServer, wait_until

from dehydrator_queue import Item, Queue

PROGRAM = Path(__file__).parents[1] / "examples" / "webhooks.py"


RECEIVED: Counter[str] = Counter()


class Receiver(BaseHTTPRequestHandler):
    """Fails at one request of three; /gone is gone, and /never always fails."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status = 410 if self.path == "/gone" else 500 if self.path == "/never" or random.random() < 0.33 else 200
        if status == 200:
            RECEIVED[self.headers["Idempotency-Key"]] += 1
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_it_is_as_short_as_it_is_said_to_be() -> None:
    assert len([line for line in PROGRAM.read_text().splitlines() if line.strip()]) < 25


@pytest.mark.slow
def test_twenty_are_killed_at_random_and_all_is_sent(own_server: RealServer) -> None:
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{receiver.server_port}"
    webhooks = Queue(own_server.url, "webhooks")
    # Later than the processes are there.
    webhooks.put_many(Item({"url": url, "body": "x"}, str(n), 5 + n / 50) for n in range(500))
    webhooks.put({"url": f"{url}/gone", "body": "x"}, id="gone")
    webhooks.put({"url": f"{url}/never", "body": "x"}, id="never")
    environment = {**os.environ, "REDIS_URL": own_server.url, "FIRST_WAIT": "0.05", "LEASE": "2"}

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, str(PROGRAM)], env=environment, stderr=subprocess.DEVNULL)

    workers, killed = [start() for _ in range(20)], 0
    try:
        end = time.monotonic() + 90
        while len(webhooks) and time.monotonic() < end:
            time.sleep(0.5)
            at = random.randrange(20)
            workers[at].kill()
            workers[at].wait()
            workers[at] = start()
            killed += 1
        wait_until(lambda: len(webhooks) == 0)
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            worker.wait(240)
        receiver.shutdown()
    dead = {letter.id: letter for letter in webhooks.dead_letters(1000)}
    assert dead["gone"].reason == "nobody wants it any more"
    assert dead["never"].attempts == 8
    assert killed >= 5
    # Only webhooks that a killed worker had sent and not settled are sent twice: far fewer than a tenth.
    assert sum(RECEIVED.values()) - len(RECEIVED) <= 50
    # Eight failures in a row are rare, and each is a dead letter.
    assert set(RECEIVED) | set(dead) == {*map(str, range(500)), "gone", "never"}
