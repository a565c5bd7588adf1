"""pgmq on Debian's PostgreSQL, with the settings of both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psycopg

from system import Client, System, payload

#: The server does not run as root.
USER = "postgres"


class Jobs(Client):
    def __init__(self, url: str) -> None:
        self._database = psycopg.connect(url, autocommit=True)

    def put(self, number: int, delay: float) -> int:
        due = datetime.now(timezone.utc) + timedelta(seconds=delay)
        job = json.dumps(payload(number))
        found = self._database.execute("SELECT pgmq.send('jobs', %s::jsonb, %s::timestamptz)", (job, due)).fetchone()
        assert found
        return int(found[0])

    def put_many(self, numbers: range, delay: float) -> None:
        for start in range(numbers.start, numbers.stop, 1000):
            jobs = [json.dumps(payload(number)) for number in range(start, min(start + 1000, numbers.stop))]
            self._database.execute("SELECT pgmq.send_batch('jobs', %s::jsonb[], %s)", (jobs, round(delay)))

    def cancel(self, job: int) -> None:
        self._database.execute("SELECT pgmq.delete('jobs', %s)", (job,))

    def work(self, done: Callable[[int], None], stopping: threading.Event) -> None:
        while not stopping.is_set():
            found = self._database.execute(
                "SELECT msg_id, message FROM pgmq.read_with_poll('jobs', vt => 60, qty => 1, max_poll_seconds => 1)"
            ).fetchone()
            if found:
                done(int(found[1]))
                self._database.execute("SELECT pgmq.delete('jobs', %s)", (found[0],))

    def close(self) -> None:
        self._database.close()


class Pgmq(System):
    name = "pgmq"

    @property
    def url(self) -> str:
        return f"postgres://{USER}@127.0.0.1:{self.port}/postgres"

    def version(self) -> str:
        with psycopg.connect(self.url) as database:
            (server,) = database.execute("SHOW server_version").fetchone() or ("",)
            (own,) = database.execute("SELECT max(version) FROM pgmq.__pgmq_migrations").fetchone() or ("",)
        return f"pgmq {own} on PostgreSQL {server.split()[0]}"

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

    def start(self) -> None:
        super().start()
        with psycopg.connect(self.url, autocommit=True) as database:
            if database.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'pgmq'").fetchone():
                return
            words = [self.options.pgmq, "install", "-d", self.url, "install-from-embedded"]
            subprocess.run(words, check=True, capture_output=True)
            database.execute("SELECT pgmq.create('jobs')")

    def client(self) -> Client:
        return Jobs(self.url)
