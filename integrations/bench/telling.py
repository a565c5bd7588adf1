"""Formats results for the page."""

from __future__ import annotations

from csv import writer
from io import StringIO
from textwrap import fill
from typing import Any

from machine import NOISE

#: Stands for results that were disturbed by other programs.
UNTOLD = "?"

#: The contents of results.json, by contender and scenario.
Results = dict[str, dict[str, Any]]


def wrapped(text: str) -> str:
    return fill(text, 128, break_on_hyphens=False)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a table in Markdown, or nothing if there are no rows."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else ""


def as_csv(text: str) -> str:
    """Returns tables and lines in Markdown as CSV, as benches/csv.rs does: lines of text begin with `#`."""
    written = StringIO()
    rows = writer(written, lineterminator="\n")
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            written.write(f"# {line}\n" if line.strip() else "\n")
        elif not all(set(cell) <= set("-:") for cell in cells):
            rows.writerow(cells)
    return written.getvalue()


def is_calm(result: dict[str, Any]) -> bool:
    return bool(result["others"] <= NOISE)


def is_done(result: dict[str, Any]) -> bool:
    """Returns whether results that do not depend on time are valid: noise can be the reason for missing jobs."""
    return is_calm(result) or not result["outcome"]["never"]


def milliseconds(seconds: float) -> str:
    told = seconds * 1000
    return f"{told:.1f}" if told < 10 else f"{told:,.0f}"


def megabytes(count: float) -> str:
    return f"{count / (1 << 20):.0f}"


def early(outcome: dict[str, Any]) -> str:
    if not outcome["early"]:
        return "0"
    return f"{outcome['early']:,}, by up to {milliseconds(-outcome['earliest'])} ms"
