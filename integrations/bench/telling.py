"""How results are told in a page."""

from __future__ import annotations

from textwrap import fill
from typing import Any

from machine import NOISE

#: What was not measured on a calm machine is not told.
UNTOLD = "?"

#: By contender and scenario: what results.json holds.
Results = dict[str, dict[str, Any]]


def wrapped(text: str) -> str:
    return fill(text, 128, break_on_hyphens=False)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Nothing, if there are no rows."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else ""


def is_calm(result: dict[str, Any]) -> bool:
    return bool(result["others"] <= NOISE)


def is_done(result: dict[str, Any]) -> bool:
    """Whether what does not depend on time can be told: noise may be why jobs are missing."""
    return is_calm(result) or not result["outcome"]["never"]


def milliseconds(seconds: float) -> str:
    told = seconds * 1000
    return f"{told:.1f}" if told < 10 else f"{told:,.0f}"


def megabytes(count: float) -> str:
    return f"{count / (1 << 20):.0f}"


def early(outcome: dict[str, Any]) -> str:
    if not outcome["early"]:
        return "0"
    return f"{outcome['early']:,}, by {milliseconds(-outcome['earliest'])} ms at most"
