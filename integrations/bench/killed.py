"""Formats the results of `killed`, where each framework's own is measured beside ours."""

from __future__ import annotations

from datetime import date
from typing import Any

from contenders import CONTENDERS
from scenarios import BETWEEN_KILLS
from telling import Results, early, milliseconds, table, wrapped


def killed(results: Results) -> str:
    """Returns the table, unless something is missing.

    It is told whatever the noise: each framework's own is measured beside ours, and by the time of the processor.
    """
    names = [name for name, contender in CONTENDERS.items() if "killed" in contender.scenarios]
    found = {name: results[f"{name} killed"] for name in names if f"{name} killed" in results}
    if len(found) < len(names):
        return ""
    head = ["", "jobs", "never", "repeated", "early", "late: median, ms", "p99", "CPU per job, ms: server", "workers"]
    return f"{wrapped(conditions(found))}\n\n{table(head, [row(*one) for one in found.items()])}"


def conditions(found: Results) -> str:
    first = next(iter(found.values()))
    load, when = first["load"], date.fromisoformat(max(one["date"] for one in found.values()))
    versions = dict.fromkeys(part for one in found.values() for part in one["versions"].split(", "))
    noise = [one["others"] for one in found.values()]
    return (
        f"Jobs of {load['work'] * 1000:g} ms, due at random from {load['first']:.0f} to {load['last']:.0f} seconds "
        f"after the first was sent. Every {BETWEEN_KILLS:g} seconds one of two workers is killed with `kill -9` and "
        "restarted; its jobs come again after ten seconds where that can be set. Starts of workers are in their CPU "
        f"time. Redis {first['server']}, `everysec`; {', '.join(versions)}; {when.day} {when:%B %Y}, one after the "
        f"other, while other programs took {min(noise):.0%} to {max(noise):.0%} of the two cores: the lateness is "
        "mostly theirs, so compare only the rows of one framework."
    )


def row(name: str, result: dict[str, Any]) -> list[str]:
    outcome = result["outcome"]
    again = outcome["executions"] - (outcome["jobs"] - outcome["never"])
    counts = [f"{one:,}" for one in (outcome["jobs"], outcome["never"], again)]
    late = [milliseconds(outcome[part]) for part in ("p50", "p99")]
    each = [f"{result[f'{of}_seconds'] / outcome['jobs'] * 1000:.2f}" for of in ("server", "worker")]
    return [CONTENDERS[name].name, *counts, early(outcome), *late, *each]
