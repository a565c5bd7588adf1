from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from servers import RealServer
from topologies import Cluster, Pair, Sentinels
from workers import Run, running

from dehydrator_queue import Queue

Closes = TypeVar("Closes", RealServer, Pair)


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
def jobs(server: RealServer) -> Queue[Any]:
    """An empty queue."""
    return Queue(server.url, "jobs")


@pytest.fixture(params=["threads", "asyncio"])
def run(request: pytest.FixtureRequest, server: RealServer) -> Run:
    """Runs a worker of either kind on the queue: see `running`."""
    return partial(running, request.param, server.url)


def served(folder: Path, start: Callable[[Path], Closes]) -> Iterator[Closes]:
    """Yields the started server, in a new folder."""
    folder.mkdir()
    started = start(folder)
    yield started
    started.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RealServer]:
    """A server that the test may kill."""
    yield from served(tmp_path / "server", RealServer)


@pytest.fixture
def bare_server(tmp_path: Path) -> Iterator[RealServer]:
    """A server without the module."""
    yield from served(tmp_path / "bare", partial(RealServer, module=False))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """A primary and its replica."""
    yield from served(tmp_path / "pair", Pair)


@pytest.fixture
def sentinels(tmp_path: Path, pair: Pair) -> Iterator[Sentinels]:
    sentinels = Sentinels(tmp_path, pair)
    yield sentinels
    sentinels.close()


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """An empty cluster of three primaries."""
    for node in shared_cluster.nodes:
        node.client.flushall()
    return shared_cluster


@pytest.fixture(params=["server", "cluster"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty server, and of an empty cluster."""
    at: RealServer | Cluster = request.getfixturevalue(request.param)
    return at.url
