"""Writes all tables into docs/figures/, and some of them between the markers of docs/benchmarks-frameworks.md."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

from contenders import CONTENDERS
from killed import killed
from languages import LANGUAGES, sidekiq_table
from machine import NOISE
from scenarios import AWAY, BETWEEN_KILLS, SCENARIOS, is_disturbed
from telling import UNTOLD, Results, as_csv, early, is_calm, is_done, megabytes, milliseconds, table, wrapped
from trial import PATIENCE

#: For each framework: its own broker, ours, and ours on a server with an interval between wake-ups.
INTERVALS = {
    "Celery": ("celery-redis-hour", "celery-dehydrator", "celery-dehydrator-intervals"),
    "Sidekiq": ("sidekiq", "sidekiq-dehydrator", "sidekiq-dehydrator-intervals"),
}

#: For each contender: its name, and where its jobs wait.
NAMES = {
    name: (contender.name, contender.waits) for name, contender in CONTENDERS.items() if "quiet" in contender.scenarios
} | LANGUAGES

OPENING, CLOSING = "<!-- bench -->\n", "<!-- /bench -->"


def write_page(page: Path, results: Results) -> None:
    """Replaces those tables for which all results are there."""
    parts = bench(results)
    contents = {
        "bench": parts,
        "burst": [burst_table(results)],
        "interval": [interval_table(results)],
        "killed": [killed(results)],
    }
    for name, content in contents.items():
        if text := joined(content):
            (page.parent / "figures" / f"frameworks-{name}.csv").write_text(as_csv(text))
    # The page leaves out what else was measured.
    if text := joined([parts[at] for at in (0, 1, -1)] if parts else []):
        told = page.read_text()
        start, end = told.index(OPENING) + len(OPENING), told.index(CLOSING)
        page.write_text(f"{told[:start]}\n{text}\n\n{told[end:]}")


def joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def bench(results: Results) -> list[str]:
    """Returns the tables of all contenders, unless some are missing."""
    if len(of_scenario(results, "quiet")) < len(NAMES) - len(INTERVALS):
        return []
    parts = [wrapped(conditions(results)), lateness_table(results), usage_table(results)]
    parts += [wrapped(disturbed_conditions(results)), disturbed_table(results)]
    parts += [sidekiq_table(results)]
    return [*parts, untold(results)]


def burst_table(results: Results) -> str:
    """Returns how many jobs are sent in a second, and then done, and the CPU time of each."""
    head = ["", "sent per second", "done per second", "CPU per job, ms: server", "workers"]
    return table(head, [burst_row(name, result) for name, result in of_scenario(results, "burst").items()])


def burst_row(name: str, result: dict[str, Any]) -> list[str]:
    jobs, sending = result["outcome"]["jobs"], result["sending"]
    # All were due when the first was sent, and none was done before the last was.
    rates = [f"{jobs / seconds:,.0f}" for seconds in (sending, result["outcome"]["most"] - sending)]
    rates = rates if is_calm(result) else [UNTOLD] * 2
    return [NAMES[name][0], *rates, *(processor_time(result, of) for of in ("server", "worker"))]


def interval_table(results: Results) -> str:
    """Returns the CPU time of the server for each job, and how late jobs are, for each way of INTERVALS."""
    rows = []
    for framework, names in INTERVALS.items():
        found = [results.get(f"{name} quiet") for name in names]
        if not all(found):
            return ""
        rows.append([framework, *(price(result) for result in found if result)])
    return table(["CPU per job, ms; late: p99, ms", "its own broker", "ours", "`wake-interval` 20 ms"], rows)


def price(result: dict[str, Any]) -> str:
    late = milliseconds(result["outcome"]["p99"])
    return f"{processor_time(result, 'server')}; {late}" if is_calm(result) else UNTOLD


def of_scenario(results: Results, scenario: str) -> dict[str, dict[str, Any]]:
    # Contenders in other languages have other disturbances.
    names = NAMES if scenario == "quiet" else CONTENDERS
    at_intervals = {names[-1] for names in INTERVALS.values()}
    found = {name: results.get(f"{name} {scenario}") for name in names if name not in at_intervals}
    return {name: result for name, result in found.items() if result}


def untold(results: Results) -> str:
    if all(map(is_calm, results.values())):
        return ""
    return f"{UNTOLD}: other programs used more than {NOISE:.0%} of the machine, so repeat the measurement."


def conditions(results: Results) -> str:
    runs = list(results.values())
    quiet = of_scenario(results, "quiet")
    if not quiet:
        return ""
    load = next(iter(quiet.values()))["load"]
    versions = dict.fromkeys(part for run in runs for part in run["versions"].split(", "))
    when = date.fromisoformat(max(run["date"] for run in runs))
    return (
        f"{load['jobs']:,} jobs that do nothing, due at random moments from {load['first']:.0f} to {load['last']:.0f} "
        "seconds after the first was sent (Sidekiq: from 20 seconds); two worker processes. "
        f"Redis {runs[0]['server']} with an append-only file, `everysec`; "
        f"{', '.join(versions)}; {when.day} {when:%B %Y}, {os.cpu_count()} cores of a virtual machine, "
        f"{processor()}."
    )


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def lateness_table(results: Results) -> str:
    head = ["", "jobs wait in", "executions", "early", "late: median, ms", "p99", "max"]
    return table(head, [lateness_row(name, result) for name, result in of_scenario(results, "quiet").items()])


def lateness_row(name: str, result: dict[str, Any]) -> list[str]:
    outcome = result["outcome"]
    executions = f"{outcome['executions']:,}"
    if outcome["never"]:
        executions += f"; {outcome['never']:,} jobs never"
    late = [milliseconds(outcome[part]) if is_calm(result) else UNTOLD for part in ("p50", "p99", "most")]
    counted = [executions, early(outcome)] if is_done(result) else [UNTOLD] * 2
    return [*NAMES[name], *counted, *late]


def usage_table(results: Results) -> str:
    head = ["", "largest worker process, MB", "all workers, MB", "server, bytes per waiting job"]
    head += ["CPU per job, ms: server", "workers"]
    return table(head, [usage_row(name, result) for name, result in of_scenario(results, "quiet").items()])


def usage_row(name: str, result: dict[str, Any]) -> list[str]:
    if not is_done(result):
        return [NAMES[name][0], *[UNTOLD] * 5]
    return [
        NAMES[name][0],
        *(grown(result, of) for of in ("greatest", "all")),
        f"{result['server_bytes']:,.0f}",
        *(processor_time(result, of) for of in ("server", "worker")),
    ]


def grown(result: dict[str, Any], of: str) -> str:
    """Formats the memory before and at the peak, if it was measured."""
    if f"rest_{of}" not in result:
        return ""
    return f"{megabytes(result[f'rest_{of}'])} to {megabytes(result[f'peak_{of}'])}"


def processor_time(result: dict[str, Any], of: str) -> str:
    if f"{of}_seconds" not in result:
        return ""
    milli = result[f"{of}_seconds"] / result["outcome"]["jobs"] * 1000
    return f"{milli:.2f}" if is_calm(result) else UNTOLD


def disturbed() -> list[str]:
    return [name for name in SCENARIOS if is_disturbed(name)]


def disturbed_conditions(results: Results) -> str:
    found = [result for scenario in disturbed() for result in of_scenario(results, scenario).values()]
    if not found:
        return ""
    load = found[0]["load"]
    return (
        f"Failures: {load['jobs']:,} jobs of {load['work'] * 1000:.0f} ms each, due from "
        f"{load['first']:.0f} to {load['last']:.0f} seconds after the first was sent; two workers of one process each. "
        f"Every {BETWEEN_KILLS:g} seconds one of them, or the scheduler, is killed with `kill -9` and restarted; or "
        f"the server is killed twice and is down for {AWAY:g} s each time, with `appendfsync always`; or it fails over "
        "to its replica with `FAILOVER`, behind a constant address. Processes that exit are restarted. The table shows "
        f"how many executions were repeated, how many jobs did not run within {PATIENCE:.0f} seconds after the last "
        "was due, and the 99th percentile and the maximum of the lateness."
    )


def disturbed_table(results: Results) -> str:
    by_scenario = {scenario: of_scenario(results, scenario) for scenario in disturbed()}
    by_scenario = {scenario: found for scenario, found in by_scenario.items() if found}
    names = [name for name in CONTENDERS if any(name in found for found in by_scenario.values())]
    head = [""]
    for scenario in by_scenario:
        head += [f"{SCENARIOS[scenario].name}: repeated", "never", "late, s: p99, max"]
    rows = []
    for name in names:
        row = [NAMES[name][0]]
        for found in by_scenario.values():
            row += disturbed_cells(found[name]) if name in found else [""] * 3
        rows.append(row)
    return table(head, rows)


def disturbed_cells(result: dict[str, Any]) -> list[str]:
    if not is_calm(result):
        return [UNTOLD] * 3
    outcome = result["outcome"]
    again = outcome["executions"] - (outcome["jobs"] - outcome["never"])
    return [f"{again:,}", f"{outcome['never']:,}", f"{outcome['p99']:.2f}, {outcome['most']:.1f}"]
