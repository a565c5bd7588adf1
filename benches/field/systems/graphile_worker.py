"""Graphile Worker on PostgreSQL, in Node: SKIP LOCKED, and NOTIFY for what is due at once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from system import Client
from systems.node_program import NodeProgram
from systems.postgres_server import PostgresServer

PROGRAM = Path(__file__).with_suffix(".mjs")
#: Where `npm ci` has installed it.
NODE = PROGRAM.parents[1]


class GraphileWorker(PostgresServer):
    name = "Graphile Worker"

    def version(self) -> str:
        package = json.loads((NODE / "node_modules/graphile-worker/package.json").read_text())
        return f"Graphile Worker {package['version']} on {super().version()}"

    def start(self) -> None:
        super().start()
        subprocess.run(["node", str(PROGRAM), self.url, "--migrate"], check=True, cwd=NODE)

    def client(self) -> Client:
        return NodeProgram(PROGRAM, NODE, self.url)
