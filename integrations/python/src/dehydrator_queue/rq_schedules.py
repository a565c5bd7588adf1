"""The schedules of an RQ queue, whose jobs are what RQ itself writes when it enqueues one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import rq
import rq.job

from dehydrator_queue.job import Delivery, id_bytes, id_text
from dehydrator_queue.plan import Plan
from dehydrator_queue.schedule import STORE, Element, Stored, store
from dehydrator_queue.scheduling import Scheduling
from dehydrator_queue.serving import Serving
from dehydrator_queue.verbs import Question

#: Runs a script, and then the commands at the end of ARGV, unless it returns that nothing was stored. RQ is not for
#: clusters, so their keys are not declared.
THEN = """
local words = {}
for n = tonumber(table.remove(ARGV)), 1, -1 do words[n] = table.remove(ARGV) end
local function first()
%s
end
local reply, at = first(), 1
while reply[1] == 1 and words[at] do
    redis.call(unpack(words, at + 1, at + words[at]))
    at = at + 1 + words[at]
end
return reply
"""

STORE_THEN = THEN % STORE

#: A job that is put now is put once, if the command is resent.
NEW_THEN = THEN % "return {1 - redis.call('EXISTS', KEYS[1])}"


class RqScheduling(Scheduling):
    """Its payloads are jobs without an id, as RQ stores them."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        super().__init__(f"{queue.key}:schedules", queue.key, self._encode_job, self._decode_job)

    def _encode_job(self, job: Any) -> bytes:
        told = {**job.to_dict(), "data": job.data}
        # Equal jobs are equal, whenever they were made.
        del told["created_at"]
        texts = {name: id_text(value) if isinstance(value, bytes) else value for name, value in told.items()}
        return id_bytes(json.dumps(texts, sort_keys=True, separators=(",", ":"), ensure_ascii=False))

    def _decode_job(self, payload: bytes) -> Any:
        job = self._queue.job_class(connection=self._queue.connection, serializer=self._queue.serializer)
        texts = json.loads(id_text(payload))
        job.restore({name.encode(): id_bytes(str(value)) for name, value in texts.items()})
        job.data = id_bytes(texts["data"])
        return job

    def _put(self, name: bytes, plan: Plan, payload: bytes, now: int) -> Question[str]:
        id, words = self._enqueue(name, payload, [now])
        key = self._queue.job_class.key_for(id)
        return Question(("EVAL", NEW_THEN, 1, key, *words, len(words)), lambda reply: id)

    def _store(
        self,
        delivery: Delivery,
        plan: Plan,
        after: Element,
        deadline: int,
        moments: Sequence[int],
        ids: Sequence[bytes],
    ) -> Question[Stored]:
        _, words = self._enqueue(delivery.id, after.payload, moments)
        question = store([self.key], delivery.id, delivery.element, after.encode(), deadline, (), delivery.token)
        return Question(("EVAL", STORE_THEN, *question.words[2:], *words, len(words)), question.read)

    def _enqueue(self, name: bytes, payload: bytes, moments: Sequence[int]) -> tuple[str, list[Any]]:
        """Returns the id of the last job, and the commands that RQ would send, each after the number of its words."""
        words: list[Any] = []
        id = ""
        with self._queue.connection.pipeline() as pipeline:
            for moment in moments:
                job = self._decode_job(payload)
                job.id = id = f"{id_text(name)}-{moment}"
                self._queue.enqueue_job(job, pipeline, at_front=job.should_enqueue_at_front())
            for command, _ in pipeline.command_stack:
                words += [len(command), *command]
        return id, words


class Serves(rq.worker.BaseWorker):
    """A worker that serves the schedules of its queues."""

    _serving: Serving | None = None

    def bootstrap(self, *args: Any, **options: Any) -> None:
        super().bootstrap(*args, **options)
        own: list[Any] = self.queues
        if not all(hasattr(queue, "scheduling") for queue in own):
            raise TypeError("a worker that serves schedules needs --queue-class dehydrator_queue.rq.Queue")
        queues = {queue.scheduling.key: queue for queue in own}

        def serve(delivery: Delivery) -> str | None:
            queue = queues[delivery.key]
            reason: str | None = queue.server.follow(queue.scheduling.serve(delivery))
            return reason

        own[0].server.check(own[0].scheduling.key)
        self._serving = Serving(own[0].server, list(queues), serve)
        self._serving.start()

    def teardown(self) -> None:
        if self._serving is not None and not self.is_horse:
            self._serving.stop()
        super().teardown()  # type: ignore[no-untyped-call]
