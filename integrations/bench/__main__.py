"""Compares our brokers with the frameworks' own for Redis: the same jobs, on the same machine, one after the other.

    make bench-integrations

Writes target/bench-integrations/results.json, .csv, and the tables of docs/benchmarks-frameworks.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import signal
import sys
import time
import traceback
from dataclasses import asdict
from datetime import date
from pathlib import Path

from contenders import CONTENDERS
from machine import NOISE, wait_for_calm
from page import Results, write_page
from scenarios import SCENARIOS
from trial import Load, Result, Trial

ROOT = Path(__file__).resolve().parents[2]

#: The results of the bench in Ruby.
BESIDE = [ROOT / "target/bench-sidekiq/results.json"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench-integrations", description=__doc__.split("\n")[0])
    parser.add_argument("--server", default="redis-server", help="the program of the server (%(default)s)")
    parser.add_argument("--module", default=str(ROOT / "target/release/libdehydrator.so"))
    parser.add_argument("--jobs", type=int, default=20_000, help="in the quiet scenario (%(default)s)")
    parser.add_argument("--due", default="100:160", help="after how many seconds they are due there (%(default)s)")
    parser.add_argument("--burst-jobs", type=int, default=10_000, help="in a burst (%(default)s)")
    parser.add_argument("--disturbed-jobs", type=int, default=1_500, help="in the others (%(default)s)")
    parser.add_argument("--disturbed-due", default="7:22", help="after how many seconds there (%(default)s)")
    parser.add_argument(
        "--work", type=float, default=0.005, help="seconds that a job takes in the others (%(default)s)"
    )
    parser.add_argument("--killed-jobs", type=int, default=20_000, help="in `killed` (%(default)s; RQ a fifth of it)")
    parser.add_argument("--killed-due", default="30:70", help="after how many seconds there (%(default)s)")
    parser.add_argument("--killed-work", type=float, default=0.001, help="seconds that a job takes there (%(default)s)")
    parser.add_argument("--seed", type=int, default=25)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), metavar="NAME")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), metavar="NAME")
    parser.add_argument("--wait", type=float, default=60, help="seconds to wait, before each, for an idle machine")
    parser.add_argument("--folder", type=Path, default=ROOT / "target/bench-integrations")
    parser.add_argument("--keep", action="store_true", help="keep the results of earlier runs in the folder")
    parser.add_argument("--mend", action="store_true", help="--keep, and repeat missing and noisy measurements")
    parser.add_argument("--beside", type=Path, nargs="+", default=BESIDE, help="results of other benches, for the page")
    parser.add_argument("--no-page", action="store_true", help="do not write docs/benchmarks-frameworks.md")
    parser.add_argument("--only-page", action="store_true", help="only write the page, from the results in the folder")
    return parser.parse_args()


def load_of(options: argparse.Namespace, name: str, scenario: str) -> Load:
    if scenario == "burst":
        return Load(options.burst_jobs, 0.0, 0.0, 0.0, options.seed)
    if scenario == "killed":
        first, last = map(float, options.killed_due.split(":"))
        jobs = options.killed_jobs // (5 if name.startswith("rq-") else 1)
        return Load(jobs, first, last, options.killed_work, options.seed)
    is_quiet = scenario == "quiet"
    first, last = map(float, (options.due if is_quiet else options.disturbed_due).split(":"))
    jobs = options.jobs if is_quiet else options.disturbed_jobs
    return Load(jobs, first, last, 0.0 if is_quiet else options.work, options.seed)


def measure(options: argparse.Namespace, results: Results) -> int:
    """Returns how many measurements failed."""
    failed = 0
    plan = [(name, scenario) for scenario in options.scenarios for name in options.contenders]
    for name, scenario in plan:
        contender = CONTENDERS[name]
        if scenario not in contender.scenarios:
            continue
        stored = results.get(f"{name} {scenario}")
        if options.mend and stored and stored["others"] <= NOISE:
            continue
        if not wait_for_calm(options.wait) and stored and options.mend:
            print(f"{name} {scenario} is left as it is: others are still at work", flush=True)
            continue
        began = time.monotonic()
        load, folder = load_of(options, name, scenario), options.folder / f"{name}-{scenario}"
        try:
            result = Trial(contender, SCENARIOS[scenario], load, options.server, options.module, folder).result
        except Exception:
            print(f"{name} {scenario} could not be measured", file=sys.stderr)
            traceback.print_exc()
            failed += 1
            continue
        results[f"{name} {scenario}"] = {"date": date.today().isoformat(), "load": asdict(load), **asdict(result)}
        say(name, scenario, result, time.monotonic() - began)
        save(options.folder, results)
    return failed


def say(name: str, scenario: str, result: Result, seconds: float) -> None:
    outcome = result.outcome
    print(
        f"{name:20} {scenario:9} {outcome.executions:6} executions, {outcome.once} once, {outcome.twice} twice, "
        f"{outcome.more} more, {outcome.never} never, {outcome.early} early; late p50 {outcome.p50 * 1000:.1f} ms, "
        f"p99 {outcome.p99 * 1000:.1f} ms, at most {outcome.most * 1000:.1f} ms; workers "
        f"{result.rest_greatest >> 20} to {result.peak_greatest >> 20} MB, all {result.rest_all >> 20} to "
        f"{result.peak_all >> 20} MB, {result.worker_seconds:.1f} s; server {result.server_bytes:.0f} bytes each, "
        f"{result.server_seconds:.1f} s; sent in {result.sending:.1f} s{' TOO LATE' if result.sent_late else ''}; "
        f"others took {result.others:.0%}{' TOO MUCH' if result.others > NOISE else ''}; "
        f"{result.killed} killed, {result.ended} ended; took {seconds:.0f} s",
        flush=True,
    )


def save(folder: Path, results: Results) -> None:
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    rows = [{"run": run, **flat(result)} for run, result in results.items()]
    with (folder / "results.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def flat(result: dict[str, object]) -> dict[str, object]:
    told: dict[str, object] = {}
    for name, value in result.items():
        told.update(value if isinstance(value, dict) else {name: value})
    return told


def main() -> int:
    options = arguments()
    # End everything that was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options.folder.mkdir(parents=True, exist_ok=True)
    stored = options.folder / "results.json"
    results = (
        json.loads(stored.read_text())
        if (options.keep or options.mend or options.only_page) and stored.exists()
        else {}
    )
    failed = 0 if options.only_page else measure(options, results)
    if not options.no_page:
        for file in filter(Path.exists, options.beside):
            results |= json.loads(file.read_text())
        write_page(ROOT / "docs/benchmarks-frameworks.md", results)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
