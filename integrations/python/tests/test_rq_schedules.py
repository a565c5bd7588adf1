"""Schedules of RQ's queues."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pytest
import redis
import rq
import rq_jobs
from servers import RealServer, wait_until
from test_rq import done, start, stop, working

from dehydrator_queue.job import Delivery
from dehydrator_queue.rq import Job, Queue, SimpleWorker, Worker

FORKING, SIMPLE = "dehydrator_queue.rq.Worker", "dehydrator_queue.rq.SimpleWorker"


@pytest.fixture
def queue(server: RealServer) -> Queue:
    return Queue(connection=redis.Redis(port=server.port))


def moments(ids: Any, name: str) -> list[int]:
    return sorted(int(id.removeprefix(f"{name}-")) for id in ids)


def test_workers_serve_the_schedules_of_their_queues(server: RealServer, queue: Queue) -> None:
    first = queue.every("note", rq_jobs.note, 0, seconds=0.1, missed="all")
    others = [SimpleWorker([queue], connection=queue.connection) for _ in range(2)]
    for one in others:
        one.bootstrap()
    with working(server, FORKING):
        wait_until(lambda: len(done(server)) > 10)
        queue.schedules.pause("note")
        wait_until(lambda: queue.count == 0)
    for one in others:
        one.teardown()
    ran = moments((id for id, _ in done(server)), "note")
    begin = round(first.next.timestamp() * 1000)
    # Each occurrence once, and none early.
    assert ran == list(range(begin, begin + 100 * len(ran), 100))
    assert all(float(at) * 1000 >= int(id.removeprefix("note-")) for id, at in done(server))


def test_an_occurrence_that_two_workers_have_is_one_job(queue: Queue) -> None:
    job = queue.create_job(rq_jobs.note, [0])
    delivery = Delivery(queue.scheduling.key, b"note@1900000000000", queue.scheduling._encode_job(job), 1, "token")
    for _ in range(2):
        queue.scheduling.put(delivery)
    assert queue.job_ids == ["note-1900000000000"]


def test_a_job_is_put_though_the_connection_breaks_before_it_is(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    other, enqueue = redis.Redis(port=queue.connection.connection_pool.connection_kwargs["port"]), queue.enqueue_job
    broken: list[int] = []

    def enqueue_job(*args: Any, **options: Any) -> Any:
        if not broken:
            broken.append(other.client_kill_filter(_type="normal", skipme=True))
        return enqueue(*args, **options)

    monkeypatch.setattr(queue, "enqueue_job", enqueue_job)
    job = queue.create_job(rq_jobs.note, [0])
    element = queue.scheduling._encode_job(job)
    queue.scheduling.put(Delivery(queue.scheduling.key, b"note@1900000000000", element, 1, "token"))
    assert broken[0] > 0
    assert queue.job_ids == ["note-1900000000000"]


def serve(queue: Queue) -> Job:
    """Has a worker serve the schedules, and returns the job that it puts."""
    worker = SimpleWorker([queue], connection=queue.connection)
    worker.bootstrap()
    wait_until(lambda: queue.count)
    worker.teardown()
    return queue.jobs[0]


def test_a_job_is_what_rq_itself_would_enqueue(queue: Queue) -> None:
    options: Any = {"job_timeout": 7, "result_ttl": 8, "ttl": 900, "meta": {"of": "anna"}, "description": "a note"}
    options |= {"retry": rq.Retry(2, [5]), "on_success": rq.Callback(print)}
    own = queue.enqueue(rq_jobs.note, 3, fail=1, **options)
    queue.empty()
    queue.every("note", rq_jobs.note, 3, fail=1, seconds=0.1, times=1, **options)
    job = serve(queue)
    different = {"created_at", "enqueued_at"}
    assert {k: v for k, v in job.to_dict().items() if k not in different} == {
        k: v for k, v in own.to_dict().items() if k not in different
    }
    assert (job.args, job.kwargs, job.timeout, job.get_status()) == ((3,), {"fail": 1}, 7, "queued")
    assert 800 < queue.connection.ttl(job.key) <= 900
    assert Queue.all(queue.connection) == [queue]


def test_a_schedule_may_go_to_the_front(queue: Queue) -> None:
    queue.enqueue(rq_jobs.note, 0)
    queue.every("note", rq_jobs.note, 0, seconds=0.1, times=1, at_front=True)
    worker = SimpleWorker([queue], connection=queue.connection)
    worker.bootstrap()
    wait_until(lambda: queue.count == 2)
    worker.teardown()
    assert queue.job_ids[0].startswith("note-")


def test_a_deployment_says_it_again_and_schedules_are_listed_paused_and_run(queue: Queue) -> None:
    said = {"cron": "0 9 * * 1-5", "zone": "Europe/Berlin", "until": 1_999_999_999}
    first = queue.every("note", rq_jobs.note, 1, **said)
    key = queue.scheduling.key
    assert (key, first.cron) == ("rq:queue:default:schedules", "0 9 * * 1-5")
    time.sleep(0.01)
    Queue(connection=queue.connection).every("note", rq_jobs.note, 1, **said)
    assert [one.payload.args for one in queue.schedules] == [(1,)]
    queue.every("note", rq_jobs.note, 2, **said)
    assert [one.payload.args for one in queue.schedules] == [(2,)]
    assert queue.schedules.pause("note")
    assert queue.schedules.run("note")
    assert serve(queue).args == (2,)
    assert queue.schedules.get("note").paused
    assert queue.schedules.remove("note")


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("my note", {}, "letters, numbers"),
        ("note", {"depends_on": "a", "unique": True}, "no depends_on and no unique"),
        ("note", {"seconds": None}, "`cron` or `seconds`"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(queue: Queue, name: str, wrong: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        queue.every(name, rq_jobs.note, 0, **{"seconds": 1, **wrong})


def test_a_worker_of_other_queues_says_so(queue: Queue) -> None:
    with pytest.raises(TypeError, match="--queue-class"):
        Worker([rq.Queue(connection=queue.connection)], connection=queue.connection, queue_class=rq.Queue).bootstrap()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_and_the_server_are_killed_and_no_occurrence_is_left_out(own_server: RealServer) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    draw = random.Random(seed)
    queue = Queue(connection=redis.Redis(port=own_server.port))
    begins = {
        name: round(queue.every(name, rq_jobs.note, 0, seconds=0.1, missed="all").next.timestamp() * 1000)
        for name in ("a", "b")
    }

    def pushed() -> Counter[str]:
        key = queue.key.encode()
        return Counter(words[2].decode() for words in own_server.appended() if words[:2] == [b"RPUSH", key])

    workers = [start(own_server, SIMPLE) for _ in range(3)]
    try:
        for n in range(12):
            before = own_server.client.llen("done")
            wait_until(lambda before=before: own_server.client.llen("done") > before + 5)
            time.sleep(draw.uniform(0, 0.3))
            if n % 4 == 2:
                own_server.restart()
            at = draw.randrange(3)
            workers[at].kill()
            workers[at].wait()
            # RQ's worker may end when its server does.
            workers = [one if one.poll() is None else start(own_server, SIMPLE) for one in workers]
        for name in begins:
            queue.schedules.pause(name)
        # What a killed worker has taken comes again when its lease has expired.
        wait_until(lambda: not own_server.client.execute_command("DEHYDRATOR.LEN", queue.scheduling.key))
    finally:
        for worker in workers:
            stop(worker)
    counts = pushed()
    print(len(counts), "jobs")
    for name, begin in begins.items():
        ran = moments((id for id in counts if id.startswith(f"{name}-")), name)
        assert ran == list(range(begin, begin + 100 * len(ran), 100))
