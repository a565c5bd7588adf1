"""A server for tests: empty, on a free port, and ended with whoever started it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dehydrator_queue_server.programs import MODULE, VALKEY

#: Seconds that a server may take until it answers.
PATIENCE = 30
#: How often another port is tried, if somebody took the one that was free.
TRIES = 5


@dataclass
class Server:
    """A server that runs."""

    port: int
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"redis://{self.host}:{self.port}/0"

    def flush(self) -> None:
        """Removes all keys."""
        with socket.create_connection((self.host, self.port), timeout=PATIENCE) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            reply = connection.makefile("rb").readline()
        if reply != b"+OK\r\n":
            raise RuntimeError(f"FLUSHALL: {reply!r}")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextlib.contextmanager
def server(*options: str) -> Iterator[Server]:
    """Starts a server, and ends it at the end, or when this process ends, in whatever way.

    It listens on this machine alone, keeps nothing on the disk, and takes options: server("--appendonly", "yes").
    """
    with tempfile.TemporaryDirectory(prefix="dehydrator-", ignore_cleanup_errors=True) as folder:
        for _ in range(TRIES):
            one = Server(free_port())
            with running(one, Path(folder), options) as (process, log):
                if is_up(process, log):
                    yield one
                    return
            if "in use" not in (said := log.read_text()):
                break
        raise RuntimeError(f"The server does not start: {said}")


@contextlib.contextmanager
def running(one: Server, folder: Path, options: tuple[str, ...]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Starts its process, yields that and its log, and kills it."""
    words = ["--port", str(one.port), "--bind", one.host, "--dir", str(folder), "--save", ""]
    log = folder / f"{one.port}.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [VALKEY, *words, "--loadmodule", str(MODULE), *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        ) as process,
        # Whoever is killed cleans nothing up, but its end of a pipe is closed.
        subprocess.Popen(
            ["/bin/sh", "-c", f"read -r _; kill -9 {process.pid}"],
            stdin=subprocess.PIPE,
        ) as guard,
    ):
        try:
            yield process, log
        finally:
            guard.kill()
            process.kill()


def is_up(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Waits until it accepts connections, and returns whether it does."""
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        if "Ready to accept connections" in log.read_text():
            return True
        time.sleep(0.01)
    return False
