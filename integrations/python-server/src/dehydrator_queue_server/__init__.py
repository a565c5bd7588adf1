"""A Valkey server with the module Dehydrator.

`dehydrator-server` starts it in a terminal, and `dehydrator-cli` talks to it. In tests:

    with server() as it:
        jobs = Queue(it.url, "jobs")

or pytest's fixture `dehydrator_server`, which is there when this package is.
"""

from dehydrator_queue_server.temporary import Server, server

__version__ = "0.1.0"

__all__ = ["Server", "server"]
