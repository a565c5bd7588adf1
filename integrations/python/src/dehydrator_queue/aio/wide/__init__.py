"""Queues of several keys for asyncio: see dehydrator_queue.wide."""
