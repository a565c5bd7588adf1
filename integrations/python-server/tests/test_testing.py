"""The server for tests: the fixture, and `server` without pytest."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import pytest
import redis
from dehydrator_queue import Queue
from dehydrator_queue.testing import Server, server

ADDRESSES = set()


@pytest.mark.parametrize("time", ["first", "second"])
def test_the_fixture_is_one_server_without_keys(dehydrator_server: Server, time: str) -> None:
    ADDRESSES.add(dehydrator_server.url)
    assert len(ADDRESSES) == 1
    jobs = Queue(dehydrator_server.url, "jobs")
    assert len(jobs) == 0
    jobs.put(time, delay=60)
    assert len(jobs) == 1


def test_what_is_pushed_is_polled() -> None:
    with server("--appendonly", "yes") as it, redis.Redis.from_url(it.url, decode_responses=True) as client:
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        begun = time.monotonic()
        assert client.execute_command("DEHYDRATOR.PUSH", "jobs", 200, "capture payment 17", "order:17") == "OK"
        reply = client.execute_command("DEHYDRATOR.POLL", "jobs", "COUNT", 1, "BLOCK", 10_000)
        assert reply == ["capture payment 17"]
        # The server's clock counts whole milliseconds, and Valkey 9's may step back by one.
        assert time.monotonic() - begun >= 0.198
        facts = client.info("dehydrator")
        assert facts["dehydrator_version"] == "0.1.0"
        assert facts["dehydrator_git_sha1"] != "unknown"
    with pytest.raises(redis.ConnectionError):
        client.ping()


def test_two_are_apart() -> None:
    with server() as one, server() as other:
        Queue(one.url, "jobs").put(1)
        assert len(Queue(other.url, "jobs")) == 0


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="no-such-option"), server("--no-such-option", "1"):
        pass


def is_up(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_it_ends_with_a_process_that_is_killed() -> None:
    program = "from dehydrator_queue.testing import server\nwith server() as it: print(it.port, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        port = int(process.stdout.readline())
        assert is_up(port)
        process.kill()
    until = time.monotonic() + 240
    while is_up(port):
        assert time.monotonic() < until
        time.sleep(0.01)
