"""Huey with delayed tasks in the server, which pushes them to Huey's own list when they are due.

huey = DehydratorHuey("my-app", url="redis://127.0.0.1:6379/0")
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from typing import Any

from huey import RedisHuey
from huey.api import ResultGroup, Task
from huey.signals import SIGNAL_ENQUEUED
from huey.storage import RedisStorage

from dehydrator_queue.options import rounded_up
from dehydrator_queue.queue.commands import as_bytes
from dehydrator_queue.queue.library import ResponseError
from dehydrator_queue.queue.server import explain


class DehydratorStorage(RedisStorage):
    """Huey's storage in Redis, whose schedule is a dehydrator, `huey.later.<name>`.

    The consumers' schedulers still move tasks in the sorted set of Huey's own storage.
    """

    #: Whether the times that Huey passes, without a time zone, are in UTC.
    utc = True

    @property
    def later_key(self) -> str:
        return f"huey.later.{self.name}"

    def add_to_schedule(self, data: bytes, ts: datetime) -> None:
        moment = ts.replace(tzinfo=timezone.utc) if self.utc else ts.astimezone()
        pipe = self.conn.pipeline()
        # Sent each time, because the database may have been flushed.
        pipe.execute_command("DEHYDRATOR.ONDUE", self.later_key, "LIST", self.queue_key, "LEFT")
        delay = rounded_up((moment - datetime.now(timezone.utc)).total_seconds())
        # As in a sorted set, equal bytes exist once.
        pipe.execute_command(
            "DEHYDRATOR.PUSH", self.later_key, delay, data, hashlib.sha256(data).hexdigest(), "REPLACE"
        )
        try:
            pipe.execute()
        except ResponseError as error:
            raise explain(error, "DEHYDRATOR.PUSH") from None

    def schedule_size(self) -> int:
        return int(self.conn.execute_command("DEHYDRATOR.LEN", self.later_key) + super().schedule_size())

    def scheduled_items(self, limit: int | None = None) -> list[bytes]:
        count = ("COUNT", limit) if limit else ()
        words = ("DEHYDRATOR.RANGE", self.later_key, "-", "+", *count, "WITHELEMENTS")
        items = [as_bytes(row[-1]) for row in self.conn.execute_command(*words)[1]]
        return [*items, *super().scheduled_items(limit)][:limit]

    def flush_schedule(self) -> None:
        self.conn.delete(self.later_key)
        super().flush_schedule()


class DehydratorHuey(RedisHuey):
    """A `RedisHuey`: its arguments, and all else, are the same."""

    storage_class = DehydratorStorage

    def get_storage(self, **kwargs: Any) -> Any:
        storage = super().get_storage(**kwargs)
        storage.utc = self.utc
        return storage

    def enqueue(self, task: Any) -> Any:
        """Sends a task. One that is not due is scheduled at once: Huey's own way is by its list and a worker."""
        if not isinstance(task, Task) or self.immediate or self.ready_to_run(task):
            return super().enqueue(task)
        if task.expires:
            task.resolve_expires(self.utc)
        self._emit(SIGNAL_ENQUEUED, task)
        self.add_schedule(task)
        results = self._pipeline_results(task) if self.results else [None]
        return ResultGroup(results) if len(results) > 1 else results[0]
