"""The schedules of a queue: the questions that make, read, change and serve them. Nothing here connects to a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from dehydrator_queue.job import Delivery, id_bytes, id_text
from dehydrator_queue.occurrences import moment_in, until, zone_of
from dehydrator_queue.plan import Plan
from dehydrator_queue.schedule import Element, State, Stored, job_id, look, step, store
from dehydrator_queue.verbs import BATCH, BATCH_BYTES, Flow, Question, as_bytes
from dehydrator_queue.wide.home import Home


@dataclass(frozen=True)
class Schedule:
    """A schedule, as a reader sees it. Moments are datetimes in its zone, durations are in seconds."""

    name: str
    payload: Any
    cron: str | None
    zone: str
    #: The interval, if it has no cron.
    seconds: float | None
    starting: datetime | None
    until: datetime | None
    times: int | None
    #: What becomes of missed occurrences: `one`, `all` or `none`.
    missed: str
    attempts: int | None
    within: float | None
    group: str | None
    #: The next occurrence; None if it has ended.
    next: datetime | None
    #: The occurrence whose job was put last, and by how much that was late.
    last: datetime | None
    late: float
    #: How many occurrences were missed.
    misses: int
    #: How many jobs were put, if `times` limits that.
    count: int
    paused: bool
    #: Whether `times` are used up, or `until` has passed.
    ended: bool
    _plan: Plan = field(repr=False)
    _state: State = field(repr=False)

    @classmethod
    def of(cls, name: bytes, element: bytes, decode: Callable[[bytes], Any]) -> Schedule:
        told = Element.decode(element)
        plan, state = Plan.decode(told.plan), told.state
        zone = zone_of(plan.zone)

        def moment(ms: int | None) -> datetime | None:
            return None if ms is None else moment_in(zone, ms)

        def seconds(ms: int | None) -> float | None:
            return None if ms is None else ms / 1000

        return cls(
            name=id_text(name),
            payload=decode(told.payload),
            cron=plan.cron,
            zone=plan.zone,
            seconds=seconds(plan.ms),
            starting=moment(plan.start),
            until=moment(plan.until),
            times=plan.times,
            missed=plan.missed,
            attempts=plan.attempts,
            within=seconds(plan.within),
            group=plan.group,
            next=moment(state.next),
            last=moment(state.last),
            late=state.late / 1000,
            misses=state.missed,
            count=state.count,
            paused=state.paused,
            ended=state.ended,
            _plan=plan,
            _state=state,
        )

    def upcoming(self, count: int = 10) -> list[datetime]:
        """Returns the next occurrences, which are skipped if it is paused."""
        left = count if self.times is None else min(count, self.times - self.count)
        end = 2**63 if self._plan.until is None else self._plan.until
        moments = until(self._plan.occurrences().after, self._state.next, end)
        return [moment_in(zone_of(self.zone), ms) for ms in islice(moments, left)]


class Scheduling:
    """The questions about the schedules of one queue."""

    def __init__(
        self,
        key: str,
        queue: str,
        encode: Callable[[Any], bytes],
        decode: Callable[[Any], Any],
        home: Home | None = None,
    ) -> None:
        """`home`: where the jobs are put, if the queue has several keys."""
        self.key, self.queue, self.home = key, queue, home
        self._keys = key, queue if home is None else home.key
        self._encode = encode
        self._decode = decode

    def _schedule(self, name: bytes, element: bytes) -> Schedule:
        return Schedule.of(name, element, self._decode)

    def every(self, name: str | bytes, payload: Any, plan: Plan) -> Flow[Schedule]:
        """Makes a schedule, or changes it. One with the same plan and payload stays as it is."""
        id, line, bytes_ = _name(name), plan.encode(), self._encode(payload)
        while True:
            now, before = yield look(self.key, id)
            if before is None:
                state = plan.begin(now)
            else:
                old = Element.decode(before)
                if old.plan == line and old.payload == bytes_:
                    return self._schedule(id, before)
                state = old.state if old.plan == line else plan.succeed(Plan.decode(old.plan), old.state, now)
            after = Element(state, line, bytes_).encode()
            if (yield store(self._keys, id, before, after, state.deadline(now))).done:
                return self._schedule(id, after)

    def get(self, name: str | bytes) -> Question[Schedule | None]:
        id = _name(name)
        words = ("DEHYDRATOR.LOOK", self.key, id)
        return Question(words, lambda reply: None if reply is None else self._schedule(id, as_bytes(reply)))

    def page(self, start: Any) -> Question[tuple[Any, list[Schedule]]]:
        """Lists a thousand from `start` on, and returns the start of the next page, or None."""

        def read(reply: Any) -> tuple[Any, list[Schedule]]:
            return reply[0], [self._schedule(as_bytes(row[0]), as_bytes(row[-1])) for row in reply[1]]

        return Question(("DEHYDRATOR.RANGE", self.key, start, "+", "COUNT", BATCH, "WITHELEMENTS"), read)

    def length(self) -> Question[int]:
        return Question(("DEHYDRATOR.LEN", self.key), int)

    def remove(self, name: str | bytes) -> Question[bool]:
        return Question(("DEHYDRATOR.REM", self.key, _name(name)), lambda reply: bool(reply == 1))

    def pause(self, name: str | bytes) -> Flow[bool]:
        return self._change(name, lambda plan, state, now: replace(state, paused=True))

    def resume(self, name: str | bytes) -> Flow[bool]:
        """Skips what was due up to now, as the workers do during a pause."""

        def resumed(plan: Plan, state: State, now: int) -> State:
            return replace(plan.skip(state, now), paused=False) if state.paused else state

        return self._change(name, resumed)

    def _change(self, name: str | bytes, changed: Callable[[Plan, State, int], State]) -> Flow[bool]:
        """Changes the state of a schedule; returns whether there is one."""
        id = _name(name)
        while True:
            now, before = yield look(self.key, id)
            if before is None:
                return False
            old = Element.decode(before)
            state = changed(Plan.decode(old.plan), old.state, now)
            after = replace(old, state=state).encode()
            if after == before or (yield store(self._keys, id, before, after, state.deadline(now))).done:
                return True

    def run(self, name: str | bytes) -> Flow[str | None]:
        """Puts a job now, and leaves the schedule as it is; returns the id of the job, or None without a schedule."""
        id = _name(name)
        now, element = yield look(self.key, id)
        if element is None:
            return None
        told = Element.decode(element)
        job: str = yield self._put(id, Plan.decode(told.plan), told.payload, now)
        return job

    def serve(self, delivery: Delivery) -> Flow[str | None]:
        """Puts the jobs of a schedule that a worker was given, and moves it on; returns the reason of a refusal."""
        old = Element.decode(delivery.element)
        plan = Plan.decode(old.plan)
        most = min(BATCH, max(1, BATCH_BYTES // max(1, len(old.payload))))
        now, _ = yield look(self.key, delivery.id)
        while True:
            state, moments = step(old.state, plan.occurrences(), plan.rules, now, most)
            after, ids = replace(old, state=state), [job_id(delivery.id, moment) for moment in moments]
            put = partial(self._store, delivery, plan, after, state.deadline(now), moments)
            stored: Stored = (yield put(ids)) if self.home is None else (yield from self.home.ask(ids, put))
            if stored.fits == 0:
                return stored.refusal
            most = stored.fits

    def _put(self, name: bytes, plan: Plan, payload: bytes, now: int) -> Question[str]:
        """Puts a job, and returns its id."""
        job = job_id(name, now)
        return Question(("DEHYDRATOR.PUSH", self.queue, *plan.job(now, job, payload)), lambda reply: id_text(job))

    def _store(
        self,
        delivery: Delivery,
        plan: Plan,
        after: Element,
        deadline: int,
        moments: Sequence[int],
        ids: Sequence[bytes],
    ) -> Question[Stored]:
        """Stores a schedule that is held, and puts the jobs of these occurrences."""
        jobs = [plan.job(moment, id, after.payload) for id, moment in zip(ids, moments, strict=True)]
        return store(self._keys, delivery.id, delivery.element, after.encode(), deadline, jobs, delivery.token)


def _name(name: str | bytes) -> bytes:
    if not name:
        raise ValueError("the name of a schedule is not empty")
    return id_bytes(name)
