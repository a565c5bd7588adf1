"""RQ's worker that leases its jobs, for as long as jobs of dead workers are away with the other frameworks."""

import os

from dehydrator_queue.rq import SimpleWorker


class Worker(SimpleWorker):
    lease = float(os.environ["BENCH_VISIBILITY"])
