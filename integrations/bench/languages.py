"""Formats the results of the bench in Ruby."""

from __future__ import annotations

from typing import Any

from telling import UNTOLD, Results, is_calm, milliseconds, table, wrapped

#: For each contender: its name, and where its jobs wait.
LANGUAGES = {
    "sidekiq": ("Sidekiq", "the server; processes poll every 5 seconds on average"),
    "sidekiq-dehydrator": ("Sidekiq on Dehydrator", "the server"),
    "sidekiq-dehydrator-intervals": ("Sidekiq on Dehydrator, `wake-interval` 20 ms", "the server"),
}


def rows_of(results: Results, cells: dict[str, Any]) -> list[list[str]]:
    """Returns a row for each contender with all results. `cells`: the format of each scenario's result."""
    return [
        [told, *(cell for scenario, tell in cells.items() for cell in tell(results[f"{name} {scenario}"]))]
        for name, (told, _) in LANGUAGES.items()
        if all(f"{name} {scenario}" in results for scenario in cells)
    ]


def calm(count: int, tell: Any) -> Any:
    """Replaces the cells of a result that had too much noise."""
    return lambda result: tell(result) if is_calm(result) else [UNTOLD] * count


def again(result: dict[str, Any]) -> str:
    outcome = result["outcome"]
    return f"{outcome['executions'] - (outcome['jobs'] - outcome['never']):,}"


def sidekiq_table(results: Results) -> str:
    def killed(result: dict[str, Any]) -> list[str]:
        return [again(result), f"{result['outcome']['never']:,}", milliseconds(result["outcome"]["p99"])]

    rows = rows_of(results, {"poller": calm(3, killed)})
    if not rows:
        return ""
    result = results["sidekiq poller"]
    said = (
        "Sidekiq, with the same jobs, while a process that only polls for due jobs is killed with `kill -9` every one "
        f"or two seconds, {result['killed']} times:"
    )
    return wrapped(said) + "\n\n" + table(["", "repeated", "never", "late: p99, ms"], rows)
