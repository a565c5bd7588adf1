"""A queue for asyncio: see dehydrator_queue.queue.queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import Any, TypeVar

from dehydrator_queue.aio.schedules import Schedules
from dehydrator_queue.aio.server import Server
from dehydrator_queue.aio.wide.server import WideServer
from dehydrator_queue.durations import Duration
from dehydrator_queue.job import DeadLetter, Item, Put, Waiting
from dehydrator_queue.queue.commands import Question, name_of
from dehydrator_queue.queue.limits import Limits, Rate, limit_words
from dehydrator_queue.queue.opening import Opened
from dehydrator_queue.queue.queue import _entry
from dehydrator_queue.queue.scheduling import Schedule, plan_words
from dehydrator_queue.wide.directory import Keys, check_narrow

T = TypeVar("T")


class Queue(Opened[T]):
    """Puts jobs into a queue, and reads, postpones and cancels them by their ids.

    All commands are resent when the connection breaks, for `patience` seconds, and take effect once, except as
    `put` and `revive` describe. Durations are in seconds, or timedeltas; `at` is a datetime with its time zone, or
    seconds since 1970.
    """

    _parts, _is_asyncio = (Server, WideServer, Schedules), True
    _server: Server
    schedules: Schedules

    async def put(
        self,
        payload: T,
        *,
        id: str | bytes | None = None,
        delay: Duration = 0.0,
        at: datetime | float | None = None,
        replace: bool = False,
        within: Duration | None = None,
        attempts: int | None = None,
        group: str | bytes | None = None,
    ) -> str | None:
        await self._check_narrow()
        drawn, id = id is None, name_of(id)
        with self._hooks.sending(self.name, [id]) as headers:
            question = self._commands.put(
                payload, id, delay, at, replace, headers, within=within, attempts=attempts, group=group, drawn=drawn
            )
            return await self._server.ask(question)

    async def put_many(
        self,
        items: Iterable[Item],
        *,
        replace: bool = False,
        within: Duration | None = None,
        attempts: int | None = None,
        group: str | bytes | None = None,
    ) -> list[Put]:
        await self._check_narrow()
        items = list(items)
        with self._hooks.sending(self.name, [one.id for one in items]) as headers:
            questions = self._commands.put_many(items, replace, headers, within=within, attempts=attempts, group=group)
            return [put for question in questions for put in await self._server.ask(question)]

    async def _check_narrow(self) -> None:
        if not self._is_narrow:
            await self._server.follow(check_narrow(self.name))
            self._is_narrow = True

    async def every(
        self,
        name: str | bytes,
        payload: T,
        *,
        cron: str | None = None,
        zone: str = "UTC",
        seconds: Duration | None = None,
        starting: datetime | float | None = None,
        until: datetime | float | None = None,
        times: int | None = None,
        missed: str = "one",
        overlap: str = "allow",
        jitter: Duration = 0.0,
        attempts: int | None = None,
        within: Duration | None = None,
        group: str | bytes | None = None,
    ) -> Schedule:
        bounds = (starting, until, times, missed, overlap, jitter)
        plan = plan_words(cron, zone, seconds, *bounds, attempts, within, group)
        return await self._server.follow(self._scheduling.every(name, payload, plan))

    async def cancel(self, *ids: str | bytes) -> int:
        return await self._server.ask(self._commands.cancel(ids)) if ids else 0

    async def cancel_all(self, *, group: str | bytes | None = None, prefix: str | bytes | None = None) -> int:
        return await self._server.follow(self._commands.cancel_all(group, prefix))

    async def postpone_all(self, delay: Duration, *, group: str | bytes) -> int:
        return await self._server.follow(self._commands.postpone_all(delay, group))

    async def postpone(self, id: str | bytes, delay: Duration = 0.0, *, at: datetime | float | None = None) -> bool:
        return await self._server.ask(self._commands.postpone(id, delay, at))

    async def look(self, id: str | bytes) -> Waiting | None:
        return await self._server.ask(self._commands.look(id))

    async def update(self, id: str | bytes, payload: T) -> None:
        await self._server.ask(self._commands.update(id, payload))

    async def __aiter__(self) -> AsyncIterator[Waiting]:
        start: Any = "-"
        while start is not None:
            start, rows = await self._server.ask(self._commands.page(start))
            for row in rows:
                yield row

    async def length(self) -> int:
        return await self._server.ask(self._commands.length())

    async def info(self, *, group: str | bytes | None = None) -> dict[str, Any]:
        return await self._server.ask(self._commands.info(group))

    async def limit(
        self,
        *,
        group: str | bytes | None = None,
        rate: Rate | None = None,
        held: int | None = None,
        length: int | None = None,
        remember: Duration | None = None,
        each_rate: Rate | None = None,
        each_held: int | None = None,
        each_length: int | None = None,
        share: int | None = None,
    ) -> None:
        if self.is_wide:
            raise ValueError("a limit is of one key: with `keys`, send DEHYDRATOR.LIMIT to each")
        limits = {"rate": rate, "held": held, "length": length, "remember": remember, "share": share}
        each = {"each_rate": each_rate, "each_held": each_held, "each_length": each_length}
        for words in limit_words(self.name, group, **limits, **each):
            await self._server.ask(Question(words, lambda reply: None))

    async def limits(self, *, group: str | bytes | None = None) -> Limits:
        return Limits.of(await self.info(group=group))

    async def pause(self, duration: Duration | None = None, *, group: str | bytes | None = None) -> None:
        await self._server.ask(self._commands.pause(duration, group))

    async def resume(self, *, group: str | bytes | None = None) -> bool:
        return await self._server.ask(self._commands.resume(group))

    async def dead_letters(self, count: int = 100, *, start: str = "-") -> list[DeadLetter]:
        return await self._server.ask(self._commands.dead_letters(count, start))

    async def revive(self, *letters: DeadLetter | str, count: int = 100, payload: T | None = None) -> int:
        if payload is not None and len(letters) != 1:
            raise ValueError("`payload` is for one letter")
        element = None if payload is None else self._commands.encode(payload)
        return await self._server.follow(self._commands.revive(count, list(map(_entry, letters)), element))

    async def drop(self, *letters: DeadLetter | str) -> int:
        return await self._server.ask(self._commands.drop_letters(list(map(_entry, letters)))) if letters else 0

    async def set_keys(self, keys: Keys) -> list[str]:
        server: WideServer = self._wide()
        return await server.plain.follow(server.router.directory.set_keys(keys))

    async def forget_keys(self) -> int:
        server: WideServer = self._wide()
        return await server.plain.follow(server.router.directory.forget_keys())

    async def check(self) -> None:
        await self._server.check(self.name)

    async def close(self) -> None:
        if self._url is not None:
            await self._server.client.aclose()  # type: ignore[attr-defined]

    async def __aenter__(self) -> Queue[T]:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()
