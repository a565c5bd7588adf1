"""A broker for Dramatiq: see dehydrator_queue.dramatiq.broker."""

from dehydrator_queue.dramatiq.broker import DehydratorBroker, DehydratorConsumer
from dehydrator_queue.dramatiq.schedules import cron, every

__all__ = ["DehydratorBroker", "DehydratorConsumer", "cron", "every"]
