"""Writes the table of docs/benchmarks.md, between its markers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from systems import SYSTEMS
from telling import milliseconds, table

OPENING, CLOSING = "<!-- field -->\n", "<!-- /field -->"
HEAD = ["", "put, us", "cancel, us", "take and settle, us", "memory, bytes", "disk, bytes", "late: p50, ms", "p99"]
HEAD += ["server killed: lost", "twice"]


def write_page(page: Path, results: dict[str, dict[str, Any]]) -> None:
    """Replaces the table, if the results of all systems are there."""
    if missing := SYSTEMS.keys() - results.keys():
        print("the page is left as it is, without", *sorted(missing))
        return
    told = page.read_text()
    start, end = told.index(OPENING) + len(OPENING), told.index(CLOSING)
    rows = [row(results[name]) for name in SYSTEMS]
    versions = ", ".join(dict.fromkeys(results[name]["version"] for name in SYSTEMS))
    page.write_text(f"{told[:start]}\n{table(HEAD, rows)}\n\n{versions}.\n\n{told[end:]}")


def row(result: dict[str, Any]) -> list[str]:
    cells = [result["name"], f"{result['put']:,.0f}", f"{result['cancel']:,.0f}" if "cancel" in result else ""]
    cells += [f"{result['take']:,.0f}", f"{result['memory']:,.0f}", f"{result['disk']:,.0f}"]
    cells += [milliseconds(result["p50"] / 1000), milliseconds(result["p99"] / 1000)]
    return [*cells, str(result["lost"]), str(result["twice"])]
