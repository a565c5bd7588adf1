"""A broker for taskiq: delayed tasks wait in the server.

broker = DehydratorBroker("redis://127.0.0.1:6379/0")
await task.kicker().with_labels(delay_seconds=30).kiq()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4
from weakref import ref

from taskiq import AckableMessage, AsyncBroker, AsyncResultBackend, BrokerMessage

from dehydrator_queue.aio.queue import Queue
from dehydrator_queue.aio.schedules import Schedules as QueueSchedules
from dehydrator_queue.aio.server import Server
from dehydrator_queue.aio.wide.deliveries import Deliveries
from dehydrator_queue.codec import Raw
from dehydrator_queue.errors import reason_of
from dehydrator_queue.frameworks.ids import look_words, names_of_message, names_of_task, push_words, take
from dehydrator_queue.frameworks.occurrences import BLOCK
from dehydrator_queue.frameworks.prefetch import MOST, STALE, Prefetch
from dehydrator_queue.job import Delivery
from dehydrator_queue.options import Duration, milliseconds, patience_of, whole
from dehydrator_queue.queue.commands import (
    KEEP,
    Keep,
    Question,
    as_bytes,
    check_deliveries,
    keep_words,
    limit_words,
    new_token,
    poll,
    reject,
)
from dehydrator_queue.queue.library import BROKEN, connect, passes, reply_in
from dehydrator_queue.queue.opening import beside, dead_of
from dehydrator_queue.queue.scheduling import Scheduling
from dehydrator_queue.taskiq.acks import Acks, leases_of
from dehydrator_queue.taskiq.schedules import Schedules
from dehydrator_queue.wide.directory import Keys, keys_of
from dehydrator_queue.worker.base import GRACE

log = logging.getLogger("dehydrator_queue")

#: The label with the delay of a task in seconds.
DELAY = "delay_seconds"

#: The label of a task that is dropped if no worker has got it in this many seconds after it was due.
WITHIN = "within_seconds"

#: The label of a task with its group. Tasks of several groups are delivered in turns.
GROUP = "group"

#: taskiq's own labels: the delay of a retry in seconds, and its number.
RETRY_DELAY, RETRIES = "delay", "_retries"


class DehydratorBroker(AsyncBroker):
    """Sends tasks with PUSH, takes them with POLL and a renewed lease, and acknowledges them with SETTLE."""

    def __init__(
        self,
        url: str = "redis://127.0.0.1:6379/0",
        queue_name: str = "taskiq:dehydrator",
        *,
        lease: Duration = 60.0,
        block: Duration = 2.0,
        count: int = MOST,
        patience: float = 10.0,
        keep_dead: Keep = KEEP,
        deliveries: int | None = None,
        schedules: bool = False,
        keys: Keys | None = None,
        result_backend: AsyncResultBackend[Any] | None = None,
        task_id_generator: Callable[[], str] | None = None,
        **options: Any,
    ) -> None:
        """`count`: how many tasks to take at a time, at most. `keep_dead`: how many dead letters to keep; None:
        all of them. `deliveries`: how often a task is delivered before it is a dead letter, such as one that kills its
        worker; by default without limit. `schedules`: whether workers serve those of the labels `schedule`, so that
        there is no scheduler process. `keys`: of each queue, as those of `dehydrator_queue.aio.Queue`. `options`
        are those of the client library's `from_url`.
        """
        keep_words(keep_dead)
        check_deliveries(deliveries)
        if keys is not None:
            keys_of(keys)
        self._keep_dead, self._deliveries = keep_dead, deliveries
        super().__init__(result_backend, task_id_generator)
        self.queue_name = queue_name
        self._lease_ms, self._block_ms = milliseconds("lease", lease, 100), milliseconds("block", block)
        self._count = whole("count", count)
        self._url, self._options = url, options
        self._patience, self._keys_of_queue = patience_of(patience), keys
        self._queues: dict[str, Queue[Any]] = {}
        self._server = Server(self._connect(reply_in(self._lease_ms)), patience)
        # After that, a task has been delivered again anyway.
        self._acks = Acks(self._server, max(self._lease_ms / 1000, patience))
        self._schedules: Schedules | None = None
        self._has_schedules = schedules
        # Each with its ack, as long as that can be called.
        self._held: dict[tuple[str, bytes], tuple[Delivery, ref[Any]]] = {}
        self._renewing: asyncio.Task[None] | None = None
        self._giving_back: set[asyncio.Task[None]] = set()

    def _connect(self, timeout: float) -> Any:
        return connect(self._url, timeout, asyncio=True, **self._options)

    def queue(self, queue_name: str | None = None) -> Queue[Any]:
        """Returns a queue as other programs see it, for example to change its keys, or revive its dead letters."""
        name = queue_name or self.queue_name
        if name not in self._queues:
            terms: dict[str, Any] = {"keep_dead": self._keep_dead, "patience": self._patience}
            self._queues[name] = Queue(self._server.client, name, codec=Raw(), keys=self._keys_of_queue, **terms)
        return self._queues[name]

    async def _ask(self, *words: Any, queue_name: str | None = None) -> Any:
        """`queue_name`: the command is about a queue, which can have several keys."""
        server = self._server if queue_name is None else self.queue(queue_name)._server
        return await server.ask(Question(words, lambda reply: reply))

    async def startup(self) -> None:
        await super().startup()
        await self._server.check(self.queue_name)
        if self.is_worker_process:
            self._renewing = asyncio.create_task(self._renew())
            if self._deliveries is not None and self._keys_of_queue is None:
                dead = dead_of(self.queue_name, self._server.client)
                await self._ask(*limit_words(self.queue_name, dead, self._deliveries, self._keep_dead, "NX"))
            if self._has_schedules:
                client = self._connect(BLOCK / 1000 + GRACE)
                key = beside(self.queue_name, client, "schedules")
                self._schedules = Schedules(self, key, Server(client, float("inf")), self._send_once)
                await self._schedules.start()

    async def shutdown(self) -> None:
        """Gives back unacknowledged tasks, including running ones, whose acks then do nothing."""
        try:
            if self._schedules is not None:
                await self._schedules.stop()
            if self._renewing is not None:
                self._renewing.cancel()
                await asyncio.wait({self._renewing})
            await self._acks.stop(self._patience)
            await self._release(*(delivery for delivery, _ in self._held.values()))
            await super().shutdown()
        finally:
            await self._server.client.aclose()  # type: ignore[attr-defined]

    async def kick(self, message: BrokerMessage) -> None:
        """Sends a task, with the labels `delay_seconds`, `within_seconds` and `group`. A retry has as long again."""
        key = self._key_of(message)
        for name in names_of_message(message.task_id, uuid4().hex):
            if await self._ask(*self.push_words(message, name), queue_name=key) is not None:
                return
            # Two tasks with one id differ by their contents; an identical one is the same task.
            if as_bytes(await self._ask(*look_words(key, name), queue_name=key) or b"") == message.message:
                return

    def schedules(self) -> QueueSchedules:
        """Returns the schedules of the labels, to list, pause or run them."""

        def read(element: bytes) -> tuple[Any, Exception | None]:
            return self.formatter.loads(element), None

        key = beside(self.queue_name, self._server.client, "schedules")
        return QueueSchedules(self._server, Scheduling(key, bytes, read))

    async def _send_once(self, message: BrokerMessage, name: str) -> None:
        """Sends a message under an id, unless that is there."""
        await self._ask(*self.push_words(message, name), queue_name=self._key_of(message))

    def _key_of(self, message: BrokerMessage) -> str:
        return str(message.labels.get("queue_name") or self.queue_name)

    def push_words(self, message: BrokerMessage, name: str) -> tuple[Any, ...]:
        """Returns the words that send a message under an id, unless that exists."""
        delay = milliseconds(DELAY, self._delay_of(message.labels))
        within, group = message.labels.get(WITHIN), message.labels.get(GROUP)
        within_ms = None if within is None else milliseconds(WITHIN, float(within), 1)
        return push_words(self._key_of(message), delay, message.message, name, within_ms, group)

    def _delay_of(self, labels: dict[str, Any]) -> float:
        # SmartRetryMiddleware leaves the delay to the broker, if it has no schedule source.
        scheduled = any(getattr(middleware, "schedule_source", None) for middleware in self.middlewares)
        retry = labels.get(RETRY_DELAY) if labels.get(RETRIES) and not scheduled else None
        return float(retry or labels.get(DELAY) or 0)

    async def cancel(self, task_id: str, queue_name: str | None = None) -> bool:
        """Cancels a task that no worker has; returns whether it existed."""
        name = queue_name or self.queue_name
        return bool(await self.queue(name)._server.follow(take(name, *names_of_task(task_id))))

    def listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        """Yields due tasks, each with its `ack`."""
        return self._listen() if self._keys_of_queue is None else self._listen_to_keys()

    async def _listen_to_keys(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        server = Server(self._connect(self._block_ms / 1000 + GRACE), patience=float("inf"))
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())
        taken: list[tuple[Delivery, AckableMessage]] = []
        deliveries = Deliveries(
            *(self.queue(), server, Prefetch(self._count), self._lease_ms, self._block_ms),
            made=lambda delivery: (delivery, self._message_of(delivery)),
        )
        try:
            while True:
                taken = [await deliveries.take()]
                delivery, message = taken[0]
                if (fault := self._fault_of(delivery)) is None:
                    taken = []
                    with self._giving_back_from(deliveries.give_up):
                        yield message
                else:
                    await self._bury(delivery, fault)
                # The receiver asks for the next one.
                deliveries.end()
        finally:
            taken += await deliveries.close()
            await self._release(*(delivery for delivery, _ in taken), counted=False)
            await asyncio.gather(*self._giving_back)
            await server.client.aclose()  # type: ignore[attr-defined]

    async def _listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        server = Server(self._connect(self._block_ms / 1000 + GRACE), patience=float("inf"))
        token: str | None = None
        taken: list[tuple[Delivery, AckableMessage]] = []
        prefetch = Prefetch(self._count)
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())

        def give_up() -> list[tuple[Delivery, AckableMessage]]:
            unasked = list(taken)
            taken.clear()
            return unasked

        try:
            while True:
                token = new_token()
                question = poll([self.queue_name], prefetch.count, self._lease_ms, token, self._block_ms)
                deliveries = await server.ask(question, tell=lambda error: log.warning("asking again: %r", error))
                token = None
                taken = [(delivery, self._message_of(delivery)) for delivery in deliveries]
                prefetch.begin()
                while taken:
                    delivery, message = taken[0]
                    if (fault := self._fault_of(delivery)) is None:
                        del taken[0]
                        with self._giving_back_from(give_up):
                            yield message
                        prefetch.pass_on()
                    else:
                        await self._bury(delivery, fault)
                        del taken[0]
        finally:
            unused = [delivery for delivery, _ in taken]
            if token is not None:
                # The reply may have been on its way: the token repeats it.
                question = poll([self.queue_name], prefetch.count, self._lease_ms, token, None)
                with suppress(*BROKEN):
                    given = await self._server.ask(question, patience=0)
                    unused += given
            await self._release(*unused, counted=False)
            await asyncio.gather(*self._giving_back)
            await server.client.aclose()  # type: ignore[attr-defined]

    @contextmanager
    def _giving_back_from(self, give_up: Callable[[], list[tuple[Delivery, AckableMessage]]]) -> Iterator[None]:
        """While the receiver has not asked for another task, gives back those that `give_up` returns."""
        timer: asyncio.TimerHandle

        def look_in(seconds: float) -> None:
            nonlocal timer
            timer = asyncio.get_running_loop().call_later(seconds, give_back, seconds)

        def give_back(seconds: float) -> None:
            # What was on its way may arrive later.
            look_in(2 * seconds)
            if some := [delivery for delivery, _ in give_up()]:
                self._giving_back.add(task := asyncio.create_task(self._release(*some, counted=False)))
                task.add_done_callback(self._giving_back.discard)

        look_in(STALE)
        try:
            yield
        finally:
            timer.cancel()

    def _fault_of(self, delivery: Delivery) -> str | None:
        """Returns why the receiver could not run a message, which it would acknowledge and lose."""
        try:
            message = self.formatter.loads(message=delivery.element)
            message.parse_labels()
        except Exception as error:
            return f"it cannot be decoded: {reason_of(error)}"
        if self.find_task(message.task_name) is None:
            return f"there is no task {message.task_name}"
        return None

    async def _bury(self, delivery: Delivery, reason: str) -> None:
        """Moves a message to the dead letters. If that fails, it is delivered again when its lease expires."""
        self._held.pop((delivery.token, delivery.id), None)
        log.error("%s: %r is a dead letter: %s", delivery.key, delivery.id, reason)
        dead = dead_of(delivery.key, self._server.client)
        try:
            told = (delivery.key, dead, delivery.token, delivery.id, reason, self._deliveries, self._keep_dead)
            await self._server.follow(reject(*told))
        except Exception as error:
            log.error("%s: %r stays, for it could not be moved: %r", delivery.key, delivery.id, error)

    def _message_of(self, delivery: Delivery) -> AckableMessage:
        async def ack() -> None:
            self._held.pop((delivery.token, delivery.id), None)
            await self._acks.settle(delivery)

        self._held[delivery.token, delivery.id] = delivery, ref(ack)
        return AckableMessage(data=delivery.element, ack=ack)

    async def _release(self, *deliveries: Delivery, counted: bool = True) -> None:
        """Gives messages back, due at once. If that fails, they are delivered again when their leases expire.

        `counted`: whether this delivery counts. If not, they get their old place.
        """
        for key, some in by_key(deliveries).items():
            for delivery in some:
                self._held.pop((delivery.token, delivery.id), None)
            try:
                option = () if counted else ("UNCOUNTED",)
                await self._ask("DEHYDRATOR.RELEASE", key, 0, *leases_of(some), *option)
            except Exception as error:
                log.warning("%s: %d could not be given back: %r", key, len(some), error)

    async def _renew(self) -> None:
        """Renews the current jobs, three times per lease."""
        # A task for each key: the nodes of the others may reply when one does not.
        renewing: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                await asyncio.sleep(self._lease_ms / 3000)
                for name, (delivery, ack) in list(self._held.items()):
                    if ack() is None:
                        # The receiver dropped it, for example because a middleware failed.
                        log.warning("%s: nobody will acknowledge %r", delivery.key, delivery.id)
                        del self._held[name]
                for key, some in by_key(delivery for delivery, _ in self._held.values()).items():
                    if key not in renewing or renewing[key].done():
                        renewing[key] = asyncio.create_task(self._renew_some(key, some))
        finally:
            for task in renewing.values():
                task.cancel()
            await asyncio.gather(*renewing.values(), return_exceptions=True)

    async def _renew_some(self, key: str, held: list[Delivery]) -> None:
        renew = ("DEHYDRATOR.RENEW", key, self._lease_ms, *leases_of(held))
        try:
            # As long as the leases still run.
            renewed = await self._server.ask(Question(renew, list), patience=2 * self._lease_ms / 3000)
        except Exception as error:
            if not passes(error):
                log.error("leases could not be renewed: %r", error)
            return
        for delivery, still in zip(held, renewed, strict=True):
            if not still and self._held.pop((delivery.token, delivery.id), None) is not None:
                log.warning("%s: %r was cancelled, or its lease ran out", delivery.key, delivery.id)


def by_key(deliveries: Iterable[Delivery]) -> dict[str, list[Delivery]]:
    found: dict[str, list[Delivery]] = {}
    for delivery in deliveries:
        found.setdefault(delivery.key, []).append(delivery)
    return found
