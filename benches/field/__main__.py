"""Compares queues beyond this project with Dehydrator: the same jobs, on the same machine, one after the other.

    make bench-field

Writes target/bench-field/results.json, and the table of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trials
from machine import wait_for_calm
from page import write_page
from system import Options, System
from systems import SYSTEMS

ROOT = Path(__file__).resolve().parents[2]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench-field", description=__doc__.split("\n")[0])
    parser.add_argument("--redis", default="redis-server", help="the program of Redis (%(default)s)")
    parser.add_argument("--module", default=str(ROOT / "target/release/libdehydrator.so"))
    parser.add_argument("--pgmq", default="pgmq-cli", help="the program that installs pgmq (%(default)s)")
    parser.add_argument("--jobs", type=int, default=20_000, help="of which the cost is measured (%(default)s)")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="whose size is measured (%(default)s)")
    parser.add_argument("--late", type=int, default=2_000, help="whose lateness is measured (%(default)s)")
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="NAME")
    parser.add_argument("--wait", type=float, default=60, help="seconds to wait, before each, for an idle machine")
    parser.add_argument("--folder", type=Path, default=ROOT / "target/bench-field")
    parser.add_argument("--no-page", action="store_true", help="do not write docs/benchmarks.md")
    parser.add_argument("--only-page", action="store_true", help="only write the page, from the results in the folder")
    return parser.parse_args()


def measure(options: argparse.Namespace, kind: type[System]) -> dict[str, Any]:
    """Returns the results of one system."""
    result: dict[str, Any] = {"name": kind.name, "calm": True}
    servers = Options(options.redis, options.module, options.pgmq)
    measurements = {
        "costs": lambda system: trials.costs(system, options.jobs, random.Random(options.seed)),
        "waiting": lambda system: trials.waiting(system, options.waiting),
        "lateness": lambda system: trials.lateness(system, options.late, random.Random(options.seed)),
        "killed": lambda system: trials.killed(system, options.late, random.Random(options.seed)),
    }
    for part, measurement in measurements.items():
        result["calm"] &= wait_for_calm(options.wait)
        print(f"{kind.name}: {part}", flush=True)
        with TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
            system = kind(servers, Path(folder))
            try:
                result |= {"version": system.version(), **measurement(system)}
            finally:
                system.close()
    return result


def main() -> int:
    options = arguments()
    stored = options.folder / "results.json"
    results = json.loads(stored.read_text()) if stored.exists() else {}
    failed = 0
    for name in [] if options.only_page else options.systems:
        try:
            results[name] = measure(options, SYSTEMS[name])
        except Exception:
            traceback.print_exc()
            failed += 1
            continue
        print(name, json.dumps(results[name]), flush=True)
        options.folder.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps(results, indent=1))
    if noisy := [name for name, result in results.items() if not result["calm"]]:
        print("other programs were at work:", *noisy)
    if not options.no_page:
        write_page(ROOT / "docs/benchmarks.md", results)
    return failed


if __name__ == "__main__":
    sys.exit(main())
