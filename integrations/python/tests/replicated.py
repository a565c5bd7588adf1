"""A primary with a replica, and what leads clients to the primary: Sentinel, or an address that moves."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import redis
import servers
from servers import RealServer, free_port, wait_until

NAME = "mymaster"


class Replicated:
    """Two servers, of which one replicates the other."""

    def __init__(self, folder: Path) -> None:
        self.servers = []
        for name in ("first", "second"):
            (folder / name).mkdir()
            self.servers.append(RealServer(folder / name))
        self.primary, self.replica = self.servers
        self.replica.client.execute_command("REPLICAOF", "127.0.0.1", self.primary.port)
        self.wait_until_in_step()

    def wait_until_in_step(self) -> None:
        def link_is_up() -> bool:
            return self.replica.client.info("replication").get("master_link_status") == "up"

        wait_until(link_is_up, 30)
        wait_until(lambda: self.primary.client.wait(1, 100) == 1, 30)

    def fail_over(self) -> None:
        """Has the replica take over, and loses nothing."""
        self.primary.client.execute_command("FAILOVER", "TO", "127.0.0.1", self.replica.port, "TIMEOUT", 20000)
        wait_until(lambda: self.replica.client.role()[0] == b"master", 30)
        self.primary, self.replica = self.replica, self.primary

    def close(self) -> None:
        for server in self.servers:
            server.close()


class Sentinel:
    """One that decides by itself."""

    def __init__(self, folder: Path, primary: RealServer) -> None:
        folder.mkdir()
        self.folder = folder
        self.port = free_port()
        self.url = f"sentinel://127.0.0.1:{self.port}/0"
        configuration = folder / "sentinel.conf"
        configuration.write_text(
            f"port {self.port}\ndir {folder}\n"
            f"sentinel monitor {NAME} 127.0.0.1 {primary.port} 1\n"
            f"sentinel down-after-milliseconds {NAME} 1000\n"
            f"sentinel failover-timeout {NAME} 5000\n"
        )
        log = (folder / "log").open("a")
        self.process = subprocess.Popen([servers.SERVER, str(configuration), "--sentinel"], stdout=log, stderr=log)
        self.client = redis.Redis(port=self.port, protocol=2)
        wait_until(self._knows_the_replica, 30)

    def _knows_the_replica(self) -> bool:
        with suppress(redis.RedisError):
            return bool(self.client.execute_command("SENTINEL", "REPLICAS", NAME))
        return False

    def primary_port(self) -> int:
        return int(self.client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])

    def close(self) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Address:
    """A port that leads to a server, and then to another one, as a virtual address does."""

    def __init__(self, server: RealServer) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._target = server.port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, server: RealServer) -> None:
        with self._lock:
            self._target = server.port
            connections, self._open = self._open, set()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                with self._lock:
                    try:
                        server = socket.create_connection(("127.0.0.1", self._target))
                    except OSError:
                        client.close()
                        continue
                    self._open |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source, sink}

    def close(self) -> None:
        # What waits in accept wakes up.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
