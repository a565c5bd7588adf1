"""The server of a queue of several keys."""

from __future__ import annotations

from typing import Any

from dehydrator_queue.queue.commands import Question
from dehydrator_queue.queue.server import Server
from dehydrator_queue.steps import Steps
from dehydrator_queue.wide.router import Router


class Routing:
    """Sends each command of the queue to the keys that it is about, and retries each of these."""

    def __init__(self, plain: Any, router: Router) -> None:
        super().__init__(plain.client, plain.patience)  # type: ignore[call-arg]
        self.plain, self.router = plain, router
        self.check = plain.check

    def asking(self, question: Question[Any], *terms: Any, **named: Any) -> Steps[Any]:
        steps: Steps[Any] = self.plain.following(self.router.route(question), *terms, **named)
        return steps


class WideServer(Routing, Server):
    """A `Server` for threads."""

    plain: Server
