"""Traces of Dramatiq's messages, by OpenTelemetry: `broker.add_middleware(OpenTelemetryMiddleware())`."""

from __future__ import annotations

import threading
from typing import Any

from dramatiq import Broker, Message, MessageProxy, Middleware

from dehydrator_queue.job import Job
from dehydrator_queue.opentelemetry import OpenTelemetryHooks

#: The option of a message with its headers.
HEADERS = "dehydrator_headers"


class OpenTelemetryMiddleware(Middleware):
    """Makes the spans `put` and `process`, with the links of retries. A retry stays in the trace of its message."""

    def __init__(self, hooks: OpenTelemetryHooks | None = None) -> None:
        self._hooks = hooks or OpenTelemetryHooks()
        self._here = threading.local()

    def before_enqueue(self, broker: Broker, message: Message[Any], delay: int | None) -> None:
        # That of a retry has them. What follows may fail, and nothing would tell: the span ends at once.
        if HEADERS not in message.options:
            with self._hooks.sending(message.queue_name, [message.message_id]) as headers:
                message.options[HEADERS] = dict(headers)

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        attempt = int(message.options.get("retries", 0)) + 1
        headers = message.options.setdefault(HEADERS, {})
        job = Job(message.message_id, None, attempt, message.queue_name, "", headers=headers)
        self._here.working = self._hooks.working(job)
        self._here.working.__enter__()

    def after_process_message(
        self, broker: Broker, message: MessageProxy, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        working, self._here.working = getattr(self._here, "working", None), None
        if working is None:
            return
        if exception is None:
            working.__exit__(None, None, None)
            return
        try:
            working.__exit__(type(exception), exception, exception.__traceback__)
        except BaseException as passed:
            if passed is not exception:
                raise

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        self.after_process_message(broker, message)
