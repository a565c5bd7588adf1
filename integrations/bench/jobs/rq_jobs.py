"""RQ. BENCH_URL is the server; BENCH_BROKER selects the queue."""

import os
from datetime import datetime, timezone

import redis
import rq

from note import note
from plan import planned

if __name__ == "__main__":
    if os.environ["BENCH_BROKER"] == "dehydrator":
        from dehydrator_queue.rq import Queue
    else:
        from rq import Queue

    # By default a job whose worker died has failed. With retries it comes again, a minute after its time limit.
    terms = {"retry": rq.Retry(max=3), "job_timeout": 5, "result_ttl": 0}
    queue = Queue(connection=redis.Redis.from_url(os.environ["BENCH_URL"]))
    # By name: workers do not import the definitions of this program.
    name = f"{note.__module__}.note"
    for id, due, seconds in planned():
        if seconds:
            queue.enqueue_at(datetime.fromtimestamp(due, timezone.utc), name, id, due, **terms)
        else:
            queue.enqueue(name, id, due, **terms)
