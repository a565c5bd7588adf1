"""Runs our tests and those of the frameworks on servers, and prints how many pass, fail and are omitted.

usage: run.py [--quick] [--oldest] [--only suite] folder-of-source-distributions server...

    --quick     some of them, in less than three minutes
    --oldest    what concerns Celery, of which that folder, and this Python's environment, hold the oldest version
    --only      one suite: dehydrator, kombu, dramatiq, beat, celery
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1]


@dataclass(frozen=True)
class Suite:
    """Some tests, and how they are run. `{port}` in the environment stands for the port of a server of their own."""

    name: str
    folder: str
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    #: How many processes share the tests, each with a server of its own.
    processes: int = 1


# They wait more than they work.
OWN_QUICK = Suite("dehydrator", "", ["-m", "not slow", "-n", "6", "--dist", "worksteal"])
OWN = Suite("dehydrator", "", ["-n", "2", "--dist", "worksteal"])
OWN_OLDEST = Suite(
    "dehydrator",
    "",
    [
        *(
            f"tests/test_{name}.py"
            for name in ("kombu", "celery", "celery_failover", "celery_cluster", "celery_cluster_failover", "beat")
        ),
        *OWN.arguments,
    ],
)
KOMBU = Suite(
    "kombu",
    "kombu-*",
    ["-p", "aliased", "t/integration/test_redis.py", "t/integration/test_redis_brpop_qos.py"],
    {"REDIS_HOST": "127.0.0.1", "REDIS_6379_TCP": "{port}", "DEHYDRATOR_QUEUE_KEY": "{{queue}}"},
)
KOMBU_QUICK = Suite(
    "kombu",
    "kombu-*",
    [*KOMBU.arguments, "-k", "BasicFunctionality or ExchangeTypes or Priority or Message or EventLoop or Batch"],
    KOMBU.environment,
)
KOMBU_OLDEST = Suite("kombu", "kombu-*", KOMBU.arguments[:3], KOMBU.environment)
DRAMATIQ = Suite(
    "dramatiq",
    "dramatiq-*",
    [
        "-p",
        "aliased_dramatiq",
        "--rootdir",
        ".",
        "-c",
        "/dev/null",
        "-p",
        "no:asyncio",
        "--import-mode",
        "importlib",
        "tests/test_redis.py",
    ],
    {"DEHYDRATOR_URL": "redis://127.0.0.1:{port}"},
)
#: They sleep most of their time.
CELERY_PROCESSES = 4


def of_celery(names: list[str], *more: str) -> Suite:
    files = [f"t/integration/test_{name}.py" for name in names]
    environment = {
        "REDIS_HOST": "127.0.0.1",
        "REDIS_PORT": "{port}",
        "TEST_BROKER": "redis://127.0.0.1:{port}/0",
        # Some tests look for results in this database, and for what is logged at this level.
        "TEST_BACKEND": "redis://127.0.0.1:{port}/0",
        "WORKER_LOGLEVEL": "INFO",
    }
    options = ["-p", "aliased", "--timeout", "300", "--numprocesses", f"{CELERY_PROCESSES}", *more]
    return Suite("celery", "celery-*", [*options, *files], environment, CELERY_PROCESSES)


#: Those of other backends ask for libraries of their own: backend, database_backend, security.
CELERY = of_celery(
    [
        *("tasks", "canvas", "group_chains", "inspect", "worker", "backend_leak_in_fixture_teardown", "beat"),
        *("cache_backend", "connection_recovery", "events_state_memory_leak", "loader", "logfile_format"),
        *("mem_leak_in_exception_handling", "redis_backend", "request_backend_down", "serialization", "upgrade"),
    ]
)
BEAT = Suite(
    "beat",
    "celery-*",
    ["-p", "aliased_beat", *(f"t/unit/app/test_beat.py::test_{name}" for name in ("Scheduler", "SchedulerShutdown"))],
    {"DEHYDRATOR_URL": "redis://127.0.0.1:{port}"},
)
# Later ones have pytest-celery load this.
CELERY_OLDEST = of_celery(["tasks", "canvas", "inspect", "worker"], "-p", "celery.contrib.pytest")


def run(suite: Suite, sources: Path, server: str) -> tuple[str, bool]:
    """Returns the summary of a suite, and whether it passed."""
    os.environ["DEHYDRATOR_SERVER"] = server
    sys.path.insert(0, str(HERE.parent))
    import servers

    servers.SERVER = server
    folder = next(sources.glob(suite.folder)) if suite.folder else PACKAGE
    environment = dict(os.environ)
    # Some tests start programs by their names.
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    started = []
    if suite.environment:
        for _ in range(suite.processes):
            place = Path(tempfile.mkdtemp(prefix="integrations-"))
            started.append(servers.RealServer(place, "--appendfsync", "no"))
        environment["PYTHONPATH"] = f"{HERE}{os.pathsep}{folder}"
        environment["DEHYDRATOR_PORTS"] = " ".join(str(real.port) for real in started)
        for name, value in suite.environment.items():
            environment[name] = value.format(port=started[0].port)
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", *suite.arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line if re.search(r"\d+ (passed|failed|error)", line) else last
    code = process.wait()
    for real in started:
        real.close()
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|deselected|skipped)", last)}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    left_out = counts.get("deselected", 0) + counts.get("skipped", 0)
    name = Path(server).name
    told = f"{name} {suite.name}: {counts.get('passed', 0)} pass, {failed} fail, {left_out} left out"
    return f"{told}, {time.monotonic() - began:.0f} s", code == 0


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("--quick", "--oldest"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--only")
    parser.add_argument("sources", type=Path)
    parser.add_argument("servers", nargs="+")
    asked = parser.parse_args()
    if asked.oldest:
        suites = [OWN_OLDEST, KOMBU_OLDEST, CELERY_OLDEST]
    else:
        suites = [OWN_QUICK, KOMBU_QUICK] if asked.quick else [OWN, KOMBU, DRAMATIQ, BEAT, CELERY]
    suites = [suite for suite in suites if asked.only in (None, suite.name)]
    results = [run(suite, asked.sources, server) for server in asked.servers for suite in suites]
    print("\n" + "\n".join(line for line, _ in results))
    sys.exit(0 if all(well for _, well in results) else 1)


if __name__ == "__main__":
    main()
