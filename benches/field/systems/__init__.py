"""The systems that are compared. To add one, write a class in a file of its own, and add it to SYSTEMS."""

from system import System
from systems.beanstalkd import Beanstalkd
from systems.bullmq import BullMq
from systems.dehydrator import Dehydrator
from systems.graphile_worker import GraphileWorker
from systems.nats import Nats
from systems.pgmq import Pgmq
from systems.rabbitmq import RabbitMq
from systems.sorted_set import SortedSet

SYSTEMS: dict[str, type[System]] = {
    "dehydrator": Dehydrator,
    "sorted-set": SortedSet,
    "bullmq": BullMq,
    "beanstalkd": Beanstalkd,
    "pgmq": Pgmq,
    "graphile-worker": GraphileWorker,
    "nats": Nats,
    "rabbitmq": RabbitMq,
}

__all__ = ["SYSTEMS"]
