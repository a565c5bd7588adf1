"""What celery-exporter shows in random states, compared with what was put and taken here."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import celery
import pytest
from servers import RealServer
from src.exporter import Exporter
from test_monitors import QUEUES, CeleryState, drawn  # noqa: F401  # `drawn` is a fixture.

STATES = 10


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealServer]:
    server = RealServer(tmp_path)
    yield server
    server.close()


def test_the_exporter_counts_the_messages_of_each_queue(
    server: RealServer,
    drawn: random.Random,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CELERY_CONFIG_MODULE", "dehydrator_queue.kombu.celeryconfig")
    for _ in range(STATES):
        state = CeleryState(server, drawn)
        exporter = Exporter(initial_queues=QUEUES)
        exporter.app = celery.Celery(broker=server.url, set_as_current=False)
        exporter.track_queue_metrics()
        shown = {
            queue: exporter.registry.get_sample_value("celery_queue_length", {"queue_name": queue}) for queue in QUEUES
        }
        assert shown == state.free
        exporter.app.close()
        state.close()
