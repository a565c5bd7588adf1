"""What tells a worker of asyncio at once that a job was cancelled: see dehydrator_queue.worker.cancellations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from dehydrator_queue.job import id_bytes, id_text
from dehydrator_queue.queue.library import passes
from dehydrator_queue.worker.cancellations import AGAIN, WAIT, channels, log


async def tell(client: Any, keys: Iterable[str], hear: Callable[[str, bytes], Awaitable[Any]]) -> None:
    """Awaits `hear` with the key and the id of each job that is cancelled, until the task is cancelled."""
    some = channels(client, keys)
    while some:
        try:
            async with client.pubsub(ignore_subscribe_messages=True) as pubsub:
                await pubsub.subscribe(*some)
                while True:
                    if (message := await pubsub.get_message(timeout=WAIT)) is not None:
                        await hear(some[id_text(message["channel"])], id_bytes(message["data"]))
        except Exception as error:
            if not passes(error):
                log.info("cancelled jobs are told at the next renewal: %s", error)
                return
        await asyncio.sleep(AGAIN)
