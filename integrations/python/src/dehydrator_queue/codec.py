"""Converts payloads to bytes and back."""

from __future__ import annotations

import json
from typing import Any, Protocol


class Codec(Protocol):
    """Converts payloads to bytes and back. If `decode` raises an error, the element becomes a dead letter."""

    def encode(self, payload: Any) -> bytes: ...

    def decode(self, element: bytes) -> Any: ...


class Json:
    """JSON in UTF-8: the default codec of a queue."""

    def encode(self, payload: Any) -> bytes:
        try:
            # No other language reads NaN.
            return json.dumps(payload, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"the `payload` is no JSON: {error}. Convert it, or give the queue another `codec`") from error

    def decode(self, element: bytes) -> Any:
        return json.loads(element)


class Raw:
    """The bytes, unchanged."""

    def encode(self, payload: Any) -> bytes:
        return payload.encode() if isinstance(payload, str) else bytes(payload)

    def decode(self, element: bytes) -> Any:
        return element
