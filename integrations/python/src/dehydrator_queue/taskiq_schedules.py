"""The schedules of taskiq's labels, which the workers serve: there is no scheduler process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from taskiq import AsyncBroker, BrokerMessage, TaskiqMessage
from taskiq.kicker import AsyncKicker
from taskiq.utils import maybe_awaitable

from dehydrator_queue.aio.queue import Queue
from dehydrator_queue.deploys import PRESENCE, Declared, Deploy
from dehydrator_queue.job import Delivery, id_bytes, id_text
from dehydrator_queue.plan import Plan
from dehydrator_queue.schedule import Element, Stored, job_id, look, step, store
from dehydrator_queue.verbs import Question

log = logging.getLogger("dehydrator_queue")

#: Milliseconds after which a schedule is tried again that could not be served.
AGAIN = 1000


class Schedules:
    """Stores the schedules of the labels, and sends a task for each occurrence.

    A label is a list of dicts, as for taskiq's LabelScheduleSource: `cron` with `cron_offset`, `interval` or `time`;
    `args`, `kwargs`, `labels` and `schedule_id`; and `missed`, as in `Queue.every`.
    """

    def __init__(
        self,
        broker: AsyncBroker,
        queue: Queue,
        push_words: Callable[[BrokerMessage, str], tuple[Any, ...]],
    ) -> None:
        """`push_words`: returns the words that send a message under an id."""
        self.key, self._home = queue.scheduling.key, queue.scheduling.home
        self._broker = broker
        self._push_words = push_words
        self._queue, self._server = queue.name, queue.server
        self._reporting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Reports the schedules of the broker's tasks, now and then again. Raises ValueError for wrong ones."""
        deploy = Deploy(self.key, dict(self._declared()), lambda element: True)
        if not await self._server.follow(deploy.report()):
            log.warning("%s: newer labels of other workers are in force", self.key)
        self._reporting = asyncio.create_task(self._report(deploy))

    async def stop(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.wait({self._reporting})

    async def _report(self, deploy: Deploy) -> None:
        while True:
            await asyncio.sleep(PRESENCE)
            try:
                await self._server.follow(deploy.report())
            except Exception as error:
                log.warning("%s: labels could not be stored: %r", self.key, error)

    def _declared(self) -> Any:
        for task_name, task in self._broker.get_all_tasks().items():
            for number, told in enumerate(task.labels.get("schedule", [])):
                name = told.get("schedule_id") or (f"{task_name}:{number}" if number else task_name)
                labels = {**told.get("labels", {}), **task.labels, "schedule_id": name}
                del labels["schedule"]
                plan = plan_of(told)
                kicker: AsyncKicker[Any, Any] = AsyncKicker(task_name, self._broker, labels)
                # Each occurrence has an id of its own.
                message = kicker.with_task_id("")._prepare_message(*told.get("args", []), **told.get("kwargs", {}))
                payload = self._broker.formatter.dumps(message).message
                yield id_bytes(name), Declared(plan.encode(), payload, plan.first)

    async def serve(self, deliveries: list[Delivery]) -> None:
        """Sends the tasks of schedules that are due."""
        for delivery in deliveries:
            await self.serve_one(delivery)

    async def serve_one(self, delivery: Delivery) -> None:
        try:
            refusal = await self._serve(delivery)
        except Exception as error:
            refusal = repr(error)
        if refusal is not None:
            log.error("%s: %r is tried again: %s", self.key, delivery.id, refusal)
            words = ("DEHYDRATOR.RELEASE", self.key, AGAIN, delivery.token, delivery.id, "UNCOUNTED")
            await self._server.ask(Question(words, lambda reply: reply))

    async def _serve(self, delivery: Delivery) -> str | None:
        """Returns the reason of a refusal."""
        element = Element.decode(delivery.element)
        plan = Plan.decode(element.plan)
        now, _ = await self._server.ask(look(self.key, delivery.id))
        state, moments = step(element.state, plan.occurrences(), plan.rules, now, 1)
        ids = [job_id(delivery.id, moment) for moment in moments]
        if self._home is not None:
            ids = await self._server.follow(self._home.ids(ids))
        messages = [await self._message(element.payload, id_text(id)) for id in ids]
        after = replace(element, state=state)

        def put(ids: Sequence[bytes]) -> Question[Stored]:
            for message, id in zip(messages, ids, strict=True):
                message.task_id = id_text(id)
            return self._store(delivery, after, state.deadline(now), messages)

        stored: Stored = await (
            self._server.ask(self._store(delivery, after, state.deadline(now), messages))
            if self._home is None
            else self._server.follow(self._home.ask(ids, put))
        )
        for message in messages if stored.done else []:
            for middleware in reversed(self._broker.middlewares):
                await maybe_awaitable(middleware.post_send(message))
        return stored.refusal

    def _store(
        self, delivery: Delivery, after: Element, deadline: int, messages: Sequence[TaskiqMessage]
    ) -> Question[Stored]:
        keys, jobs = [self.key], []
        for message in messages:
            _, key, *words = self._push_words(self._broker.formatter.dumps(message), message.task_id)
            if self._home is not None and key != self._queue:
                raise ValueError(f"with `keys`, a schedule of {self._queue} sends tasks to that queue, not to {key}")
            keys.append(key if self._home is None else self._home.key)
            jobs.append(words)
        return store(keys, delivery.id, delivery.element, after.encode(), deadline, jobs, delivery.token)

    async def _message(self, payload: bytes, id: str) -> TaskiqMessage:
        message = self._broker.formatter.loads(payload)
        message.task_id = id
        for middleware in self._broker.middlewares:
            message = await maybe_awaitable(middleware.pre_send(message))
        return message


def plan_of(told: dict[str, Any]) -> Plan:
    """Reads a dict of a label."""
    missed = told.get("missed", "one")
    if told.get("cron") is not None:
        zone = told.get("cron_offset") or "UTC"
        if isinstance(zone, timedelta):
            raise ValueError(f"the `cron_offset` of a schedule is the name of a time zone, and not {zone!r}")
        return Plan.of(cron=told["cron"], zone=zone, missed=missed)
    if told.get("interval") is not None:
        return Plan.of(seconds=told["interval"], missed=missed)
    # Once. A moment that has passed is one that was missed.
    return Plan.of(seconds=1, starting=told["time"], times=1, missed=missed)
