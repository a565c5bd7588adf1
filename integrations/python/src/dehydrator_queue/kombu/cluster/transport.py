"""The transport."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from kombu.transport import redis as base
from kombu.utils.url import safequote

from dehydrator_queue.kombu.cluster.channel import ClusterChannel
from dehydrator_queue.kombu.cluster.client import ClusterClient
from dehydrator_queue.kombu.cluster.poller import Poller
from dehydrator_queue.kombu.transport import Transport

#: What kombu leaves of a URL when it has taken away the name of the transport.
REST = "cluster://"


class ClusterTransport(Transport):
    """The transport for a cluster, which has no databases."""

    Channel = ClusterChannel
    can_parse_url = True
    supports_batch_publish = False

    #: The client of all commands but those that sleep.
    cluster: ClusterClient | None = None

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.cycle = Poller()
        user, at, hosts = client.hostname.removeprefix(REST).rpartition("@")
        if at:
            # Celery tells others the name of the host, without the password.
            name, _, password = user.partition(":")
            client.userid, client.password = unquote(name) or None, unquote(password) or None
        client.hostname = REST + hosts.partition("/")[0]

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        at = self.client
        password = (safequote(at.password) if include_password else mask) if at.password else ""
        user = f"{safequote(at.userid or '')}:{password}@" if at.userid or at.password else ""
        return f"{at.uri_prefix}+{REST}{user}{uri.removeprefix(REST)}"

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        super().register_with_event_loop(connection, loop)
        self.cycle.remove = loop.remove
        if self.cluster is not None:
            # The loop must not wait for one node.
            self.cluster.patience = 0

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        if self.cluster is not None:
            # A late ack connects again.
            self.cluster.disconnect_connection_pools()


class RedisTransport(base.Transport):
    """kombu's own transport, or ours for a cluster.

    By the scheme `redis+cluster`, kombu chooses the transport `redis`, whatever `broker_transport` is.
    """

    def __new__(cls, client: Any, **kwargs: Any) -> Any:
        if str(client.hostname or "").startswith(REST):
            return ClusterTransport(client, **kwargs)
        return super().__new__(cls)
