from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires

import pytest
from servers import RealServer


def installs(extra: str) -> set[str]:
    """Returns the requirements of an extra, by name."""
    some = requires("dehydrator-queue") or []
    # Builders differ in their quotation marks.
    is_wanted = re.compile(rf"""extra == ['"]{extra}['"]""").search
    return {re.match(r"[\w-]+", one)[0] for one in some if "extra ==" not in one or is_wanted(one)}


def test_redis_py_comes_by_default() -> None:
    # Time zones are those of the system, if it has any.
    always = {"redis", "tzdata"}
    assert installs("valkey") == {*always, "valkey"}
    assert installs("celery") == {*always, "celery", "kombu"}
    assert installs("otel") == {*always, "opentelemetry-api"}
    assert installs("server") == {*always, "dehydrator-queue-server"}
    for extra in ("dramatiq", "taskiq", "rq", "huey"):
        assert installs(extra) == {*always, extra}


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_one_client_library_is_enough(server: RealServer, library: str) -> None:
    other = "valkey" if library == "redis" else "redis"
    program = f"import sys; sys.modules['{other}'] = None\nimport dehydrator_queue\n"
    program += "jobs = dehydrator_queue.Queue(sys.argv[1], 'jobs')\nassert jobs.look(jobs.put(17)).payload == 17"
    subprocess.run([sys.executable, "-c", program, server.url.replace("redis", library)], check=True)


def test_without_a_client_library_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['redis'] = sys.modules['valkey'] = None\nimport dehydrator_queue"
    ended = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert "dehydrator_queue needs a client library" in ended.stderr
    assert "install redis, or dehydrator-queue[valkey]" in ended.stderr


def test_a_python_that_is_too_old_is_named() -> None:
    program = "import sys; sys.version_info = (3, 9, 18)\nimport dehydrator_queue"
    ended = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert ended.stderr.endswith("ImportError: dehydrator_queue needs Python 3.10 or later, and this is 3.9\n")
