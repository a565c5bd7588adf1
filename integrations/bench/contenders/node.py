"""BullMQ, and our package for Node."""

from __future__ import annotations

import json

from contenders.base import JOBS, Contender, Program

NODE = JOBS.parents[1] / "node"


class BullMq(Contender):
    name = "BullMQ"
    waits = "the server"
    program = "bullmq"
    packages = ("bullmq", "ioredis")
    scenarios = ("quiet", "burst", "workers")

    @property
    def words(self) -> list[str]:
        return ["node", str(NODE / f"dist/bench/jobs/{self.program}.js")]

    def workers(self, url: str, apart: bool) -> list[Program]:
        return [Program([*self.words, "worker"])] * 2

    def sender(self, url: str) -> Program:
        return Program([*self.words, "sender"])

    def versions(self) -> str:
        of = {name: json.loads((NODE / f"node_modules/{name}/package.json").read_text()) for name in self.packages}
        return ", ".join(f"{name} {told['version']}" for name, told in of.items())


class NodeOnDehydrator(BullMq):
    name = "dehydrator-queue for Node"
    program = "dehydrator"
    packages = ("ioredis",)
    needs_module = True
