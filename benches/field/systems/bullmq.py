"""BullMQ, in Node."""

from __future__ import annotations

import json
from pathlib import Path

from system import Client
from systems.node_program import NodeProgram
from systems.redis_server import RedisServer

#: Where `npm ci` has installed it.
NODE = Path(__file__).resolve().parents[3] / "integrations/node"


class BullMq(RedisServer):
    name = "BullMQ"

    def version(self) -> str:
        return f"BullMQ {json.loads((NODE / 'node_modules/bullmq/package.json').read_text())['version']}"

    def client(self) -> Client:
        return NodeProgram(Path(__file__).with_suffix(".mjs"), NODE, str(self.port))
