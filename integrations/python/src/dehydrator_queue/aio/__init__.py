"""The same for asyncio: `Queue`, whose methods are awaited, and `Worker`, whose work is a coroutine."""

from dehydrator_queue.aio.queue import Queue
from dehydrator_queue.aio.worker import Worker

__all__ = ["Queue", "Worker"]
