"""A queue of jobs for workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, TypeVar

from dehydrator_queue.job import DeadLetter, Item, Put, Waiting
from dehydrator_queue.options import Duration, hinting
from dehydrator_queue.queue.commands import KEEP, Keep, Question
from dehydrator_queue.queue.limits import Limits, Rate
from dehydrator_queue.queue.opening import Opened
from dehydrator_queue.queue.schedules import Schedules
from dehydrator_queue.queue.scheduling import Schedule, plan_words
from dehydrator_queue.queue.server import Server
from dehydrator_queue.wide.directory import Keys
from dehydrator_queue.wide.server import WideServer

T = TypeVar("T")


class Queue(Opened[T]):
    """Puts jobs into a queue, and reads, postpones and cancels them by their ids.

    All commands are resent when the connection breaks, for `patience` seconds, and take effect once, except as
    `put` and `revive` describe. Durations are in seconds, or timedeltas; `at` is a datetime with its time zone, or
    seconds since 1970. Safe for many threads.
    """

    _parts, _is_asyncio = (Server, WideServer, Schedules), False
    _server: Server
    schedules: Schedules

    @hinting
    def put(
        self,
        payload: T,
        *,
        id: str | bytes | None = None,
        delay: Duration = 0.0,
        at: datetime | float | None = None,
        replace: bool = False,
        within: Duration | None = None,
        attempts: int | None = None,
        group: str | bytes | None = None,
    ) -> str | None:
        """Puts a payload into the queue; returns its id. By default, an id is generated.

        An existing element with that id stays, and None is returned; with `replace` the new payload takes its
        place, and its delay restarts: a debounce.

        A job that no worker has begun `within` that time after it was due is too late: it becomes a dead letter with
        the reason "expired", or is dropped if no worker of the queue has `attempts`. `attempts`: how often this job is
        delivered before it becomes a dead letter, instead of its worker's `attempts`. `group`: a tenant,
        or another part of the queue; groups with due jobs take turns. A revived job has only its group.

        If the reply is lost, the command is resent. If a worker has finished the job by then, its id is free and
        the job is put into the queue again, unless the server remembers recent ids: `DEHYDRATOR.LIMIT key REMEMBER`.
        """
        return self._server.follow(self._putting(payload, id, delay, at, replace, within, attempts, group))

    def put_many(
        self,
        items: Iterable[Item],
        *,
        replace: bool = False,
        within: Duration | None = None,
        attempts: int | None = None,
        group: str | bytes | None = None,
    ) -> list[Put]:
        """Puts many payloads, up to a thousand or a megabyte per command; returns what became of each.

        `within`, `attempts` and `group` are those of each item without its own.
        """
        return self._server.follow(self._putting_many(items, replace, within, attempts, group))

    def every(
        self,
        name: str | bytes,
        payload: T,
        *,
        cron: str | None = None,
        zone: str = "UTC",
        seconds: Duration | None = None,
        starting: datetime | float | None = None,
        until: datetime | float | None = None,
        times: int | None = None,
        missed: str = "one",
        overlap: str = "allow",
        jitter: Duration = 0.0,
        attempts: int | None = None,
        within: Duration | None = None,
        group: str | bytes | None = None,
    ) -> Schedule:
        """Makes a schedule: the server puts a job with this payload again and again; returns it as it is.

        Call it at each deployment: a schedule with that name is changed if anything of it is different, and stays as it
        is if not. The ids of the jobs are `name@milliseconds`.

        `cron`: five fields, in the time of `zone`; or `seconds`: an interval. `starting`, `until`: it occurs neither
        before nor after. `times`: how many jobs it puts at most. `missed`: what becomes of occurrences that passed
        without a server, or while the queue was full: `one` job for the last of them, `all`, or `none` if it is more
        than a minute late. `overlap="skip"`: none while the last one waits or runs. `jitter`: up to so much later.
        `attempts`, `within` and `group` are those of the jobs: see `put`.
        """
        bounds = (starting, until, times, missed, overlap, jitter)
        plan = plan_words(cron, zone, seconds, *bounds, attempts, within, group)
        return self._server.follow(self._scheduling.every(name, payload, plan))

    def cancel(self, *ids: str | bytes) -> int:
        """Removes jobs, waiting or with a worker; returns how many existed."""
        return self._server.follow(self._commands.cancel_some(ids))

    def cancel_all(self, *, group: str | bytes | None = None, prefix: str | bytes | None = None) -> int:
        """Removes the jobs of a group, or all whose ids have a prefix, waiting or with a worker; returns how many.

        A thousand are removed at a time. To remove what is there at one moment, pause the group first. If a reply is
        lost, the command is resent, and counts only how many were left.
        """
        return self._server.follow(self._commands.cancel_all(group, prefix))

    def postpone_all(self, delay: Duration, *, group: str | bytes) -> int:
        """Sets the deadlines, from now, of the jobs of a group; returns how many.

        Jobs with a worker stay as they are, and those whose deadline is about that already: up to an eighth of the
        delay earlier, from a second to a minute. A thousand are set at a time, as with `cancel_all`.
        """
        return self._server.follow(self._commands.postpone_all(delay, group))

    def postpone(self, id: str | bytes, delay: Duration = 0.0, *, at: datetime | float | None = None) -> bool:
        """Sets the deadline of a job, from now, later or earlier than before; returns whether it exists."""
        return self._server.ask(self._commands.postpone(id, delay, at))

    def look(self, id: str | bytes) -> Waiting | None:
        """Reads a job, without changing it."""
        return self._server.ask(self._commands.look(id))

    def update(self, id: str | bytes, payload: T) -> None:
        """Replaces a payload; the deadline stays. Raises NotFound if there is no such id."""
        return self._server.ask(self._commands.update(id, payload))

    def __iter__(self) -> Iterator[Waiting]:
        """Yields everything in the queue, in the order of delivery, without taking anything."""
        start: Any = "-"
        while start is not None:
            start, rows = self._server.ask(self._commands.page(start))
            yield from rows

    def __len__(self) -> int:
        """Returns the number of jobs: due, with workers, and waiting."""
        return self._server.ask(self._commands.length())

    def __bool__(self) -> bool:
        """A queue is true, even if it is empty."""
        return True

    def info(self, *, group: str | bytes | None = None) -> dict[str, Any]:
        """Returns the fields of DEHYDRATOR.INFO, of the queue or a group."""
        return self._server.ask(self._commands.info(group))

    def limit(
        self,
        *,
        group: str | bytes | None = None,
        rate: Rate | None = None,
        held: int | None = None,
        length: int | None = None,
        remember: Duration | None = None,
        each_rate: Rate | None = None,
        each_held: int | None = None,
        each_length: int | None = None,
        share: int | None = None,
    ) -> None:
        """Sets limits, of the queue or of a group. Those that are not named stay; 0, or a rate of `(0, 0)`, is none.

        `rate`: `(10, 1)` is ten jobs in any second. `held`: how many run at once. `length`: beyond it, `put` raises
        QueueFull. `remember`: for how long the id of a job that is done is refused. `each_…`: of each group that has
        no limit of its own. `share`: how many jobs a group gives out in its turn.
        """
        limits = {"rate": rate, "held": held, "length": length, "remember": remember, "share": share}
        each = {"rate": each_rate, "held": each_held, "length": each_length}
        return self._server.follow(self._limiting(group, limits, each))

    def limits(self, *, group: str | bytes | None = None) -> Limits:
        """Returns the limits of the queue, or those that apply to a group."""
        question = self._commands.info(group)
        return self._server.ask(Question(question.words, lambda reply: Limits.of(question.read(reply))))

    def set_policy(self, *, attempts: int | None = 5, keep_dead: Keep = KEEP) -> None:
        """Sets how often each job is delivered before it becomes a dead letter, and how many of these to keep.

        It replaces the policy that the first worker set. None: without limit.
        """
        return self._server.follow(self._setting_policy(attempts, keep_dead))

    def pause(self, duration: Duration | None = None, *, group: str | bytes | None = None) -> None:
        """Pauses deliveries, of all or a group, for a while, or until `resume`."""
        return self._server.ask(self._commands.pause(duration, group))

    def resume(self, *, group: str | bytes | None = None) -> bool:
        """Ends the pause of the queue or of a group, not both; returns whether there was one."""
        return self._server.ask(self._commands.resume(group))

    def dead_letters(self, count: int = 100, *, start: str = "-") -> list[DeadLetter]:
        """Returns the first dead letters, with payloads and reasons. `start`: f"({letter.entry}" goes on behind one."""
        return self._server.ask(self._commands.dead_letters(count, start))

    def revive(self, *letters: DeadLetter | str, count: int = 100, payload: T | None = None) -> int:
        """Puts dead letters back, due at once: these, or the first `count`; returns how many.

        One whose id is in the queue stays. `payload`: in the place of that of a single letter. If the reply is lost,
        the command is resent; without letters, it may revive more then, and returns only those.
        """
        return self._server.follow(self._reviving(letters, count, payload))

    def drop(self, *letters: DeadLetter | str) -> int:
        """Removes dead letters; returns how many existed."""
        return self._server.follow(self._dropping(letters))

    def set_keys(self, keys: Keys) -> list[str]:
        """Changes the number of keys while the queue is in use, and returns their names.

        No job is moved: those in former keys stay there until they are done. Then call `forget_keys`.
        """
        server = self._wide()
        names: list[str] = server.plain.follow(server.router.directory.set_keys(keys))
        return names

    def forget_keys(self) -> int:
        """Drops former keys if nothing is left there; returns how many jobs and dead letters are left."""
        server = self._wide()
        left: int = server.plain.follow(server.router.directory.forget_keys())
        return left

    def check(self) -> None:
        """Raises ModuleMissing or ModuleTooOld, which explain what to do, if the server lacks support."""
        return self._server.check(self.name)

    def close(self) -> None:
        """Closes the connections. Your own client stays open."""
        if self._url is not None:
            self._server.client.close()  # type: ignore[attr-defined]

    def __enter__(self) -> Queue[T]:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
