"""taskiq. BENCH_URL is the address of the broker; BENCH_BROKER selects it."""

import asyncio
import math
import os
from datetime import datetime, timezone
from itertools import islice

from taskiq import TaskiqScheduler

from note import note_async
from plan import planned

#: How many are sent at once: fewer than taskiq-redis has connections.
AT_ONCE = 40

#: Seconds for a connection.
LONGEST_WAIT = 600

url, seconds = os.environ["BENCH_URL"], float(os.environ["BENCH_VISIBILITY"])
is_ours = os.environ["BENCH_BROKER"] == "dehydrator"
if is_ours:
    from dehydrator_queue.taskiq import DehydratorBroker

    broker = DehydratorBroker(url, lease=seconds)
else:
    from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

    # By default work of a worker that died comes again after ten minutes, a lock that it had is never free again, and
    # what the scheduler sends is dropped if it waits for a connection for 20 seconds.
    broker = RedisStreamBroker(
        url, idle_timeout=int(seconds * 1000), unacknowledged_lock_timeout=seconds, timeout=LONGEST_WAIT
    )
    source = ListRedisScheduleSource(url, timeout=LONGEST_WAIT)
    scheduler = TaskiqScheduler(broker, [source])


@broker.task(task_name="note")
async def note(id: str, due: float) -> None:
    await note_async(id, due)


async def send(id: str, due: float, seconds: float) -> None:
    if not seconds:
        await note.kiq(id, due)
    elif is_ours:
        await note.kicker().with_labels(delay_seconds=math.ceil(seconds * 1000) / 1000).kiq(id, due)
    else:
        await note.schedule_by_time(source, datetime.fromtimestamp(due, timezone.utc), id, due)


async def main() -> None:
    await broker.startup()
    jobs = planned()
    while some := list(islice(jobs, AT_ONCE)):
        await asyncio.gather(*(send(*job) for job in some))
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
