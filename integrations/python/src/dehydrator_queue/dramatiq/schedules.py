"""The schedules of Dramatiq's actors, which the server keeps: there is no scheduler process.

@dramatiq.actor(periodic=cron("0 9 * * 1-5", zone="Europe/Berlin"))
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dramatiq import Message, Middleware

from dehydrator_queue.frameworks.occurrences import Occurrences, plan_of_framework
from dehydrator_queue.job import Delivery, id_bytes, id_text
from dehydrator_queue.options import Duration
from dehydrator_queue.queue.library import is_cluster
from dehydrator_queue.queue.opening import beside
from dehydrator_queue.queue.schedules import Schedules
from dehydrator_queue.queue.scheduling import Declared, Scheduling, occurrence

#: The option of an actor with its plan.
PERIODIC = "periodic"


def cron(text: str, *, zone: str = "UTC", missed: str = "one") -> Sequence[Any]:
    """Returns the option `periodic` of an actor: when its messages are sent. See `Queue.every`."""
    return plan_of_framework(cron=text, zone=zone, missed=missed)


def every(seconds: Duration, *, starting: datetime | float | None = None, missed: str = "one") -> Sequence[Any]:
    """Returns the option `periodic` of an actor: its interval. See `Queue.every`."""
    return plan_of_framework(seconds=seconds, starting=starting, missed=missed)


def key_of(broker: Any, queue_name: str) -> str:
    return beside(broker.key(queue_name), broker.client, "schedules")


def schedules_of(broker: Any, queue_name: str) -> Schedules:
    """Their payloads are messages without an id."""

    def read(element: bytes) -> tuple[Any, Exception | None]:
        try:
            return Message.decode(element), None
        except Exception as error:
            return None, error

    return Schedules(broker.server, Scheduling(key_of(broker, queue_name), Message.encode, read))


class Periodic(Middleware):
    """Stores the schedules of actors while a worker runs, and sends the message of each occurrence."""

    def __init__(self) -> None:
        self._occurrences: list[Occurrences] = []

    @property
    def actor_options(self) -> set[str]:
        return {PERIODIC}

    def after_worker_boot(self, broker: Any, worker: Any) -> None:
        queues = {key_of(broker, name): name for name in sorted(broker.get_declared_queues())}

        def declared(key: str) -> list[Declared]:
            some = (one for one in broker.actors.values() if one.queue_name == queues[key])
            return [_declare(one) for one in some if PERIODIC in one.options]

        def put(delivery: Delivery) -> None:
            _, moment = occurrence(delivery.id)
            message: Message[Any] = Message.decode(delivery.element)
            message = broker.prepare(message.copy(message_id=id_text(delivery.id), message_timestamp=moment))
            broker.ask(*broker.push_words(message, message.message_id), queue_name=message.queue_name)
            broker.emit_after("enqueue", message, None)

        # On a cluster, each queue is in a slot of its own.
        groups = [[key] for key in queues] if is_cluster(broker.client) else [list(queues)]
        self._occurrences = [Occurrences(broker.server, put, group, declared) for group in groups if group]
        for one in self._occurrences:
            one.start()

    def before_worker_shutdown(self, broker: Any, worker: Any) -> None:
        for one in self._occurrences:
            one.stop()
        self._occurrences = []


def _declare(actor: Any) -> Declared:
    message: Message[Any] = Message(actor.queue_name, actor.actor_name, (), {}, {}, "", 0)
    return id_bytes(actor.actor_name), message.encode(), actor.options[PERIODIC]
