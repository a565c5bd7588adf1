"""What pytest has when this package is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dehydrator_queue_server.temporary import Server, server


@pytest.fixture(scope="session")
def dehydrator_server_of_session() -> Iterator[Server]:
    """A server for all tests."""
    with server() as one:
        yield one


@pytest.fixture
def dehydrator_server(dehydrator_server_of_session: Server) -> Server:
    """A server with no keys. All tests have the same one, each in its turn."""
    dehydrator_server_of_session.flush()
    return dehydrator_server_of_session
