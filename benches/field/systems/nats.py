"""NATS: a stream with schedules, in which the server publishes a message to a subject when it is due."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import nats
from nats.errors import TimeoutError

from system import Client, System, payload

#: Where pip has installed it.
SERVER = Path(sys.executable).with_name("nats-server")
#: The library knows no schedules: its own type of a stream's settings lacks them.
STREAM = {
    "name": "jobs",
    "subjects": ["later.*", "due"],
    "retention": "workqueue",
    "storage": "file",
    "allow_msg_schedules": True,
}


async def connect(url: str) -> nats.NATS:
    """Connects once: a trial kills the server, and connects again by itself."""

    async def ignore(_: Exception) -> None:
        """The library prints errors otherwise, also those that it raises."""

    return await nats.connect(url, allow_reconnect=False, error_cb=ignore)


class Jobs(Client):
    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = self._loop.run_until_complete(connect(url))
        self._stream = self._client.jetstream()

    async def _put(self, number: int, due: str) -> None:
        headers = {"Nats-Schedule": f"@at {due}", "Nats-Schedule-Target": "due"}
        await self._stream.publish(f"later.{number}", payload(number).encode(), headers=headers)

    def put(self, number: int, delay: float) -> int:
        self.put_many(range(number, number + 1), delay)
        return number

    def put_many(self, numbers: range, delay: float) -> None:
        due = (datetime.now(timezone.utc) + timedelta(seconds=delay)).isoformat()

        async def put_some(some: range) -> None:
            await asyncio.gather(*(self._put(number, due) for number in some))

        for start in range(numbers.start, numbers.stop, 1000):
            self._loop.run_until_complete(put_some(range(start, min(start + 1000, numbers.stop))))

    def cancel(self, job: int) -> None:
        self._loop.run_until_complete(self._stream.purge_stream("jobs", subject=f"later.{job}"))

    def work(self, done: Callable[[int], None], stopping: threading.Event) -> None:
        async def work() -> None:
            jobs = await self._stream.pull_subscribe("due", durable="workers")
            while not stopping.is_set():
                # After this many seconds it asks again.
                with suppress(TimeoutError):
                    for job in await jobs.fetch(1, timeout=1):
                        done(int(job.data))
                        await job.ack_sync()

        self._loop.run_until_complete(work())

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


class Nats(System):
    name = "NATS, schedules"

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def version(self) -> str:
        told = subprocess.run([SERVER, "--version"], check=True, capture_output=True, text=True).stdout
        return f"NATS {told.split(' v')[1].strip()}"

    def prepare(self) -> None:
        (self.folder / "nats.conf").write_text(
            f"listen: 127.0.0.1:{self.port}\n"
            f"jetstream {{ store_dir: {self.folder / 'data'}, sync_interval: 1s, max_file_store: 20G }}\n"
        )

    def words(self) -> list[str]:
        return [str(SERVER), "--config", str(self.folder / "nats.conf")]

    def is_up(self) -> bool:
        async def create() -> bool:
            client = await connect(self.url)
            # It exists if the server was started again.
            reply = json.loads((await client.request("$JS.API.STREAM.CREATE.jobs", json.dumps(STREAM).encode())).data)
            await client.close()
            assert "error" not in reply, reply
            return True

        return asyncio.run(create())

    def client(self) -> Client:
        return Jobs(self.url)
