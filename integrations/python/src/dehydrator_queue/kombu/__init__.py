"""A transport for kombu and Celery: tasks with a countdown or an ETA wait in the server.

    app.conf.broker_url = "redis://127.0.0.1:6379/0"
    app.conf.broker_transport = "dehydrator_queue.kombu:Transport"

With Sentinel it is `sentinel://…` and "dehydrator_queue.kombu:SentinelTransport". Once this module was imported, `dehydrator://`
is an alias of the first.
"""

from kombu.transport import TRANSPORT_ALIASES

from dehydrator_queue.kombu import celery_control
from dehydrator_queue.kombu.channel import Channel, SentinelChannel
from dehydrator_queue.kombu.scheme import name_scheme
from dehydrator_queue.kombu.transport import SentinelTransport, Transport

TRANSPORT_ALIASES.setdefault("dehydrator", "dehydrator_queue.kombu:Transport")
for name, transport in [
    ("dehydrator", Transport),
    ("dehydrator_queue.kombu:Transport", Transport),
    ("dehydrator_queue.kombu:SentinelTransport", SentinelTransport),
]:
    name_scheme(name, transport.scheme)

__all__ = ["Channel", "SentinelChannel", "SentinelTransport", "Transport", "celery_control"]
