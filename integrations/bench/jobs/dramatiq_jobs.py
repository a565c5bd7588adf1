"""Dramatiq. BENCH_URL is the address of the broker; BENCH_BROKER selects it."""

import math
import os

import dramatiq

from note import note as noted
from plan import planned

url, seconds = os.environ["BENCH_URL"], float(os.environ["BENCH_VISIBILITY"])
if os.environ["BENCH_BROKER"] == "dehydrator":
    from dehydrator_queue.dramatiq import DehydratorBroker

    broker = DehydratorBroker(url=url, lease=seconds)
else:
    from dramatiq.brokers.redis import RedisBroker

    # By default work of a worker that died is looked for after a minute, and by one command of a thousand.
    broker = RedisBroker(url=url, heartbeat_timeout=int(seconds * 1000), maintenance_chance=100_000)
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=10)
def note(id: str, due: float) -> None:
    noted(id, due)


if __name__ == "__main__":
    for id, due, seconds in planned():
        note.send_with_options(args=(id, due), delay=math.ceil(seconds * 1000) or None)
