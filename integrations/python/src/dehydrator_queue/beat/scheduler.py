"""The scheduler: asks the server for an entry that is due, and sends its task."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from math import ceil
from typing import Any

from celery import beat
from celery.schedules import crontab
from celery.utils.functional import is_numeric_value
from celery.utils.log import get_logger
from kombu.exceptions import OperationalError

from dehydrator_queue import deploys
from dehydrator_queue.beat.entries import Entries, encode, is_local, is_of_settings, read
from dehydrator_queue.beat.place import Place
from dehydrator_queue.beat.plan import UnknownScheduleError, occurrences_of
from dehydrator_queue.deploys import Declared, change
from dehydrator_queue.job import Delivery, id_bytes, id_text
from dehydrator_queue.kombu.captured import Captured
from dehydrator_queue.library import ResponseError, passes
from dehydrator_queue.occurrences import MOST_DUE
from dehydrator_queue.schedule import Element, Rules, State, look, step, store
from dehydrator_queue.verbs import Question, new_token, poll

log = get_logger("dehydrator_queue.beat")

#: Milliseconds after which another beat gets an entry, if a beat is killed while it sends its task.
LEASE = 5_000

#: Seconds after which an entry is tried again that could not be sent.
AGAIN = 1

#: Tasks without a limit are counted, too.
ENDLESS = 2**53

#: Some result backends store no longer ids. Those of long names end with a digest.
LONGEST_NAME = 128


class Scheduler(beat.Scheduler):
    """Celery's scheduler, with its entries in the server.

    `schedule` is a mapping of all of them, and `add` stores one that stays until it is deleted from `schedule`, with
    `Scheduler(app, lazy=True)` from any program. Those of `beat_schedule` follow the settings in force: see deploys.
    """

    data: Any

    def __init__(self, app: Any, schedule: Any = None, max_interval: Any = None, **kwargs: Any) -> None:
        #: The entries that this process can send by itself, with their plans and payloads.
        self._known: dict[str, tuple[Any, bytes, bytes]] = {}
        self._settings: dict[str, tuple[Any, bytes, bytes]] = {}
        self._told_at: float | None = None
        self._token = new_token()
        self._held: Delivery | None = None
        self._failure: BaseException | None = None
        self._lazy = bool(kwargs.get("lazy"))
        super().__init__(app, Entries(self) if schedule is None else schedule, max_interval, **kwargs)

    def setup_schedule(self) -> None:
        """Reads the entries of the settings. `tick` stores them."""
        entries, self.data = self.data, dict[str, Any]()
        try:
            self.merge_inplace(self.app.conf.beat_schedule)
            self.install_default_entries(self.data)
            self._settings = {name: (entry, *encode(entry, settings=True)) for name, entry in self.data.items()}
        finally:
            self.data = entries
        self._known = dict(self._settings)

    # The server

    @cached_property
    def place(self) -> Place:
        url = self.app.conf.get("dehydrator_beat_url")
        return Place(self.app, None if url else self._ensure_connected().default_channel)

    @cached_property
    def deploy(self) -> deploys.Deploy:
        declared = {id_bytes(name): declare(*known) for name, known in self._settings.items()}
        return deploys.Deploy(self.place.key, declared, is_of_settings)

    def page(self, start: Any) -> Any:
        return self._ask(deploys.page(self.place.key, start))

    def ask(self, command: str, *words: Any) -> Any:
        """Sends a command about the key of the entries."""
        return self._ask(Question((command, self.place.key, *words), lambda reply: reply))

    def _ask(self, question: Question[Any], patience: float | None = None) -> Any:
        return self.place.server.ask(question, patience)

    def look(self, name: str) -> tuple[int, Element | None]:
        """Returns the server's time, in milliseconds, and the element of an entry."""
        now, element = self._ask(look(self.place.key, id_bytes(name)))
        return now, None if element is None else Element.decode(element)

    def read(self, name: str, element: Element) -> Any:
        """Returns an entry. Raises UnknownScheduleError if only another beat has all of it."""
        known = self._known.get(name)
        same = known is not None and known[1:] == (element.plan, element.payload)
        return read(name, element, known[0] if known is not None and same else None, self)

    def put(self, name: str, entry: Any) -> None:
        """Stores an entry that is not of the settings."""
        plan, payload = encode(entry, settings=False)
        if is_local(plan, payload) and self._lazy:
            raise ValueError(f"no beat could send {name!r}, which JSON cannot store: {plan + payload!r}")
        self._known[name] = entry, plan, payload
        key, id = self.place.key, id_bytes(name)
        while (new := self.place.server.follow(change(key, id, declare(entry, plan, payload)))) is not None:
            if self._ask(store([key], id, new.before, new.after, new.deadline)).done:
                break

    def _tell(self) -> None:
        """Reports that this beat is there, and stores its settings, if they are in force."""
        is_first = self._told_at is None
        if not self.place.server.follow(self.deploy.report()) and is_first:
            log.warning("beat: Newer settings of other beats are in force: the entries of beat_schedule are theirs.")
        self._told_at = time.monotonic()

    # The beat

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Waits in the server for an entry that is due, and sends its task."""
        try:
            wait = 0 if self._told_at is None else self._told_at + deploys.PRESENCE - time.monotonic()
            if wait <= 0 and not self._lazy:
                self._tell()
                wait = deploys.PRESENCE
            block = ceil(min(max(wait, 0), self.max_interval) * 1000)
            # With the same token until there is a reply, so that none is lost.
            deliveries = self._ask(poll([self.place.key], 1, LEASE, self._token, block), 0)
            self._token = new_token()
            for delivery in deliveries:
                self._held = delivery
                self._serve(delivery)
            self._held = None
        except Exception as error:
            if not passes(error) and not isinstance(error, (OperationalError, *ResponseError)):
                raise
            log.error("beat: %s: %s. Trying again in %s s...", type(error).__name__, error, AGAIN)
            self._release()
            self._disconnect()
            return float(min(AGAIN, self.max_interval))
        return 0

    def _serve(self, delivery: Delivery) -> None:
        name = id_text(delivery.id)
        now, _ = self._ask(look(self.place.key, delivery.id))
        try:
            element = Element.decode(delivery.element)
            entry = self.read(name, element)
            state, moments = self._step(entry, element.state, now)
        except UnknownScheduleError:
            log.debug("beat: Only other beats can send %s.", name)
            self._release(AGAIN)
            return
        except Exception:
            log.error(
                "beat: Cannot calculate the next run of %r, trying again in %s s.",
                name,
                self.max_interval,
                exc_info=True,
            )
            self._release(self.max_interval)
            return
        captured = [self._send(entry, task_id(name, moment)) for moment in moments]
        pushes = [push for one in captured for push in one.pushes]
        keys = [self.place.key, *(key for key, _ in pushes)]
        after, jobs = replace(element, state=state).encode(), [words for _, words in pushes]
        stored = self._ask(
            store(keys, delivery.id, delivery.element, after, state.deadline(now), jobs, delivery.token),
        )
        if stored.done:
            for one in captured:
                one.finish()
        elif stored.refusal is not None:
            log.error("beat: The server refuses %s, trying again in %s s: %s", name, AGAIN, stored.refusal)
            self._release(AGAIN)

    def _step(self, entry: Any, state: State, now: int) -> tuple[State, Sequence[int]]:
        """Returns the state after the occurrences that are due, and the one whose task is sent, if any."""
        missed = self.app.conf.get("dehydrator_beat_missed") or "one"
        # Of all that were missed, the next one is found after the first.
        occurrences = occurrences_of(entry.schedule, 2 if missed == "all" else MOST_DUE)
        if occurrences is not None:
            after, moments = step(state, occurrences, Rules(missed, times=ENDLESS), now, 1)
            deadline = self.app.conf.beat_cron_starting_deadline
            if (
                moments
                and isinstance(entry.schedule, crontab)
                and deadline is not None
                and after.late > deadline * 1000
            ):
                after = replace(state, next=after.next, missed=after.missed + 1)
                moments = ()
            return after, moments
        if state.next is None or state.next > now:
            return state, ()
        is_due, delay = self.is_due(entry)
        wait = delay if is_numeric_value(delay) and delay > 0 else self.max_interval
        after = replace(state, next=now + ceil(wait * 1000))
        if not is_due or state.paused:
            return after, ()
        return replace(after, last=state.next, late=now - state.next, count=state.count + 1), (state.next,)

    def _send(self, entry: Any, id: str) -> Captured:
        """Sends a task, or collects its messages, if they are for the server of the entries."""
        options = {"task_id": id, **entry.options, "headers": dict(entry.options.get("headers") or {})}
        captured = Captured(id)
        entry.options = options
        self._failure = None
        if self.place.is_of_broker:
            # An attempt on a new channel would send it at once.
            options["retry"] = False
            with self.producer.channel.capturing(id) as captured:
                self.apply_entry(entry, producer=self.producer)
        else:
            self.apply_entry(entry, producer=self.producer)
        failure = self._failure
        if failure is not None and (passes(failure) or isinstance(failure, self._passing)):
            raise OperationalError(str(failure)) from failure
        # Another failure, such as arguments that cannot be encoded, would be the same the next time.
        return captured

    @property
    def _passing(self) -> tuple[type[BaseException], ...]:
        return (OperationalError, OSError, *self.connection.connection_errors)

    def apply_async(self, entry: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().apply_async(entry, *args, **kwargs)
        except beat.SchedulingError as error:
            self._failure = error.__context__ or error
            raise

    def reserve(self, entry: Any) -> Any:
        """Returns the entry after its next run, as Celery's does, but stores nothing: `tick` does."""
        return next(entry)

    def _release(self, seconds: float = AGAIN) -> None:
        """Gives back what is held, uncounted; if that fails, its lease expires."""
        held, self._held = self._held, None
        if held is not None:
            words = (int(seconds * 1000), held.token, held.id, "UNCOUNTED")
            with suppress(Exception):
                self._ask(Question(("DEHYDRATOR.RELEASE", held.key, *words), lambda reply: reply), 0)

    def close(self) -> None:
        self._release(0)
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


def declare(entry: Any, plan: bytes, payload: bytes) -> Declared:
    occurrences = occurrences_of(entry.schedule)
    return Declared(plan, payload, (lambda now: now) if occurrences is None else occurrences.after)


def task_id(name: str, moment: int) -> str:
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 17]}:{sha256(id_bytes(name)).hexdigest()[:16]}"
    return f"{name}@{moment}"
