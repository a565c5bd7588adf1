from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import RealServer


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = RealServer(tmp_path_factory.mktemp("server"))
    yield server
    server.close()


@pytest.fixture
def server(shared_server: RealServer) -> RealServer:
    """An empty server with the module."""
    shared_server.client.flushall()
    return shared_server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RealServer]:
    """A server that the test may kill."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = RealServer(folder)
    yield server
    server.close()


@pytest.fixture
def bare_server(tmp_path: Path) -> Iterator[RealServer]:
    """A server without the module."""
    folder = tmp_path / "bare"
    folder.mkdir()
    server = RealServer(folder, module=False)
    yield server
    server.close()
