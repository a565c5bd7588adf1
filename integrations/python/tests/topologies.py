"""Several real servers that belong together: a primary with a replica, under Sentinel or not, and a cluster."""

from __future__ import annotations

import itertools
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import redis
from address import Address
from servers import SERVER, RealServer, free_port, wait_until


class Pair:
    """A primary and its replica."""

    def __init__(self, folder: Path) -> None:
        self.servers = []
        for name in ("first", "second"):
            (folder / name).mkdir()
            self.servers.append(RealServer(folder / name))
        first, second = self.servers
        second.client.replicaof("127.0.0.1", first.port)
        wait_until(lambda: second.client.info("replication")["master_link_status"] == "up")
        wait_until(lambda: first.client.wait(1, 100) == 1)

    @property
    def primary(self) -> RealServer:
        """Returns the server that reports to be the primary."""
        return wait_until(self._primary)

    def _primary(self) -> RealServer | None:
        for server in self.servers:
            with suppress(redis.RedisError):
                if server.client.info("replication")["role"] == "master":
                    return server
        return None

    @property
    def replica(self) -> RealServer:
        """Returns the one that is not the primary."""
        primary = self.primary
        return next(server for server in self.servers if server is not primary)

    def fail_over(self, address: Address, cut: bool = False) -> None:
        """Makes the servers switch roles, by a command to the primary, and updates the address."""
        old, new = self.primary, self.replica
        old.client.execute_command("FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", 20_000)
        wait_until(lambda: new.client.info("replication")["role"] == "master")
        # Until the address follows, clients ask one that is a replica by now.
        time.sleep(0.3)
        address.lead_to(new, cut)
        wait_until(lambda: old.client.info("replication").get("master_link_status") == "up")

    def close(self) -> None:
        for server in self.servers:
            server.close()


class Sentinels:
    """Three sentinels that watch a pair under the name `mine`."""

    def __init__(self, folder: Path, pair: Pair) -> None:
        self.nodes, self.processes, ports = pair.servers, [], []
        for n in range(3):
            port = free_port()
            config = folder / f"sentinel-{n}.conf"
            config.write_text(
                f"port {port}\ndir {folder}\nsentinel monitor mine 127.0.0.1 {pair.primary.port} 2\n"
                "sentinel down-after-milliseconds mine 1000\nsentinel failover-timeout mine 5000\n"
            )
            log = (folder / f"sentinel-{n}.log").open("a")
            self.processes.append(subprocess.Popen([SERVER, str(config), "--sentinel"], stdout=log, stderr=log))
            ports.append(port)
        self.url = "redis+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in ports) + "/mine"
        #: As Celery writes it; the name stands in the options.
        self.celery_url = ";".join(f"sentinel://127.0.0.1:{port}/0" for port in ports)
        self.clients = [redis.Redis(port=port, decode_responses=True) for port in ports]
        wait_until(lambda: all(self._knows_all(client) for client in self.clients))

    def _knows_all(self, client: redis.Redis) -> bool:
        try:
            state = client.sentinel_master("mine")
        except redis.RedisError:
            return False
        return (state["num-other-sentinels"], state["num-slaves"], state["flags"]) == (2, 1, "master")

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


class Node(RealServer):
    """A node of a cluster."""

    def __init__(self, folder: Path, name: str, timeout: int) -> None:
        self.bus = free_port()
        (folder / name).mkdir()
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(timeout), "--cluster-port", str(self.bus))
        super().__init__(folder / name, *options)


class Cluster:
    """Three nodes with a third of the slots each, and the replicas."""

    def __init__(self, folder: Path, key: str | None = None, *, replicas: bool = False) -> None:
        """`key`: one replica, of the node that serves it; `replicas`: one of each node."""
        count = 3 if replicas else 1 if key is not None else 0
        self._names = (f"node-{n}" for n in itertools.count())
        self._folder = folder
        # Only where replicas take over by themselves: on a busy machine, a node takes seconds to answer.
        self._timeout = 1500 if replicas else 15_000
        self.nodes = [self._node() for _ in range(3 + count)]
        masters = self.nodes[:3]
        for n, node in enumerate(masters):
            first, last = 16384 * n // 3, 16384 * (n + 1) // 3 - 1
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        self._meet()
        if key is not None:
            self.slot = masters[0].client.execute_command("CLUSTER", "KEYSLOT", key)
            self.replica = self.nodes[3]
            masters = [masters[3 * self.slot // 16384]]
        for replica, master in zip(self.nodes[3:], masters, strict=False):
            wait_until(lambda a=replica, b=master: self._replicates(a, b))
        wait_until(lambda: all(self.is_well(node) for node in self.nodes))
        for replica in self.nodes[3:]:
            wait_until(lambda a=replica: a.client.info("replication")["master_link_status"] == "up")
        self.url = f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    def _node(self) -> Node:
        return Node(self._folder, next(self._names), self._timeout)

    def _meet(self) -> None:
        while not self._all_met():
            # On a busy machine, a handshake times out.
            for node in self.nodes[1:]:
                meet = ("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].bus)
                node.client.execute_command(*meet)
            with suppress(AssertionError):
                wait_until(self._all_met, 2)

    def join(self) -> list[RealServer]:
        """Adds a primary, which has no slots yet, and its replica."""
        primary, replica = new = [self._node() for _ in range(2)]
        self.nodes += new
        self._meet()
        wait_until(lambda: self._replicates(replica, primary))
        wait_until(lambda: replica.client.info("replication").get("master_link_status") == "up")
        wait_until(lambda: all(map(self.is_well, new)))
        return new

    def leave(self, nodes: list[RealServer]) -> None:
        """Removes nodes, which have no slots any more."""
        ids = [self.id(node) for node in nodes]
        self.nodes = [node for node in self.nodes if node not in nodes]
        # One that still knew them would tell the others.
        for node, id in itertools.product(self.nodes, ids):
            wait_until(lambda node=node, id=id: self._forgets(node, id))
        for node in nodes:
            node.close()

    def _forgets(self, node: RealServer, id: str) -> bool:
        try:
            return bool(node.client.execute_command("CLUSTER", "FORGET", id))
        except redis.ResponseError as error:
            # While it replicates the one that leaves, it cannot.
            return "Unknown node" in str(error)

    def _all_met(self) -> bool:
        rows = [node.client.execute_command("CLUSTER", "NODES").splitlines() for node in self.nodes]
        return all(len(known) == len(self.nodes) and not any(b"handshake" in row for row in known) for known in rows)

    def is_well(self, node: RealServer) -> bool:
        return b"cluster_state:ok" in node.client.execute_command("CLUSTER", "INFO")

    def _replicates(self, replica: RealServer, owner: RealServer) -> bool:
        try:
            return bool(replica.client.execute_command("CLUSTER", "REPLICATE", self.id(owner)))
        except redis.ResponseError:
            return False

    def id(self, node: RealServer) -> str:
        return node.client.execute_command("CLUSTER", "MYID").decode()

    def is_replica_of(self, node: RealServer, owner: RealServer) -> bool:
        """Returns whether a node is a replica of another one that is up to date."""
        told = node.client.info("replication")
        return told.get("master_port") == owner.port and told.get("master_link_status") == "up"

    def owner(self) -> RealServer:
        """Returns the node that serves the slot, by its own word."""
        return wait_until(self._owner)

    def _owner(self) -> RealServer | None:
        for node in self.nodes:
            with suppress(redis.RedisError):
                mine = node.client.execute_command("CLUSTER", "SLOTS")
                for first, last, (_, port, *_), *_ in mine:
                    if first <= self.slot <= last and port == node.port:
                        return node
        return None

    def move(self, target: RealServer) -> None:
        """Moves the slot with all that is in it to another node, as redis-cli does."""
        source = self.owner()
        target.client.execute_command("CLUSTER", "SETSLOT", self.slot, "IMPORTING", self.id(source))
        source.client.execute_command("CLUSTER", "SETSLOT", self.slot, "MIGRATING", self.id(target))
        while keys := source.client.execute_command("CLUSTER", "GETKEYSINSLOT", self.slot, 100):
            for key in keys:
                # One after the other, with time between them in which they are on two nodes.
                source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 30_000, "KEYS", key)
                time.sleep(0.1)
        for node in (target, source, *self.nodes):
            with suppress(redis.ResponseError):  # A replica is told by its primary.
                node.client.execute_command("CLUSTER", "SETSLOT", self.slot, "NODE", self.id(target))

    def close(self) -> None:
        for node in self.nodes:
            node.close()
