"""Formats the results of benches in other languages."""

from __future__ import annotations

from typing import Any

from telling import UNTOLD, Results, is_calm, megabytes, milliseconds, table, wrapped

#: For each contender: its name, and where its jobs wait.
LANGUAGES = {
    "sidekiq": ("Sidekiq", "the server; processes poll every 5 seconds on average"),
    "sidekiq-dehydrator": ("Sidekiq on Dehydrator", "the server"),
    "sidekiq-dehydrator-intervals": ("Sidekiq on Dehydrator, `wake-interval` 20 ms", "the server"),
    "bullmq": ("BullMQ", "the server"),
    "dehydrator-node": ("dehydrator-queue for Node", "the server"),
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


def node_table(results: Results) -> str:
    def speed(result: dict[str, Any]) -> list[str]:
        jobs = result["load"]["jobs"]
        seconds = (
            result["server_seconds_sending"],
            result["server_seconds"] - result["server_seconds_sending"],
            result["worker_seconds"],
        )
        rates = (f"{jobs / result[of]:,.0f}" for of in ("sending", "working"))
        return [*rates, *(f"{one / jobs * 1e6:.0f}" for one in seconds)]

    def million(result: dict[str, Any]) -> list[str]:
        return [f"{result['server_bytes']:,.0f}", megabytes(result["peak_greatest"])]

    def killed(result: dict[str, Any]) -> list[str]:
        return [again(result), f"{result['outcome']['never']:,}"]

    # Bytes do not depend on the noise.
    rows = rows_of(results, {"speed": calm(5, speed), "million": million, "workers": calm(2, killed)})
    if not rows:
        return ""
    fast, broken = (results[f"bullmq {scenario}"] for scenario in ("speed", "workers"))
    said = (
        f"Node: {fast['load']['jobs']:,} jobs that do nothing and are due at once, first all sent, a thousand per "
        f"call, then all done by one worker, {fast['load']['concurrency']} at a time; a million jobs that wait for an "
        "hour or two; and "
        f"{broken['load']['jobs']:,} jobs of {broken['load']['work'] * 1000:.0f} ms each, "
        f"{broken['load']['concurrency']} at a time, while one of two workers is killed every 2.5 seconds."
    )
    head = [
        "",
        "sent per second",
        "done per second",
        "CPU per job, us: server, sending",
        "server, working",
        "worker",
    ]
    head += ["a million waiting: server, bytes each", "worker, MB", "killed: repeated", "never"]
    return wrapped(said) + "\n\n" + table(head, rows)
