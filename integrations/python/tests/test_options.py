"""What is wrong is refused, with the name of the option, before anything is sent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from math import inf, nan
from typing import Any

import pytest
from kombu import Connection

from dehydrator_queue import Backoff, Item, Job, Queue, Retry, Worker, aio
from dehydrator_queue.dramatiq import DehydratorBroker as DramatiqBroker
from dehydrator_queue.taskiq import DehydratorBroker as TaskiqBroker
from dehydrator_queue.testing import MemoryServer


class Silent:
    """A client to which nothing may come."""

    def execute_command(self, *words: Any, **options: Any) -> Any:
        raise AssertionError(f"{words} were sent")


class AsyncSilent:
    async def execute_command(self, *words: Any, **options: Any) -> Any:
        raise AssertionError(f"{words} were sent")


def work(job: Job) -> None:
    pass


async def async_work(job: Job) -> None:
    pass


def numbers(least: Any, *wrong: Any) -> list[Any]:
    return ["5", True, nan, inf, [], least, *wrong]


#: Values that make no sense, by the name of the option, wherever it is.
DELAY, TIME, MOMENT = numbers(-1, timedelta(-1)), numbers(0, timedelta(0)), numbers(-1, datetime(2030, 1, 1))
COUNT, MOST = numbers(0, 1.5), numbers(-1, 1.5)
NAME, GROUP = [7, "", None], [17, "", "g" * 1025, b"g" * 1025]
RATE = [10, (10,), True, "10/s", (1.5, 1), ("1", 1), (-1, 1), (10, 0), (10, -1), (10, "1"), (10, nan), (True, 1)]
WRONG: dict[str, list[Any]] = {
    **dict.fromkeys(("id", "ids", "name", "cron", "zone", "start"), NAME),
    **dict.fromkeys(("delay", "jitter", "remember", "stop_timeout", "patience", "block", "duration"), DELAY),
    **dict.fromkeys(("within", "seconds", "timeout"), TIME),
    **dict.fromkeys(("at", "starting", "until", "now"), MOMENT),
    **{key: [*COUNT, 65536] for key in ("attempts", "deliveries")},
    **dict.fromkeys(("count", "times", "share", "keep_dead", "concurrency", "keys"), COUNT),
    **dict.fromkeys(("held", "length", "each_held", "each_length", "wait_replicas"), MOST),
    **dict.fromkeys(("rate", "each_rate"), RATE),
    **{key: ["some", True, 1] for key in ("missed", "overlap")},
    **{key: ["yes", 1, None] for key in ("replace", "keep_place", "signals")},
    **{key: [*numbers(-1), timedelta(1)] for key in ("first", "factor", "most")},
    "timeout of stop": numbers(-1),
    "jitter of Backoff": numbers(-0.1, 1.1),
    "lease": numbers(0.09),
    "group": GROUP,
    "prefix": [7],
    "items": [["x"], [("x", "id")]],
    "letters": [7, ("1-0", "2-0"), "nope", "mail:17", ""],
    "server": [7, None, Queue],
    "dead": [7, b"dead", ""],
    "codec": ["json", 7],
    "hooks": ["hooks", Silent()],
    "queues": [[], "jobs", 7, None],
    "work": ["work", None],
    "backoff": [5, {"first": 1}],
}
#: What may be anything, or is checked by others.
FREE = {"payload", "reason"}

#: What each needs besides, and what it needs besides for one option.
CALLS: dict[str, dict[str, Any]] = {
    **{
        name: {}
        for name in ["cancel", "info", "limits", "set_policy", "pause", "resume", "dead_letters", "revive", "drop"]
    },
    **{"put": {"payload": 1}, "put_many": {"items": [Item(1)]}, "look": {"id": "a"}, "postpone": {"id": "a"}},
    **{"update": {"id": "a", "payload": 1}, "postpone_all": {"delay": 1, "group": "g"}, "set_keys": {"keys": 1}},
    **{"cancel_all": {}, "limit": {}, "every": {"name": "r", "payload": 1}},
}
BESIDE = {
    **{("every", option): {"cron": "* * * * *"} for option in ("zone", "cron")},
    **{("every", option): {"seconds": 1} for option in ("name", "starting", "until", "times", "missed", "overlap")},
    **{("every", option): {"seconds": 1} for option in ("jitter", "attempts", "within", "group")},
    ("limit", "share"): {"group": "g"},
}


def called(name: str, call: Callable[..., Any], given: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """Yields the name of each option, and what calls with each wrong value of it."""
    for option, told in inspect.signature(call).parameters.items():
        if option == "self" or option in FREE or told.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        values = WRONG.get(f"{option} of {name}", WRONG.get(option))
        assert values is not None, f"{name} has an option {option}, which is not checked here"
        for value in values:
            is_none = value is None and told.default is None
            is_of_others = value == "" and option == "group" and name in ("info", "limits", "limit")
            if is_none or is_of_others or (value == inf and option == "patience"):
                continue
            if told.kind is inspect.Parameter.VAR_POSITIONAL:
                yield name, option, value, partial(call, value)
                continue
            options = {**given, **BESIDE.get((name, option), {}), option: value}
            yield name, option, value, partial(call, **options)


def everything() -> Iterator[tuple[str, str, Any, Any]]:
    for kind, queues, client in (("threads", Queue, Silent()), ("asyncio", aio.Queue, AsyncSilent())):
        for name, given in CALLS.items():
            jobs: Any = queues(client, "jobs", keys=1 if name == "set_keys" else None)
            for _, option, value, call in called(name, getattr(jobs, name), given):
                yield f"{kind}: {name}", option, value, call
        for name in ("get", "remove", "pause", "resume", "run"):
            for _, option, value, call in called(name, getattr(jobs.schedules, name), {}):
                yield f"{kind}: schedules.{name}", option, value, call
        yield from called(f"{kind}: Queue", queues, {"server": client, "name": "jobs"})
    jobs, async_jobs = Queue(Silent(), "jobs"), aio.Queue(AsyncSilent(), "jobs")
    yield from called("Worker", Worker, {"queues": jobs, "work": work})
    yield from called("aio.Worker", aio.Worker, {"queues": async_jobs, "work": async_work})
    yield from called("stop", Worker(jobs, work).stop, {})
    yield from called("run", Worker(jobs, work).run, {})
    yield from called("aio.run", aio.Worker(async_jobs, async_work).run, {})
    yield from called("Backoff", Backoff, {})
    yield from called("Retry", Retry, {"delay": 1})
    yield from called("MemoryServer", MemoryServer, {})
    yield from called("advance", MemoryServer().advance, {"duration": 1})
    url = "redis://127.0.0.1:1"
    framework = {"lease", "block", "count", "patience", "keep_dead", "deliveries", "keys"}
    for name, broker in (("taskiq", TaskiqBroker), ("dramatiq", DramatiqBroker)):
        for option in sorted(framework & set(inspect.signature(broker).parameters)):
            for value in WRONG[option]:
                if value != inf or option != "patience":
                    yield name, option, value, partial(broker, url=url, **{option: value})
    for option in ("lease", "deliveries", "keep_dead"):
        for value in WRONG[option]:
            yield "kombu", option, value, partial(channel, **{option: value})


def channel(**options: Any) -> Any:
    url = "redis://127.0.0.1:1"
    return Connection(url, transport="dehydrator_queue.kombu:Transport", transport_options=options).channel()


def refusal(call: Callable[[], Any]) -> Exception | None:
    async def run() -> None:
        if inspect.isawaitable(found := call()):
            await found

    try:
        asyncio.run(run())
    except (TypeError, ValueError) as error:
        return error
    except AssertionError:
        # It was sent.
        return None
    return None


def test_each_option_is_checked_and_the_error_names_it() -> None:
    wrong = []
    for name, option, value, call in everything():
        error = refusal(call)
        if error is None or not (f"`{option}`" in str(error) or (option in ("ids", "items") and "`" in str(error))):
            wrong.append(f"{name}({option}={value!r}): {error!r}")
    assert not wrong, "\n".join(wrong)


def test_each_method_is_in_the_table() -> None:
    without = {"is_wide", "forget_keys", "check", "close"}
    for kind, more in ((Queue, set()), (aio.Queue, {"length"})):
        assert {name for name in dir(kind) if not name.startswith("_")} == {*CALLS, *without, *more}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda jobs: jobs.put(1, delay=1, at=2e9), "`delay` and `at` exclude each other"),
        (lambda jobs: jobs.put(1, at=datetime(2030, 1, 1)), r"time zone `at` is: datetime.now\(timezone.utc\)"),
        (lambda jobs: jobs.put_many([Item(1, id="")]), "`id` is not empty"),
        (lambda jobs: jobs.put_many([Item(1), Item(2, delay=-1)]), "`delay` is at least 0, not -1"),
        (lambda jobs: jobs.put_many([Item(1, group=17)]), "`group` is a str or bytes, not 17"),
        (lambda jobs: jobs.put_many([Item(1, attempts=0)]), "`attempts` is from 1 to 65535, not 0"),
        (lambda jobs: jobs.put_many([Item(1, within="5")]), "`within` is a number of seconds"),
        (lambda jobs: jobs.put(1, attempts="3"), "`attempts` is a whole number, not '3'"),
        (lambda jobs: jobs.put(1, delay="5"), "`delay` is a number of seconds, or a timedelta, not '5'"),
        (lambda jobs: jobs.put({"at": datetime(2030, 1, 1)}), "`payload` .* datetime .* `codec`"),
        (lambda jobs: jobs.put_many([Item(nan)]), "`payload` .* `codec`"),
        (lambda jobs: jobs.update("a", {1}), "`payload` .* set .* `codec`"),
        (lambda jobs: jobs.every("r", b"x", seconds=1), "`payload` .* bytes .* `codec`"),
        (lambda jobs: Queue("redis://h"), r"^Queue\(\) missing .*'name'$"),
        (lambda jobs: Worker(jobs, work, max_retries=3), r"^Worker\(\) .*'max_retries'; .* is `attempts` here"),
        (lambda jobs: Worker(jobs, work, time_limit=3), r"^Worker\(\) .*; `time_limit` is `timeout` here"),
        (lambda jobs: Worker(jobs, work, other=3), r"^Worker\(\) .*'other'$"),
        (lambda jobs: jobs.put(1, countdown=3), r"^Queue.put\(\) .*; `countdown` is `delay` here"),
        (lambda jobs: jobs.put(1, eta=3), r"^Queue.put\(\) .*; `eta` is `at` here"),
        (lambda jobs: jobs.limit(rate=10), r"such as \(10, 1\) for ten a second, not 10"),
        (lambda jobs: jobs.limit(), "name a limit"),
        (lambda jobs: jobs.limit(share=2), "`share` needs a `group`"),
        (lambda jobs: jobs.limit(group="g", remember=1), "of the queue, not of a group"),
        (lambda jobs: jobs.cancel_all(), "either a `group` or a `prefix`"),
        (lambda jobs: jobs.revive(payload=1), "`payload` is for one letter"),
        (lambda jobs: jobs.every("r", 1), "either a `cron` or `seconds`"),
        (lambda jobs: jobs.every("r", 1, cron="* * * * *", seconds=1), "either a `cron` or `seconds`"),
        (lambda jobs: jobs.every("r", 1, seconds=1, zone="Europe/Berlin"), "only a `cron` has a `zone`"),
    ],
)
def test_the_error_says_what_would_be_right(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        # With braces in its name, put need not ask whether it has several keys.
        call(Queue(Silent(), "{jobs}"))
