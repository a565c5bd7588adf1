"""What tells a worker of asyncio at once that a job was cancelled: see dehydrator_queue.worker.cancellations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from dehydrator_queue.queue.library import is_cluster
from dehydrator_queue.worker.cancellations import AGAIN, WAIT, Listening, groups, is_final
from dehydrator_queue.worker.threads import SLICE


async def tell(client: Any, keys: Callable[[], Iterable[str]], hear: Callable[[str, bytes], Awaitable[Any]]) -> None:
    """Awaits `hear` with the key and the id of each job that is cancelled, until the task is cancelled.

    `keys`: returns the keys of the worker, of which there may be more later.
    """
    tasks: dict[int, asyncio.Task[None]] = {}
    try:
        while not any(task.done() for task in tasks.values()):
            for slot in groups(client, keys()).keys() - tasks.keys():
                tasks[slot] = asyncio.create_task(_listen(client, keys, hear, slot))
            await asyncio.sleep(AGAIN)
    finally:
        # The library loses a cancellation at times: see dehydrator_queue.aio.server.
        while left := {task for task in tasks.values() if not task.done()}:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=SLICE)


async def _listen(client: Any, keys: Any, hear: Any, slot: int) -> None:
    while True:
        try:
            await _listen_once(client, keys, hear, slot)
        except Exception as error:
            if is_final(error):
                return
            with suppress(Exception):
                if is_cluster(client):
                    await client.nodes_manager.initialize()
        await asyncio.sleep(AGAIN)


async def _listen_once(client: Any, keys: Any, hear: Any, slot: int) -> None:
    if is_cluster(client):
        await client.initialize()
        place = client.get_node_from_key(next(iter(groups(client, keys())[slot])))
    else:
        place = client.connection_pool
    connection = place.connection_class(**place.connection_kwargs)
    listening = Listening(client)
    try:
        await connection.connect()
        while True:
            for words in listening.words(groups(client, keys())[slot]):
                await connection.send_command(*words)
            row = await connection.read_response(disable_decoding=True, timeout=WAIT, push_request=True)
            if row is not None and (told := listening.heard(row)) is not None:
                await hear(*told)
    finally:
        await connection.disconnect(nowait=True)
