"""What `pip install 'dehydrator-queue[celery,server]'` is for."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from celery import Celery
from dehydrator_queue.testing import Server

TASKS = """
from celery import Celery
app = Celery("tasks", broker="{url}", backend="{url}")
app.conf.broker_transport = "dehydrator_queue.kombu:Transport"

@app.task(name="add")
def add(left, right):
    return left + right
"""


def test_a_task_waits_in_the_server(dehydrator_server: Server, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS.format(url=dehydrator_server.url))
    app = Celery(broker=dehydrator_server.url, backend=dehydrator_server.url)
    app.conf.broker_transport = "dehydrator_queue.kombu:Transport"
    worker = [sys.executable, "-m", "celery", "--app", "tasks", "worker", "--pool", "solo", "--loglevel", "warning"]
    with subprocess.Popen(worker, cwd=tmp_path) as process:
        try:
            begun = time.monotonic()
            task = app.send_task("add", (2, 3), countdown=2)
            assert task.get(timeout=240) == 5
            assert time.monotonic() - begun >= 2
        finally:
            process.terminate()
