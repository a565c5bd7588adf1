"""Workers whose users may do what docs/operations.md says, on each server that scripts/servers.sh has here.

DEHYDRATOR_SERVERS names the folder of those, by default target/servers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import dramatiq
import kombu
import pytest
import test_dramatiq
import test_taskiq
from redis.utils import str_if_bytes
from servers import ROOT, RealServer, wait_until
from test_worker_ends import SOON, Cancelling
from workers import running

from dehydrator_queue import Job, Queue, Reject
from dehydrator_queue.dramatiq import DehydratorBroker
from dehydrator_queue.taskiq import DehydratorBroker as TaskiqBroker

FOLDER = Path(os.environ.get("DEHYDRATOR_SERVERS", ROOT / "target/servers"))
SERVERS = ("redis-7.0", "redis-8", "redis-8.0", "redis-8.2", "redis-8.6", "valkey-8", "valkey-9")


@pytest.fixture(params=SERVERS, scope="module")
def there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    program = FOLDER / request.param
    if not program.exists():
        pytest.skip(f"there is no {program}")
    server = RealServer(tmp_path_factory.mktemp("server"), program=str(program))
    yield server
    server.close()


def allow(server: RealServer, *rights: str) -> str:
    """Empties the server; returns its URL for a user with the commands of the module, and these rights."""
    server.client.flushall()
    # Redis before 7.4, and Valkey, have no category of a module.
    own = ["+@dehydrator"]
    if "dehydrator" not in map(str_if_bytes, server.client.acl_cat()):
        listed = server.client.execute_command("COMMAND LIST", "FILTERBY", "MODULE", "dehydrator")
        own = [f"+{name}" for name in map(str_if_bytes, listed)]
    server.client.execute_command("ACL", "SETUSER", "few", "reset", "on", ">x", "resetchannels", *own, *rights)
    return server.url.replace("://", "://few:x@")


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
@pytest.mark.parametrize("keys", [None, 2])
def test_a_worker(there: RealServer, kind: str, keys: int | None) -> None:
    of_keys = ("~{jobs:*", "+get", "+set", "+eval", "+evalsha") if keys else ()
    url = allow(there, "~jobs*", "+subscribe", "&__cancelled@*", *of_keys)
    jobs, done = Queue(url, "jobs", keys=keys), []
    cancelling = Cancelling(url, [there], keys)

    def work(job: Job) -> None:
        if job.id == "a":
            cancelling.work(job)
        elif job.payload == "bad":
            raise Reject("no")
        elif job.payload == "worse" and job.attempt == 1:
            raise OSError("once")
        else:
            done.append(job.payload)

    with running(kind, url, work, keys=keys, hooks=cancelling, concurrency=2):
        wait_until(lambda: cancelling.channels() == (keys or 1))
        assert cancelling.cancel() < SOON
        for payload in ("good", "bad", "worse"):
            jobs.put(payload, delay=0.1, group="anna")
        jobs.every("r", "scheduled", seconds=0.2, times=1)
        wait_until(lambda: len(done) == 3 and len(jobs) == 0)
    assert sorted(done) == ["good", "scheduled", "worse"]
    # To list them is not a worker's right.
    assert [letter.reason for letter in Queue(there.url, "jobs", keys=keys).dead_letters()] == ["no"]


def test_dramatiq_s(there: RealServer) -> None:
    broker = DehydratorBroker(url=allow(there, "~dramatiq:*"), schedules=True)
    dramatiq.set_broker(broker)
    done: list[str] = []

    @dramatiq.actor(max_retries=1, min_backoff=10)
    def note(name: str) -> None:
        if name == "bad":
            raise OSError("always")
        done.append(name)

    for name in ("good", "bad"):
        note.send_with_options(args=(name,), delay=100)
    with test_dramatiq.working(broker):
        wait_until(lambda: done == ["good"] and there.client.xlen("dramatiq:default:dead") == 1)
    broker.close()


async def test_taskiq_s(there: RealServer) -> None:
    broker = TaskiqBroker(allow(there, "~taskiq*"))
    done: list[str] = []

    @broker.task
    async def note(name: str) -> None:
        done.append(name)

    await note.kicker().with_labels(delay_seconds=0.1).kiq("good")
    async with test_taskiq.working(broker):
        await asyncio.to_thread(wait_until, lambda: done == ["good"])


def test_celery_s(there: RealServer) -> None:
    rights = ("~celery*", "~_kombu*", "~unacked*", "~dehydrator:*", "&*", "+@all", "-@admin", "-@dangerous")
    with kombu.Connection(allow(there, *rights), transport="dehydrator_queue.kombu:Transport") as connection:
        queue = kombu.Queue("celery")
        connection.Producer().publish("good", routing_key="celery", declare=[queue])
        message = queue(connection.default_channel).get()
        assert message.payload == "good"
        message.ack()
        assert there.client.execute_command("DEHYDRATOR.LEN", "dehydrator:celery") == 0
