"""The scheduler: takes the occurrences of entries from the server, and sends their tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from math import ceil
from typing import Any

from celery import beat
from celery.utils.log import get_logger
from kombu.exceptions import OperationalError

from dehydrator_queue.beat.payload import decode, encode, is_local, is_of_settings
from dehydrator_queue.beat.place import Place
from dehydrator_queue.beat.plan import plan_of
from dehydrator_queue.frameworks.occurrences import AGAIN, LEASE, LOOK, plan_of_framework, put_off, settle
from dehydrator_queue.job import Delivery, id_bytes, id_text
from dehydrator_queue.queue.commands import Question, new_token, poll
from dehydrator_queue.queue.library import ResponseError, passes
from dehydrator_queue.queue.schedules import Schedules
from dehydrator_queue.queue.scheduling import Declared, declare, is_empty, occurrence

log = get_logger("dehydrator_queue.beat")


class Scheduler(beat.Scheduler):
    """Celery's scheduler, with its entries in the server, which gives each occurrence to one of the beats.

    `schedules` lists and steers them. `add` stores one that no deploy removes, with `Scheduler(app, lazy=True)` from
    any program. `schedule` has the entries that are no cron and no interval: they stay with Celery's own beat, in this
    process.
    """

    data: Any

    def __init__(self, app: Any, schedule: Any = None, max_interval: Any = None, **kwargs: Any) -> None:
        #: The entries of the settings that are in the server, with their payloads.
        self._entries: dict[str, tuple[Any, bytes]] = {}
        self._look_at = 0.0
        self._is_declared = self._is_ticking = False
        self._token = new_token()
        self._failure: BaseException | None = None
        self._lazy = bool(kwargs.get("lazy"))
        super().__init__(app, schedule, max_interval, **kwargs)

    def setup_schedule(self) -> None:
        """Reads the entries of the settings. `tick` stores those that the server can serve."""
        self.install_default_entries(self.data)
        self.merge_inplace(self.app.conf.beat_schedule)
        self._declare_later()

    def _declare_later(self) -> None:
        for name in [name for name, entry in self.data.items() if plan_of(entry.schedule) is not None]:
            entry = self.data.pop(name)
            self._entries[name] = entry, encode(entry, settings=True)
            self._is_declared = False
        for name in self.data:
            log.warning("beat: %s is no cron and no interval: each beat sends it. Run one.", name)

    def add(self, **told: Any) -> Any:
        """Stores an entry that is not of the settings, or keeps it in this process."""
        entry = self.Entry(app=self.app, **told)
        if (plan := self._plan_of(entry)) is None:
            if self._lazy:
                raise ValueError(f"{entry.schedule!r} is no cron of five fields and no interval")
            self.data[entry.name] = entry
            return entry
        payload = encode(entry, settings=False)
        if is_local(payload):
            raise ValueError(f"no beat could send {entry.name!r}, which JSON cannot store: {payload!r}")
        first, *options = plan
        self._ask(Question(("DEHYDRATOR.EVERY", self.place.key, first, payload, id_bytes(entry.name), *options), int))
        return entry

    def _plan_of(self, entry: Any) -> Sequence[Any] | None:
        plan = plan_of(entry.schedule)
        missed = self.app.conf.get("dehydrator_beat_missed") or "one"
        return None if plan is None else plan_of_framework(missed=missed, **plan)

    # The server

    @cached_property
    def place(self) -> Place:
        url = self.app.conf.get("dehydrator_beat_url")
        return Place(self.app, None if url else self._ensure_connected().default_channel)

    @property
    def schedules(self) -> Schedules:
        """The entries in the server."""
        return self.place.schedules

    def _ask(self, question: Question[Any], patience: float | None = None) -> Any:
        return self.place.server.ask(question, patience)

    def _declare(self) -> None:
        """Stores the entries of the settings: at first, and when the server has lost them."""
        if self._is_declared and not self._ask(is_empty(self.place.key)):
            return
        some: list[Declared] = []
        for name, (entry, payload) in self._entries.items():
            if (plan := self._plan_of(entry)) is not None:
                some.append((id_bytes(name), payload, plan))
        for name_, error in self.place.server.follow(declare(self.place.key, some, is_of_settings)):
            log.error("beat: The server refuses the entry %s: %s", id_text(name_), error)
        self._is_declared = True

    # The beat

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Waits in the server for an entry that is due, and sends its task."""
        self._is_ticking = True
        try:
            own = super().tick(*args, **kwargs) if self.data else self.max_interval
            if time.monotonic() >= self._look_at and not self._lazy:
                self._declare()
                self._look_at = time.monotonic() + LOOK
            block = ceil(min(own, self.max_interval, LOOK) * 1000)
            # With the same token until there is a reply, so that none is lost.
            deliveries = self._ask(poll([self.place.key], 1, LEASE, self._token, block), 0)
            self._token = new_token()
            for delivery in deliveries:
                self._serve(delivery)
        except Exception as error:
            if not passes(error) and not isinstance(error, (OperationalError, *ResponseError)):
                raise
            log.error("beat: %s: %s. Trying again in %s s...", type(error).__name__, error, AGAIN / 1000)
            self._disconnect()
            return float(min(AGAIN / 1000, self.max_interval))
        finally:
            self._is_ticking = False
        return 0

    def _serve(self, delivery: Delivery) -> None:
        name, moment = occurrence(delivery.id)
        try:
            entry = self._entry(id_text(name), delivery.element)
            deadline = self.app.conf.beat_cron_starting_deadline
            if deadline is None or time.time() - moment / 1000 <= deadline:
                self._send(entry, id_text(delivery.id))
        except Exception as error:
            self._ask(put_off(delivery, error))
        else:
            self._ask(settle(delivery))

    def _entry(self, name: str, payload: bytes) -> Any:
        """Returns an entry: that of the settings, or what JSON tells of it."""
        known, told = self._entries.get(name, (None, b""))
        if known is not None and told == payload:
            return type(known)(**dict(known))
        if is_local(payload):
            raise LookupError(f"only a beat with the settings of {name} can send it")
        return self.Entry(name=name, app=self.app, schedule=0, **decode(payload))

    def _send(self, entry: Any, id: str) -> None:
        """Sends a task, whose messages have the id of the occurrence: one that is there is not sent again."""
        entry.options = {"task_id": id, **entry.options, "headers": dict(entry.options.get("headers") or {})}
        self._failure = None
        channel = self.producer.channel
        if self.place.is_of_broker:
            with channel.sending_once():
                self.apply_entry(entry, producer=self.producer)
        else:
            self.apply_entry(entry, producer=self.producer)
        failure = self._failure
        if failure is not None and (passes(failure) or isinstance(failure, self._passing)):
            raise OperationalError(str(failure)) from failure
        if isinstance(failure, ResponseError):
            raise failure
        # Another failure, such as arguments that cannot be encoded, would be the same the next time.

    @property
    def _passing(self) -> tuple[type[BaseException], ...]:
        return (OperationalError, OSError, *self.connection.connection_errors)

    def apply_async(self, entry: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().apply_async(entry, *args, **kwargs)
        except beat.SchedulingError as error:
            self._failure = error.__context__ or error
            raise

    def close(self) -> None:
        # A signal's handler calls this amid a command, and then the end of the loop.
        if not self._is_ticking:
            self._leave()
            super().close()

    def _leave(self) -> None:
        if (place := self.__dict__.pop("place", None)) is not None:
            place.close()

    def _disconnect(self) -> None:
        self._leave()
        self.__dict__.pop("producer", None)
        if (connection := self.__dict__.pop("connection", None)) is not None:
            with suppress(Exception):
                connection.release()
