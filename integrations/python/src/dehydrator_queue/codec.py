"""How what is put away becomes bytes, and back."""

from __future__ import annotations

import json
from typing import Any, Protocol


class Codec(Protocol):
    """Turns payloads into bytes and back. Whatever `decode` raises makes a dead letter of the element."""

    def encode(self, payload: Any) -> bytes: ...

    def decode(self, element: bytes) -> Any: ...


class Json:
    """JSON in UTF-8: the codec of a queue that is told no other."""

    def encode(self, payload: Any) -> bytes:
        return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()

    def decode(self, element: bytes) -> Any:
        return json.loads(element)


class Raw:
    """The bytes themselves."""

    def encode(self, payload: Any) -> bytes:
        return payload.encode() if isinstance(payload, str) else bytes(payload)

    def decode(self, element: bytes) -> Any:
        return element
