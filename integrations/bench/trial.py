"""One contender in one scenario."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF

from address import Address
from contenders import Contender
from fleet import Fleet, start
from machine import Noise, seconds_of
from notes import Notes, Outcome
from scenarios import Scenario, Scene
from server import Server
from usage import Usage
from waiting import wait_until

#: Seconds without an execution, when all jobs were done, after which no more are expected: what a worker had in hand
#: that was killed comes again sooner.
CALM, CALM_IF_QUIET = 12.0, 4.0

#: Seconds to wait for jobs after the last deadline: kombu checks every 100 seconds for unacknowledged ones.
PATIENCE = 110.0

#: The number of jobs before the measured ones, to check that everything works, and to load lazily loaded code.
WARM = 10


@dataclass(frozen=True)
class Load:
    jobs: int
    #: Seconds from the beginning until the first and the last is due; between them all moments are as likely.
    first: float
    last: float
    #: Seconds.
    work: float
    seed: int


@dataclass
class Result:
    contender: str
    scenario: str
    versions: str
    server: str
    outcome: Outcome
    #: Seconds that sending took, and whether some were due by then.
    sending: float
    sent_late: bool
    killed: int
    ended: int
    #: Bytes.
    rest_greatest: int
    rest_all: int
    peak_greatest: int
    peak_all: int
    server_bytes: float
    #: Seconds of the processor, from the first job sent until the last was done.
    server_seconds: float
    worker_seconds: float
    #: The share of all cores that other programs used.
    others: float


class Trial:
    def __init__(self, contender: Contender, scenario: Scenario, load: Load, binary: str, module: str, folder: Path):
        self.contender, self.scenario, self.load, self.folder = contender, scenario, load, folder
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "notes").mkdir(parents=True)
        self.chance = random.Random(load.seed)
        with ExitStack() as open_things:
            self.open = open_things
            self._set_up(binary, module)
            self.result = self._run()

    def _set_up(self, binary: str, module: str) -> None:
        scenario, closing = self.scenario, self.open.callback
        has_module = module if self.contender.needs_module else None
        options = self.contender.server_options
        server = Server(binary, self.folder / "server", has_module, scenario.fsync, options)
        closing(server.close)
        replica = address = None
        if scenario.has_replica:
            replica = Server(binary, self.folder / "replica", has_module, scenario.fsync, options, server)
            closing(replica.close)
            server.wait_for_replica()
            address = Address(server.port)
            closing(address.close)
        url = f"redis://127.0.0.1:{address.port if address else server.port}/0"
        self.environment = {
            "BENCH_URL": url,
            "BENCH_NOTES": str(self.folder / "notes"),
            "BENCH_WORK": str(self.load.work),
            "BENCH_PLAN": str(self.folder / "plan"),
        }
        fleet = Fleet(self.contender.workers(url, scenario.apart), self.environment, self.folder)
        closing(fleet.close)
        self.sender, self.sender_seconds = self.contender.sender(url), 0.0
        self.scene = Scene(server, replica, address, fleet, self.chance)
        self.notes = Notes(self.folder / "notes")
        self.usage = Usage(fleet.pids)
        closing(self.usage.close)

    def _send(self, deadlines: Iterator[tuple[str, float]]) -> float:
        """Returns how many seconds it took."""
        (self.folder / "plan").write_text("".join(f"{id} {due:.6f}\n" for id, due in deadlines))
        began = time.monotonic()
        before = seconds_of(RUSAGE_CHILDREN)
        process = start(self.sender, self.environment, self.folder / "sender.log")
        if process.wait(300) != 0:
            raise RuntimeError(f"who sends failed: see {self.folder / 'sender.log'}")
        self.sender_seconds += seconds_of(RUSAGE_CHILDREN) - before
        return time.monotonic() - began

    def _warm_up(self) -> None:
        now = time.time()
        self._send((f"warm-{n}", now + 2) for n in range(WARM))

        def all_ran() -> bool:
            self.notes.read()
            return len(self.notes.counts) == WARM

        wait_until(all_ran, 90, f"{self.folder}: the first jobs are run")
        self.notes.forget()
        self.usage.look()

    def _run(self) -> Result:
        load, scene = self.load, self.scene
        self._warm_up()
        noise = Noise(self._all_seconds)
        rest_greatest, rest_all = self.usage.greatest, self.usage.all
        memory, seconds = scene.server.memory(), self._server_seconds()
        worked = self.usage.processor_seconds()
        began = time.time()
        span = load.last - load.first
        deadlines = ((str(n), began + load.first + self.chance.random() * span) for n in range(load.jobs))
        if self.scenario.is_sent_first:
            scene.fleet.signal(signal.SIGSTOP)
        sending = self._send(deadlines)
        if self.scenario.is_sent_first:
            scene.fleet.signal(signal.SIGCONT)
        memory = scene.server.memory() - memory
        if scene.replica:
            scene.server.wait_for_replica()
        self._wait(began, [began + load.first + part * span for part in self.scenario.moments(span)])
        self.usage.look()
        return Result(
            contender=self.contender.name,
            scenario=self.scenario.name,
            versions=self.contender.versions(),
            server=scene.server.info("server")["redis_version"],
            outcome=self.notes.outcome(load.jobs),
            sending=sending,
            sent_late=0 < load.first < sending,
            killed=scene.fleet.killed,
            ended=scene.fleet.ended,
            rest_greatest=rest_greatest,
            rest_all=rest_all,
            peak_greatest=self.usage.greatest_peak,
            peak_all=self.usage.all_peak,
            server_bytes=memory / load.jobs,
            server_seconds=self._seconds_at_end - seconds,
            worker_seconds=self._worked_at_end - worked,
            others=noise.part(),
        )

    def _server_seconds(self) -> float:
        servers = [self.scene.server, self.scene.replica]
        return sum(server.processor_seconds() for server in servers if server)

    def _all_seconds(self) -> float:
        """Of servers, workers, the sender, and this process."""
        self.usage.look()
        return self._server_seconds() + self.usage.processor_seconds() + self.sender_seconds + seconds_of(RUSAGE_SELF)

    def _wait(self, began: float, moments: list[float]) -> None:
        """Disturbs at the given moments, and returns when all is done, or no more executions are expected."""
        last = began + self.load.last
        calm = CALM if moments else CALM_IF_QUIET
        changed = time.time()
        self._seconds_at_end = self._worked_at_end = 0.0
        while True:
            if moments and time.time() >= moments[0]:
                moments.pop(0)
                self.scenario.disturb(self.scene)
            self.scene.fleet.mend()
            if self.notes.read():
                changed = time.time()
                self._seconds_at_end, self._worked_at_end = self._server_seconds(), self.usage.processor_seconds()
            are_done = len(self.notes.counts) >= self.load.jobs
            now = time.time()
            if now > last and ((are_done and now > changed + calm) or now > last + PATIENCE):
                return
            time.sleep(0.5)
