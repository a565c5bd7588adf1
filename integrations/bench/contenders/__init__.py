"""The contenders. To add one, write a class here, and add its name to CONTENDERS."""

from contenders.base import Contender, Program
from contenders.celery import (
    CeleryOnDehydrator,
    CeleryOnDehydratorAtIntervals,
    CeleryOnRedis,
    CeleryOnRedisForAnHour,
)
from contenders.dramatiq import DramatiqOnDehydrator, DramatiqOnRedis
from contenders.rq import RqOnDehydrator, RqOnRedis
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
}

__all__ = ["CONTENDERS", "Contender", "Program"]
