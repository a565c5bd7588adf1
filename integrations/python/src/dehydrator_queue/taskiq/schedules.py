"""The schedules of taskiq's labels, which the server keeps: there is no scheduler process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from taskiq import AsyncBroker, BrokerMessage
from taskiq.kicker import AsyncKicker
from taskiq.utils import maybe_awaitable

from dehydrator_queue.aio.server import Server
from dehydrator_queue.frameworks.occurrences import occurring, plan_of_framework
from dehydrator_queue.job import Delivery, id_bytes, id_text
from dehydrator_queue.queue.scheduling import Declared, declare
from dehydrator_queue.steps import run_async


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
        taking = occurring(self._server, [self.key], self._put, lambda key: list(self._declared()))
        self._taking = asyncio.create_task(run_async(taking))

    async def stop(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.wait({self._taking})
        await self._server.client.aclose()  # type: ignore[attr-defined]

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

    async def _put(self, delivery: Delivery) -> None:
        message = self._broker.formatter.loads(delivery.element)
        message.task_id = id_text(delivery.id)
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
