"""A plugin of pytest: runs Celery's tests of beat with our scheduler in the place of its own."""

from __future__ import annotations

import os

import celery.beat
import pytest
import redis
from aliased import leave_out

from dehydrator_queue.beat import Scheduler

URL = os.environ["DEHYDRATOR_URL"]

celery.beat.Scheduler = Scheduler


@pytest.fixture(autouse=True)
def entries_in_server(app):
    """The broker of these tests is in memory."""
    redis.Redis.from_url(URL).flushall()
    app.conf.dehydrator_beat_url = URL


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_out(items)
