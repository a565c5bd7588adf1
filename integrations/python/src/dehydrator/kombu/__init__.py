"""A transport of kombu, for Celery: tasks with a countdown or an ETA wait in the server.

    app.conf.broker_url = "redis://127.0.0.1:6379/0"
    app.conf.broker_transport = "dehydrator.kombu:Transport"

With Sentinel it is `sentinel://…` and "dehydrator.kombu:SentinelTransport". Once this module was imported, `dehydrator://`
is an alias of the first.
"""

from kombu.transport import TRANSPORT_ALIASES

from dehydrator.kombu import celery_control
from dehydrator.kombu.channel import Channel, SentinelChannel
from dehydrator.kombu.transport import SentinelTransport, Transport

TRANSPORT_ALIASES.setdefault("dehydrator", "dehydrator.kombu:Transport")

__all__ = ["Channel", "SentinelChannel", "SentinelTransport", "Transport", "celery_control"]
