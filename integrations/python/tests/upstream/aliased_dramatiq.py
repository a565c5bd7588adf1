"""A plugin of pytest: runs Dramatiq's tests with our broker in the place of its own for Redis."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from types import ModuleType

import dramatiq
import dramatiq.brokers.redis
import pytest
from aliased import leave_out

from dehydrator_queue.dramatiq import DehydratorBroker

URL = os.environ["DEHYDRATOR_URL"]


class Broker(DehydratorBroker):
    """Finds the server of the tests by itself."""

    def __init__(self, **options):
        if "client" not in options:
            options["url"] = URL
        super().__init__(**options)


dramatiq.brokers.redis.RedisBroker = Broker


@contextmanager
def worker(broker, **options):
    worker = dramatiq.Worker(broker, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


# As in Dramatiq's own tests/common.py and tests/conftest.py, which its source distribution lacks.
common = ModuleType("tests.common")
common.worker = worker
sys.modules["tests.common"] = common


@pytest.fixture
def redis_broker():
    broker = Broker()
    broker.client.flushall()
    broker.emit_after("process_boot")
    dramatiq.set_broker(broker)
    yield broker
    broker.client.flushall()
    broker.close()


@pytest.fixture
def redis_worker(redis_broker):
    with worker(redis_broker, worker_timeout=100, worker_threads=8) as started:
        yield started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_out(items)
