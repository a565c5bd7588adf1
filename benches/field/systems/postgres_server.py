"""Debian's PostgreSQL, with its own settings."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psycopg

from system import System

#: The server does not run as root.
USER = "postgres"


class PostgresServer(System):
    @property
    def url(self) -> str:
        return f"postgres://{USER}@127.0.0.1:{self.port}/postgres"

    def version(self) -> str:
        with psycopg.connect(self.url) as database:
            (server,) = database.execute("SHOW server_version").fetchone() or ("",)
        return f"PostgreSQL {server.split()[0]}"

    def prepare(self) -> None:
        if self._as_user():
            shutil.chown(self.folder, USER)
        subprocess.run(
            [*self._as_user(), self._program("initdb"), "-D", self.folder / "data", "-A", "trust"],
            check=True,
            capture_output=True,
        )

    @staticmethod
    def _as_user() -> list[str]:
        return ["runuser", "-u", USER, "--"] if os.getuid() == 0 else []

    @staticmethod
    def _program(name: str) -> str:
        return str(max(Path("/usr/lib/postgresql").glob(f"*/bin/{name}")))

    def words(self) -> list[str]:
        words = [*self._as_user(), self._program("postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
        return [*words, "-h", "127.0.0.1", "-k", str(self.folder / "data")]

    def is_up(self) -> bool:
        with psycopg.connect(self.url) as database:
            database.execute("SELECT 1")
        return True
