"""The schedules of an RQ queue, whose jobs are what RQ itself writes when it enqueues one."""

from __future__ import annotations

import json
from typing import Any

import rq
import rq.job
from redis.exceptions import WatchError

from dehydrator_queue.frameworks.occurrences import Occurrences
from dehydrator_queue.job import Delivery, id_bytes, id_text
from dehydrator_queue.queue.scheduling import Scheduling, occurrence


class RqScheduling(Scheduling):
    """Its payloads are jobs without an id, as RQ stores them."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        super().__init__(f"{queue.key}:schedules", self._encode_job, self._read_job)

    def _encode_job(self, job: Any) -> bytes:
        told = {**job.to_dict(), "data": job.data}
        # Equal jobs are equal, whenever they were made.
        del told["created_at"]
        texts = {name: id_text(value) if isinstance(value, bytes) else value for name, value in told.items()}
        return id_bytes(json.dumps(texts, sort_keys=True, separators=(",", ":"), ensure_ascii=False))

    def _read_job(self, payload: bytes) -> tuple[Any, Exception | None]:
        try:
            return self._decode_job(payload), None
        except Exception as error:
            return None, error

    def _decode_job(self, payload: bytes) -> Any:
        job = self._queue.job_class(connection=self._queue.connection, serializer=self._queue.serializer)
        texts = json.loads(id_text(payload))
        job.restore({name.encode(): id_bytes(str(value)) for name, value in texts.items()})
        job.data = id_bytes(texts["data"])
        return job

    def put(self, delivery: Delivery) -> None:
        """Enqueues the job of an occurrence, unless it is there. RQ permits no `@` in an id."""
        name, moment = occurrence(delivery.id)
        job = self._decode_job(delivery.element)
        job.id = f"{id_text(name)}-{moment}"
        with self._queue.connection.pipeline() as pipeline:
            while True:
                try:
                    pipeline.watch(job.key)
                    if not pipeline.exists(job.key):
                        pipeline.multi()
                        self._queue.enqueue_job(job, pipeline, at_front=job.should_enqueue_at_front())
                        pipeline.execute()
                    return
                except WatchError:
                    # Another worker has just put it, or the connection broke.
                    continue


class Serves(rq.worker.BaseWorker):
    """A worker that puts the jobs of its queues' schedules."""

    _occurrences: Occurrences | None = None

    def bootstrap(self, *args: Any, **options: Any) -> None:
        super().bootstrap(*args, **options)
        own: list[Any] = self.queues
        if not all(hasattr(queue, "scheduling") for queue in own):
            raise TypeError("a worker that serves schedules needs --queue-class dehydrator_queue.rq.Queue")
        queues = {queue.scheduling.key: queue for queue in own}
        own[0].server.check(own[0].scheduling.key)

        def put(delivery: Delivery) -> None:
            queues[delivery.key].scheduling.put(delivery)

        self._occurrences = Occurrences(own[0].server, put, list(queues))
        self._occurrences.start()

    def teardown(self) -> None:
        if self._occurrences is not None and not self.is_horse:
            self._occurrences.stop()
        super().teardown()
