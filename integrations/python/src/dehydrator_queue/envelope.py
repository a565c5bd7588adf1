"""The headers of a job, which carry the context of a trace: a JSON text as in RFC 7464, before the element.

Without headers, an element is what the codec made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

#: An element that begins like this without headers gets empty ones.
MARK = b"\x1e{"


def wrap(headers: Mapping[str, str], element: bytes) -> bytes:
    if not headers and not element.startswith(MARK):
        return element
    return b"\x1e" + json.dumps(dict(headers), separators=(",", ":")).encode() + b"\n" + element


def unwrap(element: bytes) -> tuple[dict[str, str], bytes]:
    """Returns the headers, and what the codec made."""
    if not element.startswith(MARK):
        return {}, element
    text, newline, rest = element.partition(b"\n")
    try:
        headers = json.loads(text[1:])
    except ValueError:
        headers = None
    is_ours = newline and isinstance(headers, dict) and all(isinstance(one, str) for one in headers.values())
    # Otherwise another program pushed it.
    return (headers, rest) if is_ours else ({}, element)
