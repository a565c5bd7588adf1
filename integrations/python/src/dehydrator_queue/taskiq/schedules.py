"""The schedules of taskiq's labels, which the server keeps: there is no scheduler process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from math import inf
from typing import Any

from taskiq import AsyncBroker, BrokerMessage
from taskiq.kicker import AsyncKicker
from taskiq.utils import maybe_awaitable

from dehydrator_queue.aio.server import Server
from dehydrator_queue.errors import reason_of
from dehydrator_queue.frameworks.occurrences import AGAIN, BLOCK, LEASE, LOOK, MOST, plan_of_framework, put_off, settle
from dehydrator_queue.job import id_bytes, id_text
from dehydrator_queue.queue.commands import new_token, poll
from dehydrator_queue.queue.scheduling import Declared, declare, is_empty

log = logging.getLogger("dehydrator_queue")


class Schedules:
    """Stores the schedules of the labels, and sends a task for each occurrence.

    A label is a list of dicts, as for taskiq's LabelScheduleSource: `cron` with `cron_offset`, `interval` or `time`;
    `args`, `kwargs`, `labels` and `schedule_id`; and `missed`, as in `Queue.every`.
    """

    def __init__(
        self, broker: AsyncBroker, key: str, server: Server, send: Callable[[BrokerMessage, str], Awaitable[Any]]
    ) -> None:
        """`server`: has a client with time for a POLL that blocks. `send`: sends a message under an id."""
        self.key = key
        self._broker, self._server, self._send = broker, server, send
        self._taking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Stores the schedules of the broker's tasks. Raises an error for wrong ones."""
        for _, refusal in await self._server.follow(declare(self.key, list(self._declared())), patience=10.0):
            raise refusal
        self._taking = asyncio.create_task(self._take())

    async def stop(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.wait({self._taking})
        await self._server.client.aclose()  # type: ignore[attr-defined]

    async def _take(self) -> None:
        look_at = time.monotonic() + LOOK
        while True:
            try:
                if time.monotonic() >= look_at:
                    look_at = time.monotonic() + LOOK
                    if await self._server.ask(is_empty(self.key)):
                        await self._server.follow(declare(self.key, list(self._declared())))
                for delivery in await self._server.ask(poll([self.key], MOST, LEASE, new_token(), BLOCK), inf):
                    try:
                        await self._put(delivery.element, id_text(delivery.id))
                    except Exception as error:
                        await self._server.ask(put_off(delivery, error))
                    else:
                        await self._server.ask(settle(delivery))
            except Exception as error:
                log.error("occurrences cannot be taken, again in 1 s: %s", reason_of(error))
                await asyncio.sleep(AGAIN / 1000)

    def _declared(self) -> Any:
        for task_name, task in self._broker.get_all_tasks().items():
            for number, told in enumerate(task.labels.get("schedule", [])):
                name = told.get("schedule_id") or (f"{task_name}:{number}" if number else task_name)
                labels = {**told.get("labels", {}), **task.labels, "schedule_id": name}
                del labels["schedule"]
                kicker: AsyncKicker[Any, Any] = AsyncKicker(task_name, self._broker, labels)
                # Each occurrence has an id of its own.
                message = kicker.with_task_id("")._prepare_message(*told.get("args", []), **told.get("kwargs", {}))
                declared: Declared = id_bytes(name), self._broker.formatter.dumps(message).message, plan_of(told)
                yield declared

    async def _put(self, payload: bytes, id: str) -> None:
        message = self._broker.formatter.loads(payload)
        message.task_id = id
        for middleware in self._broker.middlewares:
            message = await maybe_awaitable(middleware.pre_send(message))
        await self._send(self._broker.formatter.dumps(message), message.task_id)
        for middleware in reversed(self._broker.middlewares):
            await maybe_awaitable(middleware.post_send(message))


def plan_of(told: dict[str, Any]) -> tuple[Any, ...]:
    """Reads a dict of a label."""
    missed = told.get("missed", "one")
    if told.get("cron") is not None:
        zone = told.get("cron_offset") or "UTC"
        if isinstance(zone, timedelta):
            raise ValueError(f"the `cron_offset` of a schedule is the name of a time zone, and not {zone!r}")
        return plan_of_framework(cron=told["cron"], zone=zone, missed=missed)
    if told.get("interval") is not None:
        return plan_of_framework(seconds=told["interval"], missed=missed)
    # Once. A moment that has passed is one that was missed.
    return plan_of_framework(seconds=1, starting=told["time"], times=1, missed=missed)
