"""The schedules of Dramatiq's actors, which the workers serve: there is no scheduler process.

@dramatiq.actor(periodic=cron("0 9 * * 1-5", zone="Europe/Berlin"))
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from dramatiq import Message, Middleware

from dehydrator_queue.deploys import Declared, Deploy
from dehydrator_queue.job import Delivery, id_bytes, id_text
from dehydrator_queue.library import is_cluster
from dehydrator_queue.moment import Duration
from dehydrator_queue.occurrences import require_cron
from dehydrator_queue.plan import Plan
from dehydrator_queue.schedule import Element, Stored, job_id, store
from dehydrator_queue.scheduling import Scheduling
from dehydrator_queue.server import Server
from dehydrator_queue.serving import Serving
from dehydrator_queue.verbs import Question

log = logging.getLogger("dehydrator_queue")

#: The option of an actor with its plan.
PERIODIC = "periodic"


def cron(text: str, *, zone: str = "UTC", missed: str = "one") -> Plan:
    """Returns the option `periodic` of an actor: when its messages are sent. See `Queue.every`."""
    return Plan.of(cron=text, zone=zone, missed=missed)


def every(seconds: Duration, *, starting: datetime | float | None = None, missed: str = "one") -> Plan:
    """Returns the option `periodic` of an actor: its interval. See `Queue.every`."""
    return Plan.of(seconds=seconds, starting=starting, missed=missed)


class ActorScheduling(Scheduling):
    """Its payloads are messages without an id."""

    def __init__(self, broker: Any, queue_name: str) -> None:
        self._broker = broker
        own: Scheduling = broker.queue(queue_name).scheduling
        super().__init__(own.key, own.queue, Message.encode, Message.decode, own.home)

    def _message(self, payload: bytes, id: bytes, moment: int) -> Message[Any]:
        message: Message[Any] = Message.decode(payload).copy(message_id=id_text(id), message_timestamp=moment)
        prepared: Message[Any] = self._broker.prepare(message)
        return prepared

    def _put(self, name: bytes, plan: Plan, payload: bytes, now: int) -> Question[str]:
        message = self._message(payload, job_id(name, now), now)
        words = self._broker.push_words(message, message.message_id)
        return Question(words, lambda reply: self._sent([message]))

    def _store(
        self,
        delivery: Delivery,
        plan: Plan,
        after: Element,
        deadline: int,
        moments: Sequence[int],
        ids: Sequence[bytes],
    ) -> Question[Stored]:
        messages = [self._message(after.payload, id, moment) for id, moment in zip(ids, moments, strict=True)]
        jobs = [self._broker.push_words(message, message.message_id)[2:] for message in messages]
        question = store(self._keys, delivery.id, delivery.element, after.encode(), deadline, jobs, delivery.token)

        def read(reply: Any) -> Stored:
            stored = question.read(reply)
            if stored.done:
                self._sent(messages)
            return stored

        return Question(question.words, read)

    def _sent(self, messages: Sequence[Message[Any]]) -> str:
        """Calls the middleware, and returns the id of the last message."""
        for message in messages:
            self._broker.emit_after("enqueue", message, None)
        return messages[-1].message_id if messages else ""


class Declaring:
    """The schedules that actors of some queues declare."""

    def __init__(self, broker: Any, queue_names: Iterable[str]) -> None:
        self._server: Server = broker.server
        self._schedulings: dict[str, ActorScheduling] = {}
        self._deploys: dict[str, Deploy] = {}
        for queue_name in queue_names:
            scheduling = ActorScheduling(broker, queue_name)
            actors = [one for one in broker.actors.values() if one.queue_name == queue_name and PERIODIC in one.options]
            self._schedulings[scheduling.key] = scheduling
            self._deploys[scheduling.key] = Deploy(scheduling.key, dict(map(_declare, actors)), lambda element: True)
        self.serving = Serving(broker.server, list(self._schedulings), self._serve, self._report)

    def _serve(self, delivery: Delivery) -> str | None:
        return self._server.follow(self._schedulings[delivery.key].serve(delivery))

    def _report(self) -> None:
        for key, deploy in self._deploys.items():
            # A queue of which no actor is periodic may have the schedules of an earlier deploy.
            is_used = deploy.declares or self._server.ask(Question(("EXISTS", key), bool))
            if is_used and not self._server.follow(deploy.report()):
                log.info("%s: the newer schedules of other workers are in force", key)


def _declare(actor: Any) -> tuple[bytes, Declared]:
    plan: Plan = actor.options[PERIODIC]
    message: Message[Any] = Message(actor.queue_name, actor.actor_name, (), {}, {}, "", 0)
    return id_bytes(actor.actor_name), Declared(plan.encode(), message.encode(), plan.first)


class Periodic(Middleware):
    """Serves the schedules of actors while a worker runs."""

    def __init__(self) -> None:
        require_cron()
        self._serving: list[Serving] = []

    @property
    def actor_options(self) -> set[str]:
        return {PERIODIC}

    def after_worker_boot(self, broker: Any, worker: Any) -> None:
        names = sorted(broker.get_declared_queues())
        # On a cluster, each queue is in a slot of its own.
        groups = [[name] for name in names] if is_cluster(broker.client) else [names]
        self._serving = [Declaring(broker, group).serving for group in groups if group]
        for one in self._serving:
            one.start()

    def before_worker_shutdown(self, broker: Any, worker: Any) -> None:
        for one in self._serving:
            one.stop()
        self._serving = []
