from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

import pytest


def pytest_sessionstart() -> None:
    # An installed wheel that lacks its programs fails.
    try:
        distribution("dehydrator-queue-server")
    except PackageNotFoundError:
        pytest.exit("left out: first install the wheel that scripts/release-packages.sh builds", returncode=0)
