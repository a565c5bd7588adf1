"""The contenders. To add one, write a class here, and add its name to CONTENDERS."""

from contenders.base import Contender, Program
from contenders.celery import (
    CeleryOnDehydrator,
    CeleryOnDehydratorAtIntervals,
    CeleryOnRedis,
    CeleryOnRedisForAnHour,
)
from contenders.dramatiq import DramatiqOnDehydrator, DramatiqOnRedis
from contenders.node import BullMq, NodeOnDehydrator
from contenders.php import LaravelOnDehydrator, LaravelOnRedis, MessengerOnDehydrator, MessengerOnRedis
from contenders.rq import RqOnDehydrator, RqOnRedis, RqWithLeases
from contenders.sidekiq import SidekiqOnRedis, SidekiqReliable
from contenders.taskiq import TaskiqOnDehydrator, TaskiqOnRedis

#: Beside each framework's own, ours.
CONTENDERS: dict[str, Contender] = {
    "celery-redis-hour": CeleryOnRedisForAnHour(),
    "celery-redis": CeleryOnRedis(),
    "celery-dehydrator": CeleryOnDehydrator(),
    "celery-dehydrator-intervals": CeleryOnDehydratorAtIntervals(),
    "dramatiq-redis": DramatiqOnRedis(),
    "dramatiq-dehydrator": DramatiqOnDehydrator(),
    "taskiq-redis": TaskiqOnRedis(),
    "taskiq-dehydrator": TaskiqOnDehydrator(),
    "rq-redis": RqOnRedis(),
    "rq-dehydrator": RqOnDehydrator(),
    "rq-leases": RqWithLeases(),
    "bullmq": BullMq(),
    "dehydrator-node": NodeOnDehydrator(),
    "sidekiq-brpop": SidekiqOnRedis(),
    "sidekiq-reliable": SidekiqReliable(),
    "laravel-redis": LaravelOnRedis(),
    "laravel-dehydrator": LaravelOnDehydrator(),
    "messenger-redis": MessengerOnRedis(),
    "messenger-dehydrator": MessengerOnDehydrator(),
}

__all__ = ["CONTENDERS", "Contender", "Program"]
