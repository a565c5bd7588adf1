"""The disturbances while the jobs come due."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from address import Address
from fleet import Fleet
from server import Server

#: Seconds between two kills of a worker, and for which a killed server is away.
BETWEEN_KILLS = 2.5
AWAY = 1.0


@dataclass
class Scene:
    """The things that can be disturbed."""

    server: Server
    replica: Server | None
    address: Address | None
    fleet: Fleet
    chance: random.Random


@dataclass(frozen=True)
class Scenario:
    #: In tables.
    name: str
    #: Of the append-only file.
    fsync: str = "everysec"
    #: Whether the two processes that work are in two workers.
    apart: bool = True
    has_replica: bool = False
    #: Whether workers stand still until all jobs are sent, which are due at once.
    is_sent_first: bool = False
    #: The moments of disturbance, as fractions of the period in which jobs come due, whose length is the argument.
    moments: Callable[[float], list[float]] = lambda seconds: []
    #: The disturbance.
    disturb: Callable[[Scene], None] = lambda scene: None


def kill_worker(scene: Scene) -> None:
    scene.fleet.kill_one(scene.chance)


def kill_server(scene: Scene) -> None:
    scene.server.kill()
    time.sleep(AWAY)
    scene.server.start()


def fail_over(scene: Scene) -> None:
    assert scene.replica is not None
    assert scene.address is not None
    scene.server.fail_over_to(scene.replica)
    scene.address.point_at(scene.replica.port)
    scene.server, scene.replica = scene.replica, scene.server


def is_disturbed(scenario: str) -> bool:
    return scenario not in ("quiet", "burst", "killed")


def often(seconds: float) -> list[float]:
    count = max(1, int(seconds / BETWEEN_KILLS))
    return [(n + 0.5) / count for n in range(count)]


SCENARIOS = {
    "quiet": Scenario("quiet", apart=False),
    "burst": Scenario("burst", apart=False, is_sent_first=True),
    "workers": Scenario("workers killed", moments=often, disturb=kill_worker),
    # With many jobs, for the frameworks that have other workers, or other contenders, here.
    "killed": Scenario("many jobs, workers killed", moments=often, disturb=kill_worker),
    # `always`, so that acknowledged data survives the kill.
    "server": Scenario("server killed", fsync="always", moments=lambda _: [1 / 3, 2 / 3], disturb=kill_server),
    "failover": Scenario("failover", has_replica=True, moments=lambda _: [1 / 2], disturb=fail_over),
}
