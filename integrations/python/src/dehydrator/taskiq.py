"""A broker for taskiq: delayed tasks wait in the server.

broker = DehydratorBroker("redis://127.0.0.1:6379/0")
await task.kicker().with_labels(delay_seconds=30).kiq()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4
from weakref import ref

from taskiq import AckableMessage, AsyncBroker, AsyncResultBackend, BrokerMessage

from dehydrator.aio.server import Server
from dehydrator.job import Delivery
from dehydrator.library import BROKEN, connect, passes
from dehydrator.moment import Duration, milliseconds
from dehydrator.names import cancel_words, look_words, names_of_message, names_of_task, push_words
from dehydrator.verbs import Question, as_bytes, new_token, poll

log = logging.getLogger("dehydrator")

#: The label that says how many seconds a task waits. (`delay` is taskiq's own, for its retries.)
DELAY = "delay_seconds"


class DehydratorBroker(AsyncBroker):
    """Puts tasks away by PUSH, takes them by POLL under a lease that is renewed, and acknowledges them by SETTLE."""

    def __init__(
        self,
        url: str = "redis://127.0.0.1:6379/0",
        queue_name: str = "taskiq:dehydrator",
        *,
        lease: Duration = 60.0,
        block: Duration = 2.0,
        count: int = 1,
        patience: float = 10.0,
        result_backend: AsyncResultBackend[Any] | None = None,
        task_id_generator: Callable[[], str] | None = None,
        **options: Any,
    ) -> None:
        """`count`: how many tasks are taken at a time. `options` are those of the client library's `from_url`."""
        super().__init__(result_backend, task_id_generator)
        self.queue_name = queue_name
        self._lease_ms, self._block_ms, self._count = milliseconds(lease), milliseconds(block), count
        self._url, self._options = url, options
        self._patience = patience
        self._server = Server(self._connect(), patience)
        # Beside each its ack, for as long as anybody can call it.
        self._held: dict[tuple[str, bytes], tuple[Delivery, ref[Any]]] = {}
        self._renewing: asyncio.Task[None] | None = None

    def _connect(self) -> Any:
        return connect(self._url, self._block_ms / 1000 + 5, asyncio=True, **self._options)

    async def _ask(self, *words: Any) -> Any:
        return await self._server.ask(Question(words, lambda reply: reply))

    async def startup(self) -> None:
        await super().startup()
        await self._server.check(self.queue_name)
        if self.is_worker_process:
            self._renewing = asyncio.create_task(self._renew())

    async def shutdown(self) -> None:
        """Gives back what was taken and not acknowledged, also what is being worked on: its ack does nothing then."""
        if self._renewing is not None:
            self._renewing.cancel()
        for delivery, _ in list(self._held.values()):
            await self._release(delivery)
        await super().shutdown()
        await self._server.client.aclose()  # type: ignore[attr-defined]

    async def kick(self, message: BrokerMessage) -> None:
        """Puts a task away, for as many seconds as its label `delay_seconds` says."""
        key = message.labels.get("queue_name") or self.queue_name
        delay = milliseconds(float(message.labels.get(DELAY) or 0))
        for name in names_of_message(message.task_id, uuid4().hex):
            if await self._ask(*push_words(key, delay, message.message, name)) is not None:
                return
            # Two tasks of one id are told apart by what they carry; the very same again is one.
            if as_bytes(await self._ask(*look_words(key, name)) or b"") == message.message:
                return

    async def cancel(self, task_id: str, queue_name: str | None = None) -> bool:
        """Takes back a task that no worker has; returns whether it was there."""
        return bool(await self._ask(*cancel_words(queue_name or self.queue_name, *names_of_task(task_id))))

    async def listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        """Yields what is due, each with its `ack`."""
        server = Server(self._connect(), patience=float("inf"))
        token: str | None = None
        taken: list[tuple[Delivery, AckableMessage]] = []
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())
        try:
            while True:
                token = new_token()
                question = poll([self.queue_name], self._count, self._lease_ms, token, self._block_ms)
                deliveries = await server.ask(question, tell=lambda error: log.warning("asking again: %r", error))
                token = None
                taken = [(delivery, self._message_of(delivery)) for delivery in deliveries]
                while taken:
                    yield taken.pop(0)[1]
        finally:
            await server.client.aclose()  # type: ignore[attr-defined]
            if token is not None:
                # The reply may have been on its way: the token has it told again.
                question = poll([self.queue_name], self._count, self._lease_ms, token, None)
                with suppress(*BROKEN):
                    for delivery in await self._server.ask(question, patience=0):
                        await self._release(delivery)
            for delivery, _ in taken:
                await self._release(delivery)

    def _message_of(self, delivery: Delivery) -> AckableMessage:
        async def ack() -> None:
            self._held.pop((delivery.token, delivery.id), None)
            settle = Question(("DEHYDRATOR.SETTLE", delivery.key, delivery.token, delivery.id), bool)
            # After that it has come again anyway.
            await self._server.ask(settle, patience=max(self._lease_ms / 1000, self._patience))

        self._held[delivery.token, delivery.id] = delivery, ref(ack)
        return AckableMessage(data=delivery.element, ack=ack)

    async def _release(self, delivery: Delivery) -> None:
        self._held.pop((delivery.token, delivery.id), None)
        await self._ask("DEHYDRATOR.RELEASE", delivery.key, 0, delivery.token, delivery.id)

    async def _renew(self) -> None:
        """Renews what is in hand, three times in the time of a lease."""
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            for name, (delivery, ack) in list(self._held.items()):
                if ack() is None:
                    # The receiver dropped it: a middleware raised, say. Its lease runs out, and it comes again.
                    log.warning("%s: nobody will acknowledge %r", delivery.key, delivery.id)
                    del self._held[name]
            held = [delivery for delivery, _ in self._held.values()]
            if not held:
                continue
            words = [word for delivery in held for word in (delivery.token, delivery.id)]
            try:
                renewed = await self._ask("DEHYDRATOR.RENEW", self.queue_name, self._lease_ms, *words)
            except Exception as error:
                if not passes(error):
                    log.error("leases could not be renewed: %r", error)
                continue
            for delivery, still in zip(held, renewed, strict=True):
                if not still and self._held.pop((delivery.token, delivery.id), None) is not None:
                    log.warning("%s: %r was cancelled, or its lease ran out", delivery.key, delivery.id)
