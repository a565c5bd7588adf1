"""The scripts of a queue of several keys, which all packages have alike: integrations/protocol says what they do."""

from __future__ import annotations

import hashlib
from importlib.resources import files

_HERE = files(__package__)

ROUTED = (_HERE / "routed.lua").read_text("utf-8")
ROUTED_SHA = hashlib.sha1(ROUTED.encode(), usedforsecurity=False).hexdigest()

CHANGE = (_HERE / "change.lua").read_text("utf-8")
