"""Queues of several keys, on one server and on a cluster of three primaries."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

import pytest
import redis
from servers import ROOT, RealServer, wait_until
from topologies import Cluster

from dehydrator_queue import Item, NotFound, Queue, Worker
from dehydrator_queue.aio import Queue as AsyncQueue
from dehydrator_queue.queue.library import passes
from dehydrator_queue.wide.directory import OutdatedDirectoryError, home


def test_the_first_client_writes_the_directory_and_the_others_take_it(server: RealServer) -> None:
    jobs = Queue(server.url, "jobs", keys=3)
    assert not server.client.keys()
    jobs.put("x", id="a", delay=60)
    assert server.client.get("jobs:keys") == b'{"generation":1,"lists":[["{jobs:0}","{jobs:1}","{jobs:2}"]]}'
    other = Queue(server.url, "jobs", keys=7)
    assert other.look("a").payload == "x"
    assert json.loads(server.client.get("jobs:keys"))["generation"] == 1
    key = home(b"a", [f"{{jobs:{n}}}" for n in range(3)])
    assert server.client.execute_command("DEHYDRATOR.LOOK", key, "a") == b'"x"'
    assert server.client.get(f"{key}:generation") == b"1"


def test_an_id_has_the_same_key_in_all_programs() -> None:
    names = [f"{{jobs:{n}}}" for n in range(5)]
    # Each is the name whose MD5, with a space and the id, is the highest.
    homes = {"order:1": "{jobs:3}", "order:2": "{jobs:2}", "order:3": "{jobs:1}", "schön": "{jobs:4}", "": "{jobs:3}"}
    assert {id: home(id.encode(), names) for id in homes} == homes
    assert home(b"\xff\x00", names) == "{jobs:0}"


def test_automatic_keys_are_one_for_each_primary(server: RealServer, cluster: Cluster) -> None:
    Queue(server.url, "jobs", keys="auto").put("x")
    assert json.loads(server.client.get("jobs:keys"))["lists"] == [["{jobs:0}"]]
    with Queue(cluster.url, "jobs", keys="auto") as jobs:
        jobs.put("x")
        (names,) = json.loads(jobs._server.client.execute_command("GET", "jobs:keys"))["lists"]
    slots = [cluster.nodes[0].client.execute_command("CLUSTER", "KEYSLOT", name) for name in names]
    assert sorted(3 * slot // 16384 for slot in slots) == [0, 1, 2]


@pytest.mark.parametrize("name", ["{jobs}", "a}b"])
def test_a_name_with_braces_is_refused(server: RealServer, name: str) -> None:
    with pytest.raises(ValueError, match="braces"):
        Queue(server.url, name, keys=3)
    with pytest.raises(ValueError, match="`keys` is at least 1"):
        Queue(server.url, "jobs", keys=0)
    with pytest.raises(ValueError, match="dead letters"):
        Queue(server.url, "jobs", keys=1, dead="elsewhere")
    with pytest.raises(ValueError, match="one key"):
        Queue(server.url, "jobs").set_keys(3)


def test_each_id_is_found(url: Any) -> None:
    with Queue(url, "jobs", keys=3) as jobs:
        ids = [f"id:{n}" for n in range(30)]
        assert [jobs.put(n, id=id, delay=60 + n) for n, id in enumerate(ids)] == ids
        assert jobs.put("again", id="id:7") is None
        assert jobs.put("again", id="id:7", replace=True, delay=50) == "id:7"
        assert [jobs.look(id).payload for id in ids] == [*range(7), "again", *range(8, 30)]
        assert jobs.look("none") is None
        assert jobs.postpone("id:3", 10)
        assert not jobs.postpone("none", 10)
        jobs.update("id:4", "changed")
        assert jobs.look("id:4").payload == "changed"
        with pytest.raises(NotFound):
            jobs.update("none", "x")
        assert jobs.cancel("id:0", "id:1", "id:2", "none") == 3
        assert len(jobs) == 27
        assert [one.id for one in jobs] == ["id:3", "id:7", "id:4", "id:5", "id:6", *ids[8:]]


def test_many_are_put_and_read_in_the_order_of_their_deadlines(url: Any) -> None:
    with Queue(url, "jobs", keys=3) as jobs:
        jobs.put("there", id="7", delay=5000)
        puts = jobs.put_many(Item(n, id=str(n), delay=100 + n) for n in range(4500))
        assert puts == [(str(n), "exists" if n == 7 else "stored") for n in range(4500)]
        assert [one.id for one in jobs] == [*(str(n) for n in range(4500) if n != 7), "7"]
        assert [put.result for put in jobs.put_many([Item("x"), Item("y")])] == ["stored", "stored"]
        names = jobs.set_keys(3)
        counts = Counter(home(str(n).encode(), names) for n in range(4500))
        assert all(count > 1300 for count in counts.values())
        # More for each key than a script can hand to a command.
        assert jobs.cancel(*(str(n) for n in range(30_000))) == 4500


async def test_a_queue_of_asyncio_has_the_same_keys(server: RealServer) -> None:
    jobs = Queue(server.url, "jobs", keys=3)
    async with AsyncQueue(server.url, "jobs", keys=3) as there:
        puts = await there.put_many([Item(n, str(n), 60 + n) for n in range(20)])
        assert puts == [(str(n), "stored") for n in range(20)]
        assert [jobs.look(str(n)).payload for n in range(20)] == list(range(20))
        await there.set_keys(5)
        assert await there.cancel("3", "4") == 2
        assert jobs.cancel("5") == 1
        assert await there.length() == 17
        assert [one.id async for one in there] == [str(n) for n in range(20) if n not in (3, 4, 5)]
        left = await there.forget_keys()
        assert left == sum(
            home(str(n).encode(), jobs.set_keys(5)) > "{jobs:2}" for n in range(20) if n not in (3, 4, 5)
        )


def test_what_is_of_the_whole_queue_is_of_all_keys(url: Any) -> None:
    with Queue(url, "jobs", keys=3) as jobs:
        jobs.put_many((Item(n, id=f"a:{n}", delay=60) for n in range(20)), group="anna")
        jobs.put_many(Item(n, id=f"b:{n}", delay=60) for n in range(20))
        assert (jobs.info()["length"], jobs.info(group="anna")["length"]) == (40, 20)
        jobs.pause()
        assert jobs.info()["paused"] == 1
        assert (jobs.resume(), jobs.resume()) == (True, False)
        assert jobs.postpone_all(600, group="anna") == 20
        assert jobs.look("a:3").due > jobs.look("b:3").due + 500
        assert jobs.cancel_all(group="anna") == 20
        assert jobs.cancel_all(prefix="b:") == 20
        assert len(jobs) == 0


def test_a_directory_that_lost_its_last_change_is_repaired(server: RealServer) -> None:
    jobs = Queue(server.url, "jobs", keys=2)
    jobs.put_many(Item(n, id=str(n), delay=60) for n in range(20))
    jobs.set_keys(3)
    jobs.cancel(*map(str, range(20)))
    before = server.client.get("jobs:keys")
    assert jobs.forget_keys() == 0
    jobs.put_many(Item(n, id=str(n), delay=60) for n in range(20))
    server.client.set("jobs:keys", before)
    later = Queue(server.url, "jobs", keys=2)
    with pytest.raises(OutdatedDirectoryError, match="call set_keys again"):
        later.look("1")
    # As many as before: that was not lost.
    assert later.set_keys(3) == ["{jobs:0}", "{jobs:1}", "{jobs:2}"]
    assert [later.look(str(n)).payload for n in range(20)] == list(range(20))
    assert jobs.put("again", id="1") is None
    assert jobs.put("x", id="x", delay=60) == "x"
    assert later.forget_keys() == 0


def test_a_worker_restores_the_directory_that_it_knew(server: RealServer) -> None:
    jobs = Queue(server.url, "jobs", keys=2)
    jobs.set_keys(2)
    before = [server.client.get("jobs:keys")]
    jobs.set_keys(5)
    before.append(server.client.get("jobs:keys"))
    jobs.set_keys(3)
    done: list[str] = []

    def generation() -> int:
        return int(json.loads(server.client.get("jobs:keys") or b'{"generation":0}')["generation"])

    worker = Worker(Queue(server.url, "jobs", keys=2), lambda job: done.append(job.id), concurrency=2, block=0.3)
    running = threading.Thread(target=worker.run)
    running.start()
    try:
        # Of the last two changes, the last one is lost, then both; then all is lost.
        for n, text in enumerate([before[1], before[0], None]):
            jobs.put(0, id=f"{n}", delay=0)
            wait_until(lambda n=n: done[-1:] == [str(n)])
            last = generation()
            if text is None:
                server.client.flushall()
            else:
                server.client.set("jobs:keys", text)
            wait_until(lambda last=last: generation() > last, 30)
            ids = [f"{n}:{m}" for m in range(30)]
            jobs.put_many(Item(0, id=id) for id in ids)
            wait_until(lambda ids=ids: set(ids) <= set(done))
            later = Queue(server.url, "jobs", keys=2)
            assert later.set_keys(3) == ["{jobs:0}", "{jobs:1}", "{jobs:2}"]
            assert later.put(0, id=f"{n}:later", delay=60)
            assert jobs.put(0, id=f"{n}:later", delay=60) is None
    finally:
        worker.stop()
        running.join()


@pytest.mark.parametrize("at", ["server", pytest.param("cluster", marks=pytest.mark.slow)])
def test_the_number_of_keys_changes_under_load(request: pytest.FixtureRequest, at: str) -> None:
    url = request.getfixturevalue(at).url
    steps = "60" if at == "server" else "300"
    program = [sys.executable, str(ROOT / "integrations/python/tests/wide_growing.py"), url, steps]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=400, check=False)
    assert ended.stdout == "[3, 5, 3, 4] keys; wrong: {}\n", ended.stderr


def test_a_cluster_that_is_down_or_lost_a_node_is_waited_for(cluster: Cluster) -> None:
    # What a client of one node raises; that of a cluster sends the command again first.
    assert passes(redis.exceptions.ClusterDownError("The cluster is down"))
    assert passes(redis.exceptions.ClusterError("TTL exhausted."))
    with redis.RedisCluster("127.0.0.1", cluster.nodes[0].port) as client, pytest.raises(AttributeError) as raised:
        client.get_redis_connection(client.get_node("127.0.0.1", 1))
    assert passes(raised.value)
    assert not passes(AttributeError("'NoneType' object has no attribute 'payload'"))
