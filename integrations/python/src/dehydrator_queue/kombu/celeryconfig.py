"""A configuration for Celery with the transport alone, for programs that are given a URL and no application.

CELERY_CONFIG_MODULE=dehydrator_queue.kombu.celeryconfig celery-exporter --broker-url=redis://127.0.0.1:6379/0
"""

# Its import names the scheme.
import dehydrator_queue.kombu  # noqa: F401

broker_transport = "dehydrator_queue.kombu:Transport"
