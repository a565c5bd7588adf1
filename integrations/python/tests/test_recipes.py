"""Recipes in Python of docs/."""

from __future__ import annotations

import re
from typing import Any

import pytest
import redis
from servers import ROOT, RealServer


def test_an_id_that_is_there_is_told_from_other_errors(server: RealServer) -> None:
    page = (ROOT / "docs/clients.md").read_text()
    (recipe,) = re.findall(r"```python\n(.*?EXISTS.*?)```", page, re.DOTALL)
    known: dict[str, Any] = {"redis": redis, "client": server.client}
    exec(recipe, known)
    assert [known["push"]("jobs", 60_000, "send mail 17", "job:17") for _ in range(2)] == [True, False]
    server.client.set("string", "x")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        known["push"]("string", 0, "x", "y")
