"""pgmq on PostgreSQL, with its own settings."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import psycopg

from system import Client, payload
from systems.postgres_server import PostgresServer


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


class Pgmq(PostgresServer):
    name = "pgmq"

    def version(self) -> str:
        with psycopg.connect(self.url) as database:
            (own,) = database.execute("SELECT max(version) FROM pgmq.__pgmq_migrations").fetchone() or ("",)
        return f"pgmq {own} on {super().version()}"

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
