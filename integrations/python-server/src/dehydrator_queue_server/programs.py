"""The programs that the wheel has brought, which become this process."""

import os
import sys
from pathlib import Path

BIN = Path(__file__).parent / "bin"
VALKEY = BIN / "valkey-server"
MODULE = BIN / "libdehydrator.so"


def serve() -> None:
    """Becomes a server in the foreground: scripts/run.sh."""
    become(BIN / "dehydrator-server")


def talk() -> None:
    """Becomes the client."""
    become(BIN / "valkey-cli")


def watch() -> None:
    """Becomes the live view, or with --web the page."""
    become(BIN / "dehydrator-top")


def become(program: Path) -> None:
    os.execv(program, [str(program), *sys.argv[1:]])
