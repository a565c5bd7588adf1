"""Real servers with the module, for tests."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import redis

ROOT = Path(__file__).resolve().parents[3]
MODULE = os.environ.get("DEHYDRATOR_MODULE", str(ROOT / "target/release/libdehydrator.so"))
SERVER = os.environ.get("DEHYDRATOR_SERVER", "redis-server")


#: Below those that the system draws for clients: one of them would take the port of a server that is away for a moment.
PORTS = range(12_000, 32_000)
# The tests seed the other one.
_draw = random.SystemRandom()


def free_port() -> int:
    while True:
        with socket.socket() as listening:
            port = _draw.choice(PORTS)
            try:
                listening.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until(true: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Waits until `true` returns a true value, and returns it. A busy machine took 20 s to start a worker of Celery."""
    end = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > end:
            raise AssertionError(f"it did not come true within {seconds} s")
        time.sleep(0.01)
    return found


class RealServer:
    """A server in a folder of its own, that can be killed and started again on its port."""

    def __init__(
        self, folder: Path, *options: str, module: bool = True, environment: Any = None, program: str | None = None
    ) -> None:
        """`program`: the server, by default SERVER."""
        self.program = program or SERVER
        self.port = free_port()
        self.environment = {**os.environ, **(environment or {})}
        self.folder = folder
        self.url = f"redis://127.0.0.1:{self.port}"
        self.options = [
            *("--port", str(self.port), "--dir", str(folder), "--save", "", "--appendonly", "yes"),
            # Written data survives the process, so this suffices for a kill, without waiting for the disk.
            *("--appendfsync", "no", "--repl-diskless-sync-delay", "0", *options),
        ]
        if module:
            self.options += ["--loadmodule", MODULE]
        self.client = redis.Redis(port=self.port, protocol=2)
        self.start()

    def start(self) -> None:
        log = (self.folder / "log").open("a")
        self.process = subprocess.Popen([self.program, *self.options], stdout=log, stderr=log, env=self.environment)
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            return False

    def appended(self) -> Iterator[list[bytes]]:
        """Yields the commands of the append-only file: the effects of scripts, one by one."""
        for file in sorted((self.folder / "appendonlydir").glob("*.incr.aof")):
            with file.open("rb") as log:
                while head := log.readline():
                    yield [log.read(int(log.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]

    def pushed(self, key: str) -> Iterator[str]:
        """Yields the id of each element that was pushed to a key, as often as it was."""
        for words in self.appended():
            if words[:2] == [b"DEHYDRATOR.EFFECT", key.encode()] and words[2].startswith(b"P"):
                yield words[4].decode()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def close(self) -> None:
        self.client.close()
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class StillServer(RealServer):
    """A server whose clock stands still, and is set by the test. See tests/preload/machine.c."""

    def __init__(self, folder: Path, now: int) -> None:
        """`now`: in milliseconds since 1970."""
        library, self.machine = folder / "machine.so", folder / "machine"
        source = ROOT / "tests/preload/machine.c"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        self.machine.write_bytes(self._time(now))
        # Its own timers look at the clock at each tick.
        preloaded = {"LD_PRELOAD": str(library), "DEHYDRATOR_MACHINE": str(self.machine)}
        super().__init__(folder, "--appendonly", "no", "--hz", "500", environment=preloaded)

    def set_clock(self, now: int) -> None:
        with self.machine.open("r+b") as machine:
            machine.write(self._time(now))
        wait_until(lambda: self.client.time() == (now // 1000, now % 1000 * 1000))

    @staticmethod
    def _time(now: int) -> bytes:
        return struct.pack("=qqq", 0, 0, now * 1000)
