"""Adds the programs to a wheel, which is for their platform.

PROGRAMS names their folder, PLATFORM the tag: see scripts/release-packages.sh.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        build_data["force_include"][os.environ["PROGRAMS"]] = "dehydrator_queue_server/bin"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['PLATFORM']}"
