"""Waiting for a condition."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(true: Callable[[], T], seconds: float, what: str) -> T:
    """Waits until `true` returns a true value, and returns it."""
    end = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.02)
    return found


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
