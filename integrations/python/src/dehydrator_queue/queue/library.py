"""The client library: redis-py or valkey-py, whichever is installed. All names but one are the same."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib import import_module
from inspect import iscoroutinefunction
from threading import Lock
from types import ModuleType
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit


class Client(Protocol):
    """A client that sends a command and returns its reply: `redis.Redis`, `redis.RedisCluster`, `valkey.Valkey`..."""

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


def _found() -> list[ModuleType]:
    found = []
    for name in ("redis", "valkey"):
        try:
            found.append(import_module(name))
        except ImportError:
            continue
    if not found:
        raise ImportError("dehydrator_queue needs a client library: install redis, or dehydrator-queue[valkey]")
    return found


LIBRARIES = _found()


def _errors(*names: str) -> tuple[type[Exception], ...]:
    return tuple(getattr(one.exceptions, name) for one in LIBRARIES for name in names if hasattr(one.exceptions, name))


ResponseError = _errors("ResponseError")
NO_SCRIPT, NO_MEMORY = _errors("NoScriptError"), _errors("OutOfMemoryError")
#: MOVED is a kind of ASK in these libraries.
MovedError, AskError = _errors("MovedError"), _errors("AskError")
key_slot: Callable[[bytes], int] = import_module(f"{LIBRARIES[0].__name__}.crc").key_slot
# These libraries treat a wrong password as a connection error; retrying does not help.
_LASTING = _errors("AuthenticationError", "AuthorizationError", "NoPermissionError")
#: The errors of a broken connection, or of a server that is down.
BROKEN: tuple[type[Exception], ...] = (
    *_errors("ConnectionError", "TimeoutError", "ClusterDownError", "MasterDownError"),
    OSError,
)
_SILENCE = (*_errors("TimeoutError"), TimeoutError)
#: The codes of errors that pass: see integrations/protocol.
_PASSING_CODES = {
    *("BUSY", "UNBLOCKED", "READONLY", "NOREPLICAS", "MISCONF", "LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN"),
    *("MOVED", "ASK", "REDIRECT"),
}
_PASSING_KINDS = (
    *_errors("ReadOnlyError", "BusyLoadingError", "TryAgainError", "SlotNotCoveredError", "AskError"),
    # Errors of replies, too, whose text lacks the word.
    *_errors("ClusterDownError", "MasterDownError"),
)
# Also raised for keys in several slots, which is permanent: the text distinguishes them.
_CLUSTER = _errors("RedisClusterException", "ValkeyClusterException", "ClusterError")
# The first: a slot moves for longer than the library sends a command from node to node.
_CLUSTER_AWAY = (
    "TTL exhausted",
    "Redis Cluster cannot be connected",
    "Valkey Cluster cannot be connected",
    "All slots are not covered",
)

#: Reply timeout in seconds for commands that do not block. Then they are retried on another connection.
REPLY = 5.0


def passes(error: Exception) -> bool:
    """Returns whether the same command may succeed later."""
    if isinstance(error, _PASSING_KINDS):
        return True
    if isinstance(error, _LASTING):
        return False
    if isinstance(error, ResponseError):
        text = str(error)
        return text.partition(" ")[0] in _PASSING_CODES or "max number of clients" in text
    if isinstance(error, _CLUSTER):
        return str(error).startswith(_CLUSTER_AWAY)
    return isinstance(error, BROKEN) or _lost_a_race(error)


def _lost_a_race(error: Exception) -> bool:
    """Returns whether the library's own client of a cluster has lost a node, or a connection, to another thread."""
    if not isinstance(error, AttributeError) or (place := error.__traceback__) is None:
        return False
    while place.tb_next is not None:
        place = place.tb_next
    return str(place.tb_frame.f_globals.get("__name__")).startswith(("redis.", "valkey."))


def doubts_others(error: Exception) -> bool:
    """Returns whether idle connections may have the same problem: silent, or to the same wrong server."""
    return isinstance(error, _SILENCE) or not isinstance(error, BROKEN)


def connect(url: str | None, timeout: float, *, asyncio: bool = False, **options: Any) -> Any:
    """Creates a client. `timeout`: the reply timeout in seconds. Without a URL, `options` have the address.

    In addition to the URLs of the library, there are `redis+cluster://host:port,host:port` for a cluster, and
    `redis+sentinel://user:password@host:port,host:port/name/db` for the primary that Sentinel calls `name`.
    """
    scheme, _, rest = (url or "redis://").partition("://")
    library, kind = LIBRARIES[0], "Redis"
    if scheme.startswith("valkey") or library.__name__ == "valkey":
        library, kind = import_module("valkey"), "Valkey"
    package = import_module(f"{library.__name__}.asyncio") if asyncio else library
    options.setdefault("socket_timeout", timeout)
    # redis-py's own limit (100 since version 8) raises an error for the next user.
    options.setdefault("max_connections", 2**31)
    if url is None:
        return getattr(package, kind)(**options)
    scheme, _, how = scheme.partition("+")
    if how == "cluster":
        first, *others = _hosts(f"{scheme}://{rest}")
        node = import_module(f"{package.__name__}.cluster").ClusterNode
        options["startup_nodes"] = [node(at.hostname or "localhost", at.port or 6379) for at in map(urlsplit, others)]
        make = partial(getattr(package, f"{kind}Cluster").from_url, first, **options)
        ats = [_host_port(at.hostname or "localhost", at.port or 6379) for at in map(urlsplit, (first, *others))]
        return sent_once(make()) if asyncio else LaterCluster(lambda: sent_once(make()), ats)
    if how == "sentinel":
        return _sentinel(library.__name__, f"{scheme}://{rest}", asyncio, options)
    return getattr(package, kind).from_url(url, **options)


def sent_once(client: Any) -> Any:
    """Makes the client of a cluster send each command once: `Server` resends it, and knows when to give up.

    The library's own waits ten times for a silent node.
    """
    retry = getattr(client, "retry", None)
    if retry is not None and hasattr(retry, "update_retries"):
        client.retry = deepcopy(retry)
        client.retry.update_retries(0)
    if hasattr(client, "cluster_error_retry_attempts"):
        client.cluster_error_retry_attempts = 0
    return client


class LaterCluster:
    """A cluster client that connects at its first command.

    The library's own connects when it is created, and raises an error if no node replies. So no program could start
    before the cluster.
    """

    def __init__(self, make: Callable[[], Any], addresses: list[str]) -> None:
        self.addresses = addresses
        self._make = make
        self._client: Any = None
        self._making = Lock()

    def made(self) -> Any:
        """Returns the client of the library."""
        with self._making:
            if self._client is None:
                self._client = self._make()
        return self._client

    def execute_command(self, *args: Any, **options: Any) -> Any:
        return self.made().execute_command(*args, **options)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def _hosts(url: str) -> list[str]:
    """Returns a URL for each of its hosts."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return [urlunsplit(parts._replace(netloc=f"{user}{at}{host}")) for host in hosts.split(",")]


def _sentinel(library: str, url: str, asyncio: bool, options: dict[str, Any]) -> Any:
    parts = urlsplit(url)
    if parts.scheme == "rediss":
        raise ValueError("with TLS, make the client yourself, by Sentinel(...).master_for(...), and hand it to Queue")
    user, _, hosts = parts.netloc.rpartition("@")
    name, _, db = parts.path.strip("/").partition("/")
    if not name:
        raise ValueError("a URL of Sentinel ends with the name of the master: redis+sentinel://host:26379/mymaster")
    # The library parses the part before the hosts, such as a password with escapes.
    parsed = urlsplit(urlunsplit((parts.scheme, f"{user}@host" if user else "host", "", "", "")))
    for option, value in (("username", parsed.username), ("password", parsed.password)):
        if value:
            options[option] = value
    ats = [urlsplit(f"//{host}") for host in hosts.split(",")]
    addresses = [(at.hostname or "localhost", at.port or 26379) for at in ats]
    package = import_module(f"{library}.asyncio.sentinel" if asyncio else f"{library}.sentinel")
    sentinel = package.Sentinel(addresses, sentinel_kwargs={"socket_timeout": 1.0}, **options)
    return sentinel.master_for(name, db=int(db or 0))


def forget_connections(client: Any) -> Any:
    """Closes idle connections, so that the next command looks up the address again."""
    pool = getattr(client, "connection_pool", None)
    return pool.disconnect(inuse_connections=False) if pool is not None else None


def is_cluster(client: Any) -> bool:
    """Returns whether keys of one command must share a slot."""
    return "Cluster" in type(client).__name__


def node_of(client: Any, key: str) -> Any:
    """Returns a client of the node that serves a key. The commands of a pipeline of it use one connection."""
    client = client.made() if isinstance(client, LaterCluster) else client
    return _client_of(client, client.get_node_from_key(key)) if is_cluster(client) else client


def node_at(client: Any, host: str, port: int) -> Any:
    """Returns a client of a node of a cluster."""
    client = client.made() if isinstance(client, LaterCluster) else client
    return _client_of(client, client.get_node(host, port))


def _client_of(client: Any, node: Any) -> Any:
    get = getattr(client, "get_redis_connection", None) or client.get_valkey_connection
    return get(node)


def look_up_slots(client: Any) -> None:
    """Makes a cluster's client read the slots again."""
    client = client.made() if isinstance(client, LaterCluster) else client
    if is_cluster(client):
        client.nodes_manager.initialize()


def addresses(client: Any) -> set[Any]:
    """Returns the addresses of a client's server and database; an empty set if unknown.

    Clients of one server have one in common, if they were created with the same names.
    """
    if isinstance(client, LaterCluster):
        return set(client.addresses)
    if (nodes := getattr(client, "nodes_manager", None)) is not None:
        return set(nodes.startup_nodes)
    if (pool := getattr(client, "connection_pool", None)) is None:
        return set()
    options = pool.connection_kwargs
    db = int(options.get("db") or 0)
    if (manager := getattr(pool, "sentinel_manager", None)) is not None:
        return {(pool.service_name, db, at) for one in manager.sentinels for at in addresses(one)}
    host, port = options.get("host") or "localhost", options.get("port") or 6379
    return {(options.get("path") or _host_port(host, port), db)}


def _host_port(host: str, port: Any) -> str:
    """Returns the name of a node, as the library names cluster nodes."""
    return f"{'127.0.0.1' if host == 'localhost' else host}:{port}"


def check_kind(client: Any, *, asyncio: bool) -> None:
    """Raises TypeError for a client of the other kind, whose commands would not be sent, or not awaited."""
    # Tracing tools may wrap a coroutine function in a plain one.
    of_asyncio = any(one.__module__.startswith(("redis.asyncio", "valkey.asyncio")) for one in type(client).mro())
    if (of_asyncio or iscoroutinefunction(client.execute_command)) != asyncio:
        hint = "it is not of asyncio; use dehydrator_queue" if asyncio else "it is of asyncio; use dehydrator_queue.aio"
        raise TypeError(f"wrong kind of client, {type(client).__module__}.{type(client).__name__}: {hint}")


def undecoded(client: Any) -> dict[str, Any]:
    """Returns the option that makes a client which decodes replies leave ours as bytes: an id may be no UTF-8."""
    return {"NEVER_DECODE": True} if option(client, "decode_responses") else {}


def holds_one(client: Any) -> bool:
    """Returns whether a client has a single connection, which a POLL blocks."""
    most = getattr(getattr(client, "connection_pool", None), "max_connections", None)
    return isinstance(most, int) and most < 2


def reply_in(lease_ms: int) -> float:
    """Returns the timeout in seconds for replies about leases: short enough to retry within the lease."""
    return min(REPLY, lease_ms / 3000)


def read_timeout(client: Any) -> float | None:
    """Returns the client's reply timeout in seconds; None: unlimited, or unknown."""
    timeout = option(client, "socket_timeout")
    return float(timeout) if isinstance(timeout, (int, float)) else None


def option(client: Any, name: str) -> Any:
    """Returns an option of a client's connections."""
    pool = getattr(client, "connection_pool", None)
    options = getattr(pool, "connection_kwargs", None) or getattr(client, "connection_kwargs", None) or {}
    return options.get(name)
