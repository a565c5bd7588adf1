"""The ids under which a framework's messages wait: by the id of a task its message is found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: A task may have several messages at a time: one in hand, and its retry that waits.
NAMES_OF_ONE = 3


def names_of_task(task_id: str) -> list[str]:
    """Returns where messages of a task are looked for."""
    return [task_id, *(f"{task_id}:{n}" for n in range(1, NAMES_OF_ONE))]


def names_of_message(task_id: Any, unique: str) -> Iterator[str]:
    """Yields the ids that a message may have, in the order in which they are tried. The last one, `unique`, is free."""
    if isinstance(task_id, str) and task_id:
        yield from names_of_task(task_id)
    yield unique


#: Takes what no worker has, by its ids, and replies the elements. A message that is worked on is not there to be taken.
TAKE = """
local taken = {}
for _, id in ipairs(ARGV) do
    local told, leased = redis.call('DEHYDRATOR.LOOK', KEYS[1], id, 'FULL') or {}, 1
    for i = 1, #told, 2 do
        if told[i] == 'leased' then leased = told[i + 1] end
    end
    if leased == 0 then taken[#taken + 1] = redis.call('DEHYDRATOR.PULL', KEYS[1], id) end
end
return taken
"""


def take_words(key: str, *names: str) -> tuple[Any, ...]:
    return ("EVAL", TAKE, 1, key, *names)


def push_words(key: str, delay_ms: int, element: bytes, name: str) -> tuple[Any, ...]:
    return ("DEHYDRATOR.PUSH", key, delay_ms, element, name, "NX")


def look_words(key: str, name: str) -> tuple[Any, ...]:
    """Asks what is under a name that was taken. The library may have sent a PUSH twice: then it is that very one."""
    return ("DEHYDRATOR.LOOK", key, name)
