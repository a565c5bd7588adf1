"""Recipes in Python of examples/ and docs/, where one server is enough."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from servers import ROOT, RealServer, wait_until

sys.path.insert(0, str(ROOT / "examples"))
import many_keys


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealServer]:
    """A cluster of one primary."""
    server = RealServer(tmp_path, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
    server.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_until(lambda: "cluster_state:ok" in str(server.client.execute_command("CLUSTER", "INFO")))
    yield server
    server.close()


@pytest.mark.timeout(30)
def test_a_consumer_of_many_keys_says_why_it_begins_nothing(cluster: RealServer) -> None:
    cluster.client.set("jobs:keys", json.dumps({"generation": 1, "lists": [["{jobs:0}"]]}))
    cluster.client.execute_command("DEHYDRATOR.PUSH", "{jobs:0}", 0, "work", "a")
    consumer = subprocess.Popen(
        [sys.executable, ROOT / "examples/many_machines.py", "jobs", f"127.0.0.1:{cluster.port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = next(line for line in consumer.stderr if "replica" in line)
    finally:
        consumer.kill()
        begun, _ = consumer.communicate()
    assert "{jobs:0}: 0 of 1 replicas have it" in said
    assert begun == ""


@pytest.mark.timeout(30)
@pytest.mark.parametrize("decode", [False, True])
def test_a_queue_of_many_keys_reads_replies_of_any_client(cluster: RealServer, decode: bool) -> None:
    client = redis.RedisCluster("127.0.0.1", cluster.port, decode_responses=decode)
    queue = many_keys.Queue(client, "jobs")
    queue.set_keys(2)
    for n in range(20):
        assert queue.push(f"id:{n}", "x", 60_000, "NX") in ("OK", b"OK")
    queue.set_keys(3)
    assert queue.push("id:7", "y", 60_000, "NX") is None
    left = queue.forget()
    assert [queue.cancel(f"id:{n}") for n in range(20)] == [1] * 20
    assert left > 0
    assert queue.forget() == 0


def test_an_id_that_is_there_is_told_from_other_errors(server: RealServer) -> None:
    page = (ROOT / "docs/clients.md").read_text()
    (recipe,) = re.findall(r"```python\n(.*?EXISTS.*?)```", page, re.DOTALL)
    known: dict[str, Any] = {"redis": redis, "client": server.client}
    exec(recipe, known)
    assert [known["push"]("jobs", 60_000, "send mail 17", "job:17") for _ in range(2)] == [True, False]
    server.client.set("string", "x")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        known["push"]("string", 0, "x", "y")
