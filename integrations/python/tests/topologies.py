"""Several real servers that belong together: a primary with a replica, under Sentinel or not, and a cluster."""

from __future__ import annotations

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
        self.processes, ports = [], []
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

    def __init__(self, folder: Path, name: str) -> None:
        self.bus = free_port()
        (folder / name).mkdir()
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--cluster-port", str(self.bus))
        super().__init__(folder / name, *options)


class Cluster:
    """Three nodes with a third of the slots each, and a replica of the one that serves `key`."""

    def __init__(self, folder: Path, key: str) -> None:
        self.nodes = [Node(folder, f"node-{n}") for n in range(4)]
        masters, self.replica = self.nodes[:3], self.nodes[3]
        for n, node in enumerate(masters):
            first, last = 16384 * n // 3, 16384 * (n + 1) // 3 - 1
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        for node in self.nodes[1:]:
            meet = ("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].bus)
            node.client.execute_command(*meet)
        self.slot = masters[0].client.execute_command("CLUSTER", "KEYSLOT", key)
        wait_until(lambda: all(len(self._known(node)) == 4 for node in self.nodes))
        owner = masters[3 * self.slot // 16384]
        wait_until(lambda: self._replicates(owner))
        wait_until(lambda: all(self._is_well(node) for node in self.nodes))
        wait_until(lambda: self.replica.client.info("replication")["master_link_status"] == "up")
        self.url = f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    def _known(self, node: RealServer) -> list[bytes]:
        return node.client.execute_command("CLUSTER", "NODES").splitlines()

    def _is_well(self, node: RealServer) -> bool:
        return b"cluster_state:ok" in node.client.execute_command("CLUSTER", "INFO")

    def _replicates(self, owner: RealServer) -> bool:
        try:
            return bool(self.replica.client.execute_command("CLUSTER", "REPLICATE", self.id(owner)))
        except redis.ResponseError:
            return False

    def id(self, node: RealServer) -> str:
        return node.client.execute_command("CLUSTER", "MYID").decode()

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
