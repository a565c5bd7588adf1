"""A server for tests, of the package dehydrator-queue-server.

    from dehydrator_queue.testing import server

    with server() as it:
        jobs = Queue(it.url, "jobs")

pytest has the fixture `dehydrator_server` too.
"""

try:
    from dehydrator_queue_server import Server, server
except ImportError:
    raise ImportError("dehydrator_queue.testing needs the server: install dehydrator-queue[server]") from None

__all__ = ["Server", "server"]
