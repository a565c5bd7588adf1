"""A transport for kombu and Celery: tasks with a countdown or an ETA wait in the server.

    app.conf.broker_url = "redis://127.0.0.1:6379/0"
    app.conf.broker_transport = "dehydrator_queue.kombu:Transport"

With Sentinel it is `sentinel://…` and "dehydrator_queue.kombu:SentinelTransport". Once this module was imported, `dehydrator://`
is an alias of the first, and `redis+cluster://host:port,host:port` needs no `broker_transport`.
"""

from kombu.transport import TRANSPORT_ALIASES, _transport_cache

from dehydrator_queue.kombu import celery_control
from dehydrator_queue.kombu.channel import Channel, SentinelChannel
from dehydrator_queue.kombu.cluster.transport import ClusterTransport
from dehydrator_queue.kombu.transport import SentinelTransport, Transport, name_scheme

TRANSPORT_ALIASES.setdefault("dehydrator", "dehydrator_queue.kombu:Transport")
for name in ("redis", "rediss"):
    TRANSPORT_ALIASES[name] = "dehydrator_queue.kombu.cluster.transport:RedisTransport"
    # It may be in use already.
    _transport_cache.pop(name, None)
for name, transport in [
    ("dehydrator", Transport),
    ("dehydrator_queue.kombu:Transport", Transport),
    ("dehydrator_queue.kombu:SentinelTransport", SentinelTransport),
]:
    name_scheme(name, transport.scheme)

__all__ = ["Channel", "ClusterTransport", "SentinelChannel", "SentinelTransport", "Transport", "celery_control"]
