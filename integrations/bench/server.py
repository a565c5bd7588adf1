"""A Redis server of one's own, that can be killed and started again, and fail over to its replica."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import redis

from waiting import free_port, wait_until


class Server:
    def __init__(
        self,
        binary: str,
        folder: Path,
        module: str | None,
        fsync: str,
        options: Iterable[str] = (),
        replica_of: Server | None = None,
    ) -> None:
        """`fsync` is that of the append-only file: `everysec` or `always`. `options` are further ones of the server."""
        self.port = free_port()
        self.folder = folder
        folder.mkdir(parents=True)
        self.words = [binary, "--port", str(self.port), "--dir", str(folder), "--save", "", "--bind", "127.0.0.1"]
        self.words += ["--appendonly", "yes", "--appendfsync", fsync, "--repl-diskless-sync-delay", "0"]
        if module:
            self.words += ["--loadmodule", module]
        self.words += options
        if replica_of:
            self.words += ["--replicaof", "127.0.0.1", str(replica_of.port)]
        self.client = redis.Redis(port=self.port, protocol=2)
        #: Of processes that were killed.
        self._seconds = 0.0
        self.start()

    def start(self) -> None:
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log)
        wait_until(self._answers, 30, f"the server answers, see {self.folder / 'log'}")

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended, see {self.folder / 'log'}") from None
            return False

    def kill(self) -> None:
        self._seconds = self.processor_seconds()
        self.process.kill()
        self.process.wait()

    def processor_seconds(self) -> float:
        """Returns its CPU time so far, including children."""
        try:
            return self._seconds + sum(psutil.Process(self.process.pid).cpu_times()[:4])
        except psutil.NoSuchProcess:
            return self._seconds

    def info(self, section: str) -> dict[str, Any]:
        told: dict[str, Any] = self.client.info(section)
        return told

    def memory(self) -> int:
        return int(self.info("memory")["used_memory"])

    def fail_over_to(self, replica: Server) -> None:
        """Returns when the replica is the primary."""
        self.client.execute_command("FAILOVER", "TO", "127.0.0.1", str(replica.port))
        wait_until(lambda: replica.info("replication")["role"] == "master", 30, "the replica is the primary")

    def wait_for_replica(self) -> None:
        def in_step() -> bool:
            told = self.info("replication")
            replica = told.get("slave0")
            return bool(replica) and replica["state"] == "online" and replica["offset"] == told["master_repl_offset"]

        wait_until(in_step, 30, "the replica is in step")

    def close(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.kill()
