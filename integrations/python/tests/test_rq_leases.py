"""What an RQ worker has when it is killed comes again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import redis
import rq
import rq_jobs
from servers import RealServer, wait_until
from test_rq import done, start, stop, working

from dehydrator_queue.rq import Queue
from dehydrator_queue.rq.leases import TAKE, Leasing

CAUTIOUS, QUICK, SIMPLE = "rq_jobs.CautiousWorker", "rq_jobs.QuickWorker", "rq_jobs.QuickSimpleWorker"
LIST, HELD = "rq:queue:default", "rq:queue:default:held"


@pytest.fixture
def queue(server: RealServer) -> Queue:
    return Queue(connection=redis.Redis(port=server.port))


class Mortal(Leasing, rq.Worker):
    """A worker within a test, that a test lets die."""

    queue_class = Queue
    lease = 3.0


@pytest.fixture
def begin(server: RealServer) -> Iterator[Callable[..., Mortal]]:
    workers = []

    def begin(*queues: Queue) -> Mortal:
        worker = Mortal(queues, connection=redis.Redis(port=server.port))
        worker.bootstrap()
        workers.append(worker)
        return worker

    yield begin
    for worker in workers:
        worker.pubsub_thread.stop()
        worker._hand.close(give_back=False)


def take(worker: Any) -> tuple[str, str] | None:
    """Returns the ids of a job and its queue."""
    found = worker.dequeue_job_and_maintain_ttl(None)
    return found and (found[0].id, found[1].name)


def held(queue: Queue) -> int:
    return int(queue.connection.execute_command("DEHYDRATOR.LEN", f"{queue.key}:held"))


def end(worker: Any) -> None:
    """Lets a worker be done with its job, as in RQ's transaction."""
    job = worker.job_class.fetch(worker._hand.job_id, worker.connection)
    with worker.connection.pipeline() as pipeline:
        worker.cleanup_execution(job, pipeline)
        pipeline.execute()
    worker._hand.drop()


def die(worker: Any, job: Any = None) -> None:
    """Lets a worker die, when its horse has begun with the job."""
    if job is not None:
        worker.prepare_execution(job)
        worker.prepare_job_execution(job)
    worker._hand.drop()


def horses(process: Any) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def kill(process: Any) -> None:
    """Kills a worker and its horse."""
    for pid in (process.pid, *horses(process)):
        os.kill(pid, signal.SIGKILL)
    process.wait()


def test_the_job_of_a_killed_worker_comes_again(server: RealServer, queue: Queue) -> None:
    queue.enqueue(rq_jobs.work, 5, job_id="a")
    process = start(server, QUICK)
    wait_until(lambda: len(done(server)) == 1)
    kill(process)
    assert (queue.count, len(queue.started_job_registry)) == (0, 1)
    wait_until(lambda: queue.count == 1)
    with working(server, QUICK):
        wait_until(lambda: "ended" in str(done(server)))
        wait_until(lambda: queue.fetch_job("a").get_status() == "finished")
    assert [what for _, what, _ in done(server)] == ["began", "began", "ended"]
    assert (queue.count, len(queue.started_job_registry), queue.finished_job_registry.get_job_ids()) == (0, 0, ["a"])
    assert (len(queue.failed_job_registry), held(queue)) == (0, 0)
    assert queue.connection.keys("rq:execution*") == []


@pytest.mark.slow
def test_a_job_that_kills_its_workers_fails(server: RealServer, queue: Queue) -> None:
    queue.enqueue(rq_jobs.kill_worker, job_id="killer")
    for _ in range(2):
        start(server, CAUTIOUS).wait()
    with working(server, CAUTIOUS):
        wait_until(lambda: queue.fetch_job("killer").get_status() == "failed")
    assert len(done(server)) == 2
    assert "2 workers died" in queue.fetch_job("killer").latest_result().exc_string
    assert (len(queue.started_job_registry), queue.failed_job_registry.get_job_ids(), held(queue)) == (0, ["killer"], 0)


def test_jobs_that_rq_has_scheduled_are_run_after_the_switch(server: RealServer, queue: Queue) -> None:
    own = rq.Queue(connection=queue.connection)
    due = time.time() + 1
    own.enqueue_at(datetime.fromtimestamp(due, timezone.utc), rq_jobs.note, due, job_id="own")
    queue.enqueue_at(datetime.fromtimestamp(due, timezone.utc), rq_jobs.note, due, job_id="ours")
    process = start(server, SIMPLE, "--with-scheduler", "default")
    wait_until(lambda: len(done(server)) == 2)
    process.terminate()
    process.wait(60)
    assert sorted(id for id, _ in done(server)) == ["ours", "own"]
    assert own.scheduled_job_registry.count == 0


def test_what_waits_and_what_a_killed_worker_held_is_run_after_the_switch_back(
    server: RealServer, queue: Queue
) -> None:
    queue.enqueue(rq_jobs.work, 0.5, job_id="held")
    process = start(server, QUICK)
    wait_until(lambda: len(done(server)) == 1)
    queue.enqueue_in(timedelta(seconds=1), rq_jobs.work, 0, job_id="waits")
    kill(process)
    own = ("--worker-class", "rq.SimpleWorker", "--queue-class", "rq.Queue", "--job-class", "rq.job.Job", "default")
    process = start(server, QUICK, *own)
    wait_until(lambda: len(done(server)) == 5)
    process.terminate()
    process.wait(60)
    assert Counter(id for id, what, _ in done(server) if what == "ended") == {"held": 1, "waits": 1}


def test_whoever_takes_it_then_is_a_worker_of_either_class(queue: Queue, begin: Any) -> None:
    for id in "abc":
        queue.enqueue(rq_jobs.note, 0, job_id=id)
    first, second = begin(queue), begin(queue)
    assert [take(one) for one in (first, second)] == [("a", "default"), ("b", "default")]
    die(first)
    die(second)
    # To the front, the last one first.
    wait_until(lambda: queue.count == 3)
    assert held(queue) == 0
    assert rq.Queue.dequeue_any([queue], None, queue.connection)[0].id in "ab"


def test_a_worker_waits_for_several_queues_and_takes_from_the_first(queue: Queue, begin: Any) -> None:
    low = Queue("low", connection=queue.connection)
    worker = begin(queue, low)
    for one, id in ((low, "a"), (queue, "b"), (low, "c")):
        threading.Timer(0.1, one.enqueue, (rq_jobs.note, 0), {"job_id": id}).start()
        began = time.monotonic()
        job, where = worker.dequeue_job_and_maintain_ttl(120)
        assert (job.id, where.name) == (id, one.name)
        # Sooner than the wait ends by itself.
        assert time.monotonic() - began < 60
        end(worker)
    for one, id in ((low, "d"), (queue, "e")):
        one.enqueue(rq_jobs.note, 0, job_id=id)
    for expected in (("e", "default"), ("d", "low")):
        assert take(worker) == expected
        end(worker)
    assert take(worker) is None
    with pytest.raises(rq.exceptions.DequeueTimeout):
        worker.queue_class.dequeue_any([queue, low], 0.2, worker.connection)


def test_what_was_not_begun_is_not_held_any_more(queue: Queue, begin: Any) -> None:
    """A job that was deleted, or cancelled, and one whose worker stops."""
    for id in "abc":
        queue.enqueue(rq_jobs.note, 0, job_id=id)
    rq.job.Job.fetch("a", connection=queue.connection).cancel()
    queue.connection.lpush(LIST, "a")
    queue.connection.delete("rq:job:b")
    worker = begin(queue)
    assert (take(worker), held(queue)) == (("c", "default"), 1)
    worker.teardown()
    wait_until(lambda: (queue.job_ids, held(queue)) == (["c"], 0))


def test_a_lost_reply_comes_again(queue: Queue, begin: Any) -> None:
    for id in "ab":
        queue.enqueue(rq_jobs.note, 0, job_id=id)
    ask = [queue.connection.register_script(TAKE)(keys=[LIST, HELD], args=["token", 60_000]) for _ in range(2)]
    assert ask == [[LIST.encode(), b"a"]] * 2
    worker = begin(queue)
    worker._hand._token = "token"
    # It stops before it has read the reply.
    worker._hand._keys = [HELD]
    worker.teardown()
    wait_until(lambda: queue.job_ids == ["a", "b"])


def test_nothing_is_lost_when_a_connection_breaks(server: RealServer, queue: Queue, begin: Any) -> None:
    queue.enqueue(rq_jobs.note, 0, job_id="a")
    worker = begin(queue)
    # It breaks before RQ has read the job.
    assert worker._hand.take([LIST], None) == (LIST, "a")
    assert take(worker) == ("a", "default")
    end(worker)
    # And while it waits.
    threading.Timer(0.2, server.client.execute_command, ("CLIENT", "KILL", "TYPE", "normal")).start()
    threading.Timer(0.4, queue.enqueue, (rq_jobs.note, 0), {"job_id": "b"}).start()
    assert worker.dequeue_job_and_maintain_ttl(120)[0].id == "b"
    assert held(queue) == 1


def test_a_job_that_came_again_is_not_abandoned(queue: Queue, begin: Any) -> None:
    queue.enqueue(rq_jobs.note, 0, job_id="a")
    for deaths in range(2):
        worker = begin(queue)
        job, _ = worker.dequeue_job_and_maintain_ttl(None)
        assert worker._count_deaths(job) == deaths
        worker._deaths = deaths
        die(worker, job)
        registry = queue.started_job_registry.key
        [execution] = queue.connection.zrange(registry, 0, -1)
        wait_until(lambda: queue.job_ids == ["a"])
        if deaths:
            queue.connection.zadd(registry, {execution: 1})
            begin(queue).clean_registries()
            assert (queue.connection.zcard(registry), len(queue.failed_job_registry)) == (0, 0)


def test_a_lease_is_renewed(queue: Queue, begin: Any) -> None:
    queue.enqueue(rq_jobs.note, 0, job_id="a")
    worker = begin(queue)
    assert take(worker) == ("a", "default")
    time.sleep(2 * Mortal.lease)
    assert (held(queue), queue.count) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SIMPLE, QUICK])
def test_a_job_longer_than_its_lease_runs_once(server: RealServer, queue: Queue, kind: str) -> None:
    queue.enqueue(rq_jobs.work, 6, job_id="a")
    with working(server, kind):
        wait_until(lambda: "ended" in str(done(server)))
        wait_until(lambda: held(queue) == 0)
    assert (len(done(server)), queue.count) == (2, 0)


@pytest.mark.slow
def test_a_worker_that_stops_at_once_gives_its_job_back(server: RealServer, queue: Queue) -> None:
    queue.enqueue(rq_jobs.work, 600, job_id="a")
    queue.enqueue(rq_jobs.work, 600, job_id="b")
    process = start(server, "dehydrator_queue.rq.Worker")
    wait_until(lambda: done(server))
    process.send_signal(signal.SIGTERM)
    time.sleep(1.2)
    process.send_signal(signal.SIGTERM)
    process.wait(240)
    wait_until(lambda: queue.job_ids == ["a", "b"])
    assert (queue.fetch_job("a").get_status(), len(queue.started_job_registry)) == ("queued", 0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_none_is_lost_when_workers_are_killed(server: RealServer, queue: Queue) -> None:
    """Kills workers with their horses."""
    low = Queue("low", connection=queue.connection)
    queues, count, kills = (queue, low), 600, 20
    for number in range(count):
        queues[number % 2].enqueue(rq_jobs.work, 0.1, job_id=str(number))
    workers = [start(server, QUICK, "default", "low") for _ in range(5)]
    killed = 0
    try:
        while sum(len(one.finished_job_registry) for one in queues) < count:
            time.sleep(1)
            victim = next((one for one in workers if horses(one)), None)
            if victim is not None and killed < kills:
                kill(victim)
                killed += 1
                workers.remove(victim)
                workers.append(start(server, QUICK, "default", "low"))
        for worker in workers:
            stop(worker)
    finally:
        for worker in workers:
            worker.kill()
    runs = Counter(id for id, what, _ in done(server) if what == "began")
    print(f"{killed} kills, {sum(times > 1 for times in runs.values())} jobs ran again")
    assert (len(runs), killed) == (count, kills)
    for one in queues:
        assert (one.count, held(one), len(one.started_job_registry), len(one.failed_job_registry)) == (0, 0, 0, 0)
        assert {one.fetch_job(id).get_status() for id in one.finished_job_registry.get_job_ids()} == {"finished"}
    assert queue.connection.keys("rq:execution*") == []
