"""A plugin of pytest, and of every program that a test starts (see sitecustomize.py).

Runs other people's tests with our transport in the place of kombu's for Redis, but for those in exceptions.txt.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from kombu.transport import TRANSPORT_ALIASES

import dehydrator_queue.kombu

TRANSPORT_ALIASES["redis"] = "dehydrator_queue.kombu:Transport"
TRANSPORT_ALIASES["rediss"] = "dehydrator_queue.kombu:Transport"
TRANSPORT_ALIASES["sentinel"] = "dehydrator_queue.kombu:SentinelTransport"

# kombu's tests look at the keys of queues.
if queue_key := os.environ.get("DEHYDRATOR_QUEUE_KEY"):
    dehydrator_queue.kombu.Channel.queue_key = queue_key
    dehydrator_queue.kombu.SentinelChannel.queue_key = queue_key


def exceptions() -> list[str]:
    """Returns the patterns of tests that are left out: the first word of each line, the rest is the reason."""
    lines = Path(__file__).with_name("exceptions.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Gives each of pytest-xdist's processes its own server, before Celery's conftest.py reads the address."""
    if process := os.environ.get("PYTEST_XDIST_WORKER"):
        ports = os.environ["DEHYDRATOR_PORTS"].split()
        for name in ("REDIS_PORT", "TEST_BROKER", "TEST_BACKEND"):
            os.environ[name] = os.environ[name].replace(ports[0], ports[int(process.removeprefix("gw"))])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_out(items)
    for item in items:
        # Celery's tests share one worker. Some do not ask for it, as others in their process did so before.
        if item.path.name == "test_tasks.py":
            item.fixturenames.insert(0, "celery_session_worker")
    # After these nothing in their process can wait for results: Celery takes it for a worker of one task at a time.
    items.sort(key=lambda item: "django_fixup" in item.name)
    # It takes some minutes.
    items.sort(key=lambda item: "chord_header_on_upgraded_chord" not in item.name)


def leave_out(items: list[pytest.Item]) -> None:
    if os.environ.get("DEHYDRATOR_ALL"):
        return
    patterns = exceptions()
    for item in items:
        if any(fnmatchcase(item.nodeid, f"*{pattern}") for pattern in patterns):
            # Those that are skipped are counted, also of several processes.
            item.add_marker(pytest.mark.skip(reason="see exceptions.txt"))
