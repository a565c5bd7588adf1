"""A patch of `kombu.Connection.switch`, for which kombu has no public API: for one connection, not for the class.

A connection with several URLs uses the next one with `switch`, which takes the transport that the scheme of the URL
names, whatever `broker_transport` says: a worker would wait at lists from then on. The scheme cannot name our transport
instead, as that of `rediss://` also says that the connection is encrypted.
"""

from __future__ import annotations

from typing import Any


def keep_transport(connection: Any) -> None:
    """Makes a connection keep its transport when it switches to another of its URLs."""
    if "switch" in vars(connection):
        return
    switch = connection.switch

    def switch_and_keep(url: str) -> None:
        transport = connection.transport_cls
        switch(url)
        connection.transport_cls = transport

    connection.switch = switch_and_keep
