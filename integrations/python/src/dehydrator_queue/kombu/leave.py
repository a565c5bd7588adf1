"""The way back to kombu's own transport for Redis, whose queues are lists.

python -c 'from shop import app; from dehydrator_queue.kombu.leave import leave; print(leave(app))'
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis as base

from dehydrator_queue.kombu.cluster.transport import REST
from dehydrator_queue.queue.commands import BATCH


def leave(app: Any, *queues: str) -> int:
    """Moves messages that no worker has, due or not, to the lists; returns how many.

    `queues`: by default those of the application. Nothing is lost or there twice if it is killed, or a worker gets a
    message meanwhile. The workers of the lists wait for what is not due in their memory.
    """
    with app.connection_for_write() as connection:
        if str(connection.hostname or "").startswith(REST):
            raise ValueError("kombu has no transport of its own for a cluster")
        transport = "SentinelTransport" if "sentinel" in str(connection.transport_cls).lower() else "Transport"
        connection.transport_cls = f"dehydrator_queue.kombu:{transport}"
        channel = connection.default_channel
        steps = channel.priority_steps
        return sum(_move(channel, queue, pri) for queue in queues or app.amqp.queues for pri in steps)


def _move(channel: Any, queue: str, pri: int) -> int:
    # The client adds the global prefix to the keys of its own commands.
    source, target = channel._q_for_pri(queue, pri), base.Channel._q_for_pri(channel, queue, pri)
    key, moved, start = channel._key(queue, pri), 0, "-"

    def move_some(pipeline: Any) -> tuple[int, Any]:
        words = ("DEHYDRATOR.RANGE", key, start, "+", "COUNT", BATCH, "WITHELEMENTS")
        following, rows = pipeline.execute_command(*words)
        free = [row for row in rows if not row[4]]
        pipeline.multi()
        if free:
            pipeline.execute_command("DEHYDRATOR.REM", key, *(row[0] for row in free))
            pipeline.lpush(target, *(row[-1] for row in free))
        return len(free), following

    with channel.conn_or_acquire() as client:
        while start is not None:
            count, start = client.transaction(move_some, source, value_from_callable=True)
            moved += count
    return moved
