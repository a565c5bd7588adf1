"""The ids of a framework's messages, which are found by the id of their task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dehydrator_queue.queue.commands import Flow, Question, as_bytes, pairs

#: A task can have several messages at a time: one with a worker, and a waiting retry.
NAMES_OF_ONE = 3


def names_of_task(task_id: str) -> list[str]:
    """Returns the ids that messages of a task can have."""
    return [task_id, *(f"{task_id}:{n}" for n in range(1, NAMES_OF_ONE))]


def names_of_message(task_id: Any, unique: str) -> Iterator[str]:
    """Yields the ids that a message can have, in the order of attempts. The last one, `unique`, is free."""
    if isinstance(task_id, str) and task_id:
        yield from names_of_task(task_id)
    yield unique


def take(key: str, *names: str | bytes) -> Flow[list[bytes]]:
    """Takes elements that no worker has, by their ids. One that a worker gets in that moment is taken from it."""
    taken = []
    for name in names:
        told = yield Question(("DEHYDRATOR.LOOK", key, name, "FULL"), lambda reply: pairs(reply or []))
        if told and not told["leased"]:
            element = yield Question(("DEHYDRATOR.PULL", key, name), lambda reply: reply)
            taken += [] if element is None else [as_bytes(element)]
    return taken


def push_words(
    key: str,
    delay_ms: int,
    element: bytes,
    name: str,
    within_ms: int | None = None,
    group: str | None = None,
) -> tuple[Any, ...]:
    """`within_ms`: a message that no worker has got in that time after it was due is dropped. `group`: messages of
    several groups are delivered in turns.
    """
    within = () if within_ms is None else ("WITHIN", within_ms)
    of = () if group is None else ("GROUP", group)
    return ("DEHYDRATOR.PUSH", key, delay_ms, element, name, "NX", *within, *of)


def look_words(key: str, name: str) -> tuple[Any, ...]:
    """Reads the element of an id that exists. If the library has sent a PUSH twice, it is the same element."""
    return ("DEHYDRATOR.LOOK", key, name)
