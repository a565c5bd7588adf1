"""The entries in the server: a mapping from their names to Celery's entries, which every beat has in common."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, Protocol

from celery.beat import ScheduleEntry
from kombu.utils.json import JSONEncoder, dumps, loads

from dehydrator_queue.beat.plan import UnknownScheduleError, moment_of, plan_of, schedule_of
from dehydrator_queue.job import id_bytes, id_text
from dehydrator_queue.schedule import Element

#: Marks, in a payload, what JSON cannot tell: only a beat that has the entry in its settings can send it.
LOCAL = "__local__"


class Store(Protocol):
    """The scheduler, as its entries need it."""

    app: Any
    Entry: Any

    def look(self, name: str) -> tuple[int, Element | None]: ...

    def read(self, name: str, element: Element) -> ScheduleEntry: ...

    def put(self, name: str, entry: ScheduleEntry) -> None: ...

    def ask(self, command: str, *words: Any) -> Any: ...

    def page(self, start: Any) -> Any: ...


class _Encoder(JSONEncoder):
    def default(self, value: Any) -> Any:
        if (function := getattr(value, "_func", None)) is not None:
            # One of Celery's BeatLazyFunc.
            return {LOCAL: _name(function), "of": value._func_params}
        try:
            return super().default(value)
        except TypeError:
            return {LOCAL: _name(value if callable(value) else type(value))}


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', repr(thing))}"


def encode(entry: ScheduleEntry, *, settings: bool) -> tuple[bytes, bytes]:
    """Returns the plan and the payload. `settings`: the entry is one of `beat_schedule`."""
    if entry.schedule is None:
        raise ValueError(f"the entry {entry.name!r} has no schedule")
    told = {"task": entry.task, "args": entry.args, "kwargs": entry.kwargs, "options": entry.options}
    if settings:
        told["settings"] = True
    return plan_of(entry.schedule), dumps(told, cls=_Encoder, sort_keys=True, separators=(",", ":")).encode()


def is_of_settings(element: Element) -> bool:
    return bool(loads(element.payload).get("settings"))


def is_local(plan: bytes, payload: bytes) -> bool:
    """Returns whether only a beat with the same settings can send the entry."""
    return f'"{LOCAL}":'.encode() in payload or b'"class":' in plan


def _run(element: Element, app: Any) -> dict[str, Any]:
    last = element.state.last
    when = {} if last is None else {"last_run_at": moment_of(last, app.timezone)}
    return {"total_run_count": element.state.count, **when}


def read(name: str, element: Element, known: ScheduleEntry | None, scheduler: Store) -> ScheduleEntry:
    """Reads an entry. `known`: the same one, if this beat has it."""
    app, run = scheduler.app, _run(element, scheduler.app)
    if known is not None:
        return type(known)(**{**dict(known), **run})
    if is_local(element.plan, element.payload):
        raise UnknownScheduleError(name)
    told = loads(element.payload)
    when = schedule_of(element.plan, app)
    of = {field: told[field] for field in ("task", "kwargs", "options")}
    return scheduler.Entry(name=name, schedule=when, args=tuple(told["args"] or ()), app=app, **of, **run)


class Entries(MutableMapping[str, ScheduleEntry]):
    """Reads and changes the server's entries. What is set here stays until it is deleted here."""

    def __init__(self, scheduler: Store) -> None:
        self._scheduler = scheduler

    def __getitem__(self, name: str) -> ScheduleEntry:
        _, element = self._scheduler.look(name)
        if element is None:
            raise KeyError(name)
        try:
            return self._scheduler.read(name, element)
        except UnknownScheduleError:
            # Only other beats can send it: without its schedule and arguments.
            app, task = self._scheduler.app, loads(element.payload)["task"]
            return self._scheduler.Entry(name=name, task=task, app=app, **_run(element, app))

    def __setitem__(self, name: str, entry: ScheduleEntry) -> None:
        self._scheduler.put(name, entry)

    def __delitem__(self, name: str) -> None:
        if not self._scheduler.ask("DEHYDRATOR.REM", id_bytes(name)):
            raise KeyError(name)

    def __len__(self) -> int:
        return int(self._scheduler.ask("DEHYDRATOR.LEN"))

    def __iter__(self) -> Iterator[str]:
        start: Any = "-"
        while start is not None:
            start, rows = self._scheduler.page(start)
            yield from (id_text(name) for name, _ in rows)
