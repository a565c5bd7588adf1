"""Delayed jobs for RQ: they wait in a dehydrator, which moves them to the list on which RQ's workers block.

A job of RQ is a hash, and a queue of RQ is a list of ids. So only the id waits in the dehydrator (ONDUE LIST), and it is
in the queue to the millisecond. No scheduler runs, and workers need no change. PULL cancels a job. If a worker dies
during a job, RQ handles that as usual.

Prints:

    the worker: send mail 17
    the worker: send mail 18
    cancelled: send mail 19
    the worker: send mail 20
    nothing came early, nothing is left
"""

import os
import subprocess
import sys
import time

import redis
from rq import Queue, Worker
from rq.job import Job, JobStatus

URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
QUEUE = "demo:mail"
WORKER = "demo:worker"
# In a cluster, the list must be in the same slot: its key is in the braces.
LATER = "{rq:queue:demo:mail}:later"


def set_up(server):
    queue = Queue(QUEUE, connection=server)
    server.execute_command("DEHYDRATOR.ONDUE", LATER, "LIST", queue.key)
    return queue


def enqueue_in(server, queue, delay_ms, function, *args):
    """Like Queue.enqueue_in, but to the millisecond."""
    job = Job.create(function, args, connection=server, origin=queue.name, status=JobStatus.QUEUED, result_ttl=0)
    with server.pipeline() as transaction:
        # Workers and dashboards find the queue in this set.
        transaction.sadd(Queue.redis_queues_keys, queue.key)
        job.save(pipeline=transaction)
        transaction.execute_command("DEHYDRATOR.PUSH", LATER, delay_ms, job.id, job.id)
        transaction.execute()
    return job


def cancel(server, job):
    """Returns False if the job is in the queue already, or done."""
    was_waiting = server.execute_command("DEHYDRATOR.PULL", LATER, job.id) is not None
    if was_waiting:
        job.delete()
    return was_waiting


def main():
    server = redis.Redis.from_url(URL)
    server.delete(LATER)
    queue = set_up(server)
    rq = os.path.join(os.path.dirname(sys.executable), "rq")
    command = [rq, "worker", "--quiet", "--url", URL, "--name", WORKER, "--max-jobs", "3", QUEUE]
    worker = subprocess.Popen(command, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    while Worker.count(queue=queue) == 0:
        time.sleep(0.01)

    started = time.monotonic()
    delays = {20: 1600, 19: 60_000, 18: 800, 17: 400}
    jobs = {
        number: enqueue_in(server, queue, delay, "builtins.print", f"the worker: send mail {number}")
        for number, delay in delays.items()
    }
    # RQ removes a job that is done, because its result_ttl is 0.
    while Job.exists(jobs[18].id, connection=server):
        time.sleep(0.01)
    assert time.monotonic() - started >= 0.8, "it came early"
    if cancel(server, jobs[19]):
        print("cancelled: send mail 19", flush=True)
    worker.wait()
    assert time.monotonic() - started >= 1.6, "it came early"
    assert server.execute_command("DEHYDRATOR.LEN", LATER) == queue.count == 0
    print("nothing came early, nothing is left")

    server.delete(LATER, f"rq:worker:{WORKER}")
    queue.delete()


if __name__ == "__main__":
    main()
