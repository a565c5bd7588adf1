"""What the workers of threads and of asyncio do alike. Nothing here connects to a server."""

from __future__ import annotations

import inspect
import logging
import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from dehydrator_queue.backoff import Backoff
from dehydrator_queue.errors import QueueFull, Reject, TookTooLong, TooLate, reason_of
from dehydrator_queue.hooks import Guarded, Hooks
from dehydrator_queue.job import LATE, NO_LEASE, Delivery, Job
from dehydrator_queue.options import (
    MOST_ATTEMPTS,
    Duration,
    attempts_of,
    flag,
    hinting,
    in_seconds,
    instance,
    milliseconds,
    whole,
)
from dehydrator_queue.queue.commands import Commands, Flow, Question, new_token, poll
from dehydrator_queue.queue.library import ResponseError, addresses, holds_one, passes, read_timeout, reply_in
from dehydrator_queue.queue.server import checking
from dehydrator_queue.steps import Steps
from dehydrator_queue.worker.running import Running
from dehydrator_queue.worker.settings import CUT_OFF, USUAL, Attempts, Settings, Timeout

log = logging.getLogger("dehydrator_queue")

Q = TypeVar("Q")

#: The reply timeout beyond the block, in seconds.
GRACE = 5.0

#: The maximum number of jobs per POLL, whatever the number of threads.
MOST_AT_ONCE = 100

#: Seconds after which a policy is set that the server, out of memory, refused.
POLICY_AGAIN = 60.0


def by_name(queues: Any, kind: type[Any]) -> dict[str, Any]:
    """Returns the queues of a worker by their names, if one command can serve them."""
    some = list(queues) if isinstance(queues, (list, tuple)) else [queues]
    if not some:
        raise ValueError("`queues`: a worker needs a queue")
    for queue in some:
        if not isinstance(queue, kind):
            own = "dehydrator_queue.aio" if ".aio." in kind.__module__ else "dehydrator_queue"
            raise TypeError(f"`queues`: a worker serves {own}.Queue, not {queue!r}")
        here, there = addresses(some[0]._server.client), addresses(queue._server.client)
        if here and there and here.isdisjoint(there):
            names = f"{some[0].name} and {queue.name}"
            raise ValueError(f"one worker serves one database of one server, and {names} are in two: run two workers")
        if holds_one(queue._server.client):
            raise ValueError("a worker needs a client of two connections at least: a POLL blocks one of them")
    named = {queue.name: queue for queue in some}
    if len(named) < len(some):
        raise ValueError(f"two queues of one worker have one name: {[queue.name for queue in some]}")
    return named


def are_wide(queues: Iterable[Any], wait_replicas: int) -> bool:
    """Returns whether the queues of a worker have several keys."""
    wide = {queue.is_wide for queue in queues}
    if len(wide) == 2:
        raise ValueError("a worker's queues all have `keys`, or none has: `keys=1` is one key")
    if wait_replicas and wide == {False}:
        raise ValueError("`wait_replicas` needs queues with `keys`: `keys=1` is one key")
    return wide == {True}


def is_coroutine(work: Any) -> bool:
    """Returns whether calling it makes a coroutine."""
    while isinstance(work, partial):
        work = work.func
    work = inspect.unwrap(work)
    return inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(getattr(work, "__call__", None))  # noqa: B004


class Working(Generic[Q]):
    """A worker, without what waits."""

    #: Its queues: of threads, or of asyncio.
    _kind: ClassVar[type[Any]]
    #: What sends commands about leases, and what also waits for replicas.
    _leases: Any
    _sure: Any
    #: Does the work of a job within so many seconds, as a step; and what its errors are.
    _work_on: Callable[[Delivery, Job, float], Any]
    _failures: type[BaseException] | tuple[type[BaseException], ...] = BaseException

    @hinting
    def __init__(
        self,
        queues: Q | Sequence[Q],
        work: Callable[[Job], Any],
        *,
        concurrency: int = 1,
        lease: Duration = 60.0,
        attempts: Attempts = "queue",
        timeout: Timeout = None,
        backoff: Backoff | None = None,
        block: Duration = 2.0,
        hooks: Hooks | None = None,
        stop_timeout: Duration | None = None,
        keep_place: bool = False,
        wait_replicas: int = 0,
    ) -> None:
        """Several queues are polled in their order: the first with due jobs is served.

        `attempts`: by default what the policy of the queue says, or 5. A number becomes the policy of a queue that has
        none; if that has another one, the fewer count. None: without limit, and no policy is set. `timeout`: how long
        the work of a job may take, or a function of the job that tells; then the attempt has failed: `job.lost` is set,
        and another job takes its place; with `keep_place` it fails only when the work has ended, so that no two of a
        group run at once. `block`: how long a POLL blocks in the server, and so how long a stop can take.
        `stop_timeout`: how long a stop waits for work to end; by default without limit. `wait_replicas`: for queues
        with `keys`, a job begins when so many replicas have its lease, and it is settled when they have that.
        """
        instance("work", work, Callable, "a function of a job")
        if is_coroutine(work) != self._kind._is_asyncio:
            is_one = "is a coroutine function (async def): use dehydrator_queue.aio.Worker"
            is_none = "is no coroutine function (async def): use dehydrator_queue.Worker"
            raise TypeError(f"the `work` {is_none if self._kind._is_asyncio else is_one}")
        by_queue = isinstance(attempts, str) and attempts == "queue"
        if timeout is not None and not callable(timeout):
            in_seconds("timeout", timeout, 0.001)
        whole("wait_replicas", wait_replicas, 0)
        instance("hooks", hooks, (Hooks, type(None)), "an instance of Hooks")
        self._settings = Settings(
            concurrency=whole("concurrency", concurrency),
            # It is renewed three times in its time.
            lease_ms=milliseconds("lease", lease, 100),
            block_ms=milliseconds("block", block),
            attempts=USUAL if by_queue else None if attempts is None else attempts_of(attempts),
            by_queue=by_queue,
            backoff=instance("backoff", backoff or Backoff(), Backoff, "a Backoff"),
            stop_timeout=math.inf if stop_timeout is None else in_seconds("stop_timeout", stop_timeout),
            timeout=timeout,
            keep_place=flag("keep_place", keep_place),
        )
        self._work = work
        self._queues = by_name(queues, self._kind)
        self._is_wide = are_wide(self._queues.values(), wait_replicas)
        self._wait_replicas = wait_replicas
        #: By key.
        self._commands: dict[str, Commands] = {}
        if not self._is_wide:
            self._commands = {name: queue._commands for name, queue in self._queues.items()}
        self._hooks = Guarded(hooks or Hooks())
        self._running = Running()
        #: How often jobs are delivered, by key, where the queue has a policy.
        self._most: dict[str, int] = {}
        #: The queues whose policy is another than the worker's.
        self._differ: set[str] = set()
        #: The keys whose policy could not be set, and when to try again.
        self._unlimited: set[str] = set()
        self._limit_at = math.inf
        self._is_stopping = False
        self._stop_by = math.inf
        self._signals = 0
        self._pid = 0
        self._prepare()

    def _prepare(self) -> None:
        raise NotImplementedError

    def stop(self, timeout: Duration | None = None) -> None:
        """Makes the worker take no more jobs, finish its current ones, and return from `run`.

        Work that does not end within `timeout`, or the worker's `stop_timeout`, is interrupted: `job.lost` is set, or
        its task cancelled, and the job is given back at once, uncounted. A thread continues until it ends, or until the
        process does.
        """
        wait = self._settings.stop_timeout if timeout is None else in_seconds("timeout", timeout)
        self._stop_by = min(self._stop_by, time.monotonic() + wait)
        # No lock: a signal handler calls this, amid anything.
        self._is_stopping = True

    def _signalled(self, number: int, *_: object) -> None:
        """Stops; at the second signal at once, and at the third without any more commands."""
        self._signals += 1
        if self._signals >= 3:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.stop(None if self._signals == 1 else 0)

    def _stops(self) -> bool:
        return self._is_stopping

    def _reset(self) -> None:
        self._is_stopping, self._stop_by, self._signals = False, math.inf, 0

    def _leave_child(self, error: BaseException | None) -> None:
        """Ends a process that the work has forked and that has come here: it is no worker."""
        if os.getpid() != self._pid:
            code = error.code if isinstance(error, SystemExit) else error and 1
            os._exit(code if isinstance(code, int) else 1 if code else 0)

    def _block_of(self, client: Any) -> int:
        """Returns for how long to block, in milliseconds: the user's client may have a short timeout."""
        timeout = read_timeout(client)
        block_ms = self._settings.block_ms
        return block_ms if timeout is None else min(block_ms, int(timeout * 500))

    def _open(self, kind: Any, confirming: Any) -> tuple[Any, int]:
        """Makes the servers: returns the one that takes jobs, and for how long it blocks, in milliseconds."""
        first, lease_ms = next(iter(self._queues.values())), self._settings.lease_ms
        server = kind(first._patient(self._settings.block_ms / 1000 + GRACE), patience=math.inf)
        self._leases = self._sure = kind(first._patient(reply_in(lease_ms)), patience=0)
        if self._wait_replicas:
            wait_ms = int(500 * min(1, reply_in(lease_ms)))
            self._sure = kind(confirming(self._leases.client, self._wait_replicas, wait_ms), patience=0)
        return server, self._block_of(server.client)

    def _opened(self, server: Any) -> list[Any]:
        """Returns the clients that are the worker's own."""
        theirs = next(iter(self._queues.values()))._server.client
        return [] if server.client is theirs else [server.client, self._leases.client]

    def _pollers(self, kind: Any, server: Any, block_ms: int, submit: Callable[[Delivery], Any]) -> Any:
        """Makes what takes jobs from the keys of the queues."""
        pollers = kind(
            *(self._queues.values(), self._settings, block_ms, MOST_AT_ONCE, server, self._leases),
            self._sure if self._wait_replicas else None,
            *(self._hooks, self._stops, submit, self._limit),
            lambda: time.monotonic() >= self._stop_by,
        )
        self._commands = pollers._commands
        return pollers

    # What becomes of jobs.

    def _limit(self, verbs: Commands) -> Flow[None]:
        """Sets the policy of a key, unless it has one. A server that is out of memory is asked again later."""
        attempts = self._settings.attempts
        if attempts is None:
            return
        try:
            is_set = yield verbs.limit_attempts(attempts, verbs.keep, "NX")
        except Exception as error:
            if passes(error) or not isinstance(error, QueueFull):
                raise
            self._hooks.interrupted(error)
            self._unlimited.add(verbs.key)
            self._limit_at = time.monotonic() + POLICY_AGAIN
            return
        if is_set:
            return
        there = int((yield verbs.info())["policy"]["deliveries"])
        self._most[verbs.key] = there or attempts if self._settings.by_queue else min(there or attempts, attempts)
        if not self._settings.by_queue and there != attempts and verbs.queue not in self._differ:
            self._differ.add(verbs.queue)
            told = (verbs.queue, None if there in (0, MOST_ATTEMPTS) else there, attempts)
            log.warning("queue %s has attempts=%s in the server; this worker asks for %d", *told)

    def _limit_again(self) -> Flow[None]:
        self._limit_at = math.inf
        unlimited, self._unlimited = self._unlimited, set()
        for key in unlimited:
            yield from self._limit(self._commands[key])

    def _is_last(self, delivery: Delivery) -> Flow[bool]:
        """Returns whether this is the last attempt. Without `attempts`, the queue has its own policy, or none."""
        attempts = self._settings.attempts
        if attempts is None:
            return False
        own = yield self._commands[delivery.key].own_attempts(delivery.id)
        return delivery.deliveries >= (own or self._most.get(delivery.key, attempts))

    def _delay(self, error: BaseException, delivery: Delivery) -> Flow[float | None]:
        """Returns the delay of a failed job, or None if it becomes a dead letter."""
        if isinstance(error, Reject) or (yield from self._is_last(delivery)):
            return None
        return self._settings.delay(error, delivery.deliveries)

    def _retry(self, delivery: Delivery, delay: float, reason: str, element: bytes | None) -> Flow[None]:
        """Gives a failed job back. `element`: in the place of its own, which only concerns its trace."""
        verbs = self._commands[delivery.key]
        try:
            yield verbs.release(delay, delivery, reason, element)
        except TooLate:
            yield verbs.release(self._settings.delay(Exception(), delivery.deliveries), delivery, reason, element)
        except Exception as error:
            if element is None or not isinstance(error, QueueFull):
                raise
            yield verbs.release(delay, delivery, reason)

    def _bury(self, delivery: Delivery, reason: str, element: bytes | None = None) -> Flow[str]:
        """Makes a job a dead letter; returns the reason. `element`: as of `_retry`."""
        verbs, attempts = self._commands[delivery.key], self._settings.attempts
        try:
            if attempts is not None:
                yield from verbs.bury(delivery, reason, attempts, element)
                return reason
            # This worker does not configure dead letters: the policy of the queue does, if any.
            yield verbs.reject(delivery, reason, element)
        except QueueFull:
            if element is None:
                raise
            return (yield from self._bury(delivery, reason))
        except ResponseError as error:
            if attempts is not None:
                raise
            delay = self._settings.backoff.most
            yield verbs.release(delay, delivery, reason, element)
            reason = f"{reason}; it waits for {delay:.0f} s, for it could not go to the dead letters: {error}"
        return reason

    def _fail(self, delivery: Delivery, job: Job, failure: BaseException, seconds: float) -> Flow[None]:
        """Gives a job back whose work has failed, or makes it a dead letter."""
        element, reason = delivery.changed(job.headers), reason_of(failure)
        delay = yield from self._delay(failure, delivery)
        if delay is not None:
            with self._hooks.settling(job, "release"):
                yield from self._retry(delivery, delay, reason, element)
            self._hooks.retried(job, seconds, failure, delay)
            return
        with self._hooks.settling(job, "bury"):
            reason = yield from self._bury(delivery, reason, element)
        self._hooks.buried(delivery, reason, failure)

    def _cut(self, delivery: Delivery) -> Flow[None]:
        """Gives a job back whose work still runs. It has not failed: a deployment must not make it a dead letter."""
        yield self._commands[delivery.key].give_back(delivery.token, delivery.id, CUT_OFF)

    def _fail_to_decode(self, delivery: Delivery, error: Exception) -> Flow[str]:
        return self._bury(delivery, f"it cannot be decoded: {reason_of(error)}")

    def _patience(self) -> float:
        """Returns for how long to retry: for the duration of a lease. After that, the reply is useless."""
        return max(self._settings.lease_ms / 1000, 10.0)

    # What a worker of threads and one of asyncio do step by step.

    def _asking(self, question: Question[Any], server: Any = None) -> Steps[Any]:
        steps: Steps[Any] = (server or self._leases).asking(question, self._patience(), tell=self._hooks.interrupted)
        return steps

    def _following(self, flow: Flow[Any], patience: float | None = None) -> Steps[Any]:
        patience = self._patience() if patience is None else patience
        steps: Steps[Any] = self._leases.following(flow, patience, tell=self._hooks.interrupted)
        return steps

    def _beginning(self, server: Any) -> Steps[None]:
        """Checks the server, and sets the policies of queues of one key."""
        check = checking(next(iter(self._queues.values())).name)
        yield from server.following(check, None, self._stops, self._hooks.interrupted)
        if self._is_wide:
            try:
                # Finds the nodes while they reply.
                yield from self._leases.following(checking(next(iter(self._queues.values())).name))
            except Exception as error:
                if not passes(error):
                    raise
        for queue in () if self._is_wide else self._queues.values():
            yield from server.following(self._limit(queue._commands), None, self._stops, self._hooks.interrupted)

    def _polling(self, server: Any, room: int, block_ms: int) -> Steps[list[Delivery]]:
        question = poll(list(self._queues), room, self._settings.lease_ms, new_token(), block_ms)
        began = time.monotonic()
        deliveries: list[Delivery] = yield from server.asking(question, None, self._stops, self._hooks.interrupted)
        if deliveries:
            self._hooks.received(deliveries, time.monotonic() - began)
        return deliveries

    def _doing(self, delivery: Delivery) -> Steps[bool]:
        """Does a job; returns whether its place is still its own: one that took too long has lost it."""
        verbs = self._commands[delivery.key]
        if self._is_stopping:
            # The POLL was blocked in the server when the stop was requested. Other workers can do this job.
            yield from self._asking(verbs.give_back(delivery.token, delivery.id))
            return True
        try:
            job = Job.of(delivery, verbs.codec.decode, verbs.queue)
        except Exception as error:
            self._hooks.buried(delivery, (yield from self._following(self._fail_to_decode(delivery, error))))
            return True
        failure: BaseException | None = None
        self._running.add(delivery, job)
        began = time.monotonic()
        try:
            seconds = self._settings.time_of(job)
            self._hooks.started(job)
            with self._hooks.working(job):
                yield partial(self._work_on, delivery, job, seconds)
        except self._failures as error:
            failure = error
        mine = self._running.remove(delivery)
        if mine and job.late:
            failure = too_long(seconds)
        if not mine or (job.lost.is_set() and not job.late):
            return not job.late or self._settings.keep_place
        if isinstance(failure, TookTooLong):
            # For what it has begun elsewhere, such as in a thread.
            job.lost.tell(LATE)
        yield from self._ending(delivery, job, failure, time.monotonic() - began)
        return True

    def _ending(self, delivery: Delivery, job: Job, failure: BaseException | None, seconds: float) -> Steps[None]:
        """Settles a job whose work has ended, or gives it back, or makes it a dead letter."""
        if failure is None:
            # A 0 can mean that a first SETTLE worked, but its reply was lost.
            with self._hooks.settling(job, "settle"):
                yield from self._asking(self._commands[delivery.key].settle(delivery.token, delivery.id), self._sure)
            self._hooks.succeeded(job, seconds)
            return
        yield from self._following(self._fail(delivery, job, failure, seconds))

    def _cutting_off(self) -> Steps[None]:
        """Interrupts the work that still runs, and gives its jobs back."""
        silent: set[str] = set()
        some = self._running.lose_some()
        for _, job in some:
            self._cancel(job)
        for delivery, job in some:
            try:
                if delivery.key not in silent:
                    yield from self._following(self._cut(delivery), 0)
                    job.lost.reason += ": given back, uncounted"
            except Exception as error:
                # It is delivered again when its lease expires.
                self._hooks.crashed(error)
                if passes(error):
                    silent.add(delivery.key)
            self._hooks.lost(job)

    def _cancel(self, job: Job) -> None:
        """Interrupts the work of a job that is lost. A thread looks itself."""

    def _tell_late(self, job: Job) -> None:
        job.late = True
        job.lost.tell(LATE)
        log.warning("%s: %s takes too long, and keeps its place until it ends", job.queue, job.id)

    def _renewing(
        self, name: str, held: list[tuple[str, bytes]], has_ended: Callable[[], bool], why: str = NO_LEASE
    ) -> Steps[None]:
        """Renews leases. `why`: those that are over are."""
        try:
            # As long as the leases still run.
            question = self._commands[name].renew(self._settings.lease_ms, held)
            within = 2 * self._settings.renewal
            renewed = yield from self._leases.asking(question, within, has_ended, self._hooks.interrupted)
        except Exception as error:
            if not has_ended():
                self._hooks.crashed(error)
            return
        for (token, id), still in zip(held, renewed, strict=True):
            if not still and (job := self._running.lose(name, token, id, why)) is not None:
                self._cancel(job)
                self._hooks.lost(job)

    def _limiting_again(self) -> Steps[None]:
        if time.monotonic() >= self._limit_at:
            try:
                yield from self._following(self._limit_again(), 0)
            except Exception as error:
                self._hooks.crashed(error)


def too_long(seconds: float) -> TookTooLong:
    return TookTooLong(f"it did not end within {seconds:g} s")
