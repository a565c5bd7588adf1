"""A server in memory, whose clock the test sets."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dehydrator_queue.options import Duration, milliseconds, unix_milliseconds
from dehydrator_queue.testing.arguments import word
from dehydrator_queue.testing.commands import Commands
from dehydrator_queue.testing.elements import Blocks

if TYPE_CHECKING:
    from dehydrator_queue.aio.worker import Worker as AsyncWorker
    from dehydrator_queue.worker.worker import Worker


class MemoryServer:
    """Takes the place of a client: `Queue(memory, "jobs")`, and with asyncio `Queue(memory.aio, "jobs")`.

    Its replies are those of the server, for all that a Queue and a Worker send. Its time passes by `advance` alone; but
    a worker that finds nothing due waits in real time, for its `block`. Safe for many threads.
    """

    def __init__(self, now: datetime | float | None = None) -> None:
        """`now`: the time at the beginning, by default the real time."""
        self._now = unix_milliseconds("now", time.time() if now is None else now)
        self._commands = Commands()
        self._lock = threading.Lock()
        self._waiting: set[Callable[[], None]] = set()
        #: Stops the worker of `drain`, and the tokens that it got.
        self._stop: Callable[[], None] | None = None
        self._tokens: set[bytes] = set()
        self.aio = AsyncClient(self)

    @property
    def now(self) -> float:
        """The time, in seconds since 1970."""
        return self._now / 1000

    def advance(self, duration: Duration) -> None:
        """Sets the clock forward: delays pass, and leases expire."""
        with self._lock:
            self._now += milliseconds("duration", duration)
            self._commands.pass_time(self._now)
            self._wake()

    def drain(self, worker: Worker) -> None:
        """Runs a worker until nothing is given out and its work has ended. What it gives back waits for `advance`."""
        self._begin(worker)
        try:
            worker.run(signals=False)
        finally:
            self._stop = None

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """Runs a command, and returns its reply. A POLL blocks until something is due, or its time is over."""
        changed, end = threading.Event(), None
        while True:
            reply = self._call(words, changed.set)
            if not isinstance(reply, Blocks):
                return reply
            end = end or _end_of(reply)
            arrived = changed.wait(min(end - time.monotonic(), threading.TIMEOUT_MAX))
            self._waiting.discard(changed.set)
            if not arrived:
                return reply.nothing
            changed.clear()

    def _begin(self, worker: Worker | AsyncWorker) -> None:
        if self._stop is not None:
            raise RuntimeError("another worker is being drained")
        self._stop, self._tokens = worker.stop, set()

    def _call(self, words: tuple[Any, ...], wake: Callable[[], None]) -> Any:
        """Runs a command. If it blocks, `wake` is called when something has changed."""
        with self._lock:
            reply = self._commands.call(words, self._now)
            if not isinstance(reply, Blocks):
                if self._stop is not None and "TOKEN" in words:
                    self._tokens.add(word(words[words.index("TOKEN") + 1]))
                self._wake()
            elif self._stop is not None and self._is_drained(set(reply.keys)):
                self._stop()
                return reply.nothing
            else:
                self._waiting.add(wake)
            return reply

    def _is_drained(self, keys: set[bytes]) -> bool:
        return not self._commands.holds(keys, self._tokens) and not self._commands.has_due(keys)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for wake in waiting:
            wake()


class AsyncClient:
    """The same server, for asyncio."""

    def __init__(self, memory: MemoryServer) -> None:
        self._memory = memory

    async def drain(self, worker: AsyncWorker) -> None:
        """Runs a worker until nothing is given out and its work has ended. What it gives back waits for `advance`."""
        self._memory._begin(worker)
        try:
            await worker.run(signals=False)
        finally:
            self._memory._stop = None

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        """Runs a command, and returns its reply. A POLL blocks until something is due, or its time is over."""
        loop, changed, end = asyncio.get_running_loop(), asyncio.Event(), None

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        while True:
            reply = self._memory._call(words, wake)
            if not isinstance(reply, Blocks):
                return reply
            end = end or _end_of(reply)
            try:
                await asyncio.wait_for(changed.wait(), end - time.monotonic())
            except asyncio.TimeoutError:
                return reply.nothing
            finally:
                self._memory._waiting.discard(wake)
            changed.clear()


def _end_of(blocks: Blocks) -> float:
    """Returns when the block ends, on the monotonic clock. 0 ms: never."""
    return time.monotonic() + (blocks.ms / 1000 or 1e9)
