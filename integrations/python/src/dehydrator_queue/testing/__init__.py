"""For tests of programs that use this package: a queue without a server, and a server.

    from dehydrator_queue.testing import MemoryServer

    memory = MemoryServer()
    jobs = Queue(memory, "jobs")
    jobs.put("mail", delay=60)
    memory.advance(60)
    memory.drain(Worker(jobs, send))

`MemoryServer` needs nothing else, and the test sets its clock. `server` is a real one, of the package
dehydrator-queue-server:

    with server() as it:
        jobs = Queue(it.url, "jobs")

pytest has the fixture `dehydrator_server` too.
"""

from typing import TYPE_CHECKING, Any

from dehydrator_queue.testing.memory import MemoryServer

if TYPE_CHECKING:
    from dehydrator_queue_server import Server, server

__all__ = ["MemoryServer", "Server", "server"]


def __getattr__(name: str) -> Any:
    if name not in ("Server", "server"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import dehydrator_queue_server
    except ImportError:
        raise ImportError(
            f"dehydrator_queue.testing.{name} needs the server: install dehydrator-queue[server]"
        ) from None
    return getattr(dehydrator_queue_server, name)
