"""A broker for taskiq: see dehydrator_queue.taskiq.broker."""

from dehydrator_queue.taskiq.broker import DehydratorBroker

__all__ = ["DehydratorBroker"]
