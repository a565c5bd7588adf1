"""The task of an entry, as JSON."""

from __future__ import annotations

from typing import Any

from kombu.utils.json import JSONEncoder, dumps, loads

#: Marks what JSON cannot tell: only a beat that has the entry in its settings can send it.
LOCAL = "__local__"


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


def encode(entry: Any, *, settings: bool) -> bytes:
    """`settings`: the entry is one of `beat_schedule`."""
    told = {"task": entry.task, "args": entry.args, "kwargs": entry.kwargs, "options": entry.options}
    if settings:
        told["settings"] = True
    encoded: str = dumps(told, cls=_Encoder, sort_keys=True, separators=(",", ":"))
    return encoded.encode()


def decode(payload: bytes) -> dict[str, Any]:
    """Returns the task, its arguments and options."""
    told = loads(payload)
    return {
        "task": told["task"],
        "args": tuple(told["args"] or ()),
        "kwargs": told["kwargs"],
        "options": told["options"],
    }


def is_of_settings(payload: bytes) -> bool:
    return bool(loads(payload).get("settings"))


def is_local(payload: bytes) -> bool:
    return f'"{LOCAL}":'.encode() in payload
