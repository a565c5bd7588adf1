from __future__ import annotations

import asyncio
import importlib
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis
import redis.asyncio
from address import Address
from older import OlderModule
from servers import RealServer, wait_until

from dehydrator_queue import Item, Limits, ModuleMissing, ModuleTooOld, NotFound, Queue, QueueFull, Raw, TooLate, Worker
from dehydrator_queue.aio import Queue as AsyncQueue
from dehydrator_queue.queue.commands import pairs, poll
from dehydrator_queue.queue.library import connect


def test_what_is_put_away_waits_for_its_delay(server: RealServer, jobs: Queue) -> None:
    id = jobs.put({"mail": "anna"}, delay=600)
    waiting = jobs.look(id)
    assert waiting.payload == {"mail": "anna"}
    assert 500 < waiting.due - time.time() <= 600.1
    assert (waiting.attempts, waiting.leased) == (0, False)
    assert server.client.execute_command("DEHYDRATOR.POLL", "jobs") == []
    assert len(jobs) == 1


def test_an_id_that_is_there_stays_unless_it_is_replaced(jobs: Queue) -> None:
    assert jobs.put("first", id="a", delay=60) == "a"
    assert jobs.put("second", id="a") is None
    assert jobs.look("a").payload == "first"
    assert jobs.put("third", id="a", replace=True, delay=timedelta(minutes=2)) == "a"
    assert jobs.look("a").payload == "third"


def test_many_are_put_away_at_once(jobs: Queue) -> None:
    jobs.put("there", id="7", delay=5000)
    puts = jobs.put_many(Item(n, id=str(n), delay=n) for n in range(2500))
    assert puts == [(str(n), "exists" if n == 7 else "stored") for n in range(2500)]
    assert [waiting.id for waiting in jobs] == [str(n) for n in range(2500) if n != 7] + ["7"]
    assert [put.result for put in jobs.put_many([Item("x"), Item("y")])] == ["stored", "stored"]


def test_a_job_may_have_an_end_and_attempts_of_its_own(server: RealServer, jobs: Queue) -> None:
    terms: dict[str, Any] = {"within": timedelta(minutes=1), "attempts": 10}

    async def put() -> None:
        async with AsyncQueue(server.url, "jobs") as there:
            await there.put("c", id="c", delay=600, **terms)
            await there.put_many([Item("d", "d", 600)], **terms)

    jobs.put("a", id="a", delay=600, **terms)
    jobs.put_many([Item("b", "b", 600)], **terms)
    asyncio.run(put())
    for id in "abcd":
        told = pairs(server.client.execute_command("DEHYDRATOR.LOOK", "jobs", id, "FULL"))
        assert (told["until"] - told["deadline"], told["deliveries-limit"]) == (60_000, 10)
    jobs.put("e", id="e")
    told = pairs(server.client.execute_command("DEHYDRATOR.LOOK", "jobs", "e", "FULL"))
    assert (told["until"], told["deliveries-limit"]) == (None, 0)


def test_groups_of_jobs_take_turns(server: RealServer, jobs: Queue) -> None:

    async def put() -> None:
        async with AsyncQueue(server.url, "jobs") as there:
            await there.put("b1", id="b1", group="bert")
            await there.put_many([Item("b2", "b2"), Item("b3", "b3")], group=b"bert")

    jobs.put("a1", id="a1", group="anna")
    jobs.put_many([Item("a2", "a2"), Item("a3", "a3")], group="anna")
    asyncio.run(put())
    jobs.put("-", id="-")
    told = server.client.execute_command("DEHYDRATOR.POLL", "jobs", "WITHIDS")
    assert [id.decode() for id, _ in told] == ["a1", "b1", "-", "a2", "b2", "a3", "b3"]


def test_each_of_many_may_have_options_of_its_own(jobs: Queue) -> None:
    moment = time.time() + 900
    items = [
        Item(1, "a", 600, group="anna", attempts=3),
        Item(2, "b", at=moment),
        Item(3, "c", 600, within=60),
        Item(4, "d", 600, group="anna", attempts=3),
    ]
    assert [put.id for put in jobs.put_many(items, group="bert")] == ["a", "b", "c", "d"]
    assert [jobs.info(group=group)["length"] for group in ("anna", "bert")] == [2, 2]
    assert abs(jobs.look("b").due - moment) < 0.002
    told = [pairs(jobs._server.client.execute_command("DEHYDRATOR.LOOK", "jobs", id, "FULL")) for id in "ac"]
    assert [one["deliveries-limit"] for one in told] == [3, 0]
    assert told[1]["until"] - told[1]["deadline"] == 60_000


def test_of_many_those_that_find_no_room_are_told(jobs: Queue) -> None:
    jobs.limit(length=1)
    assert [put.result for put in jobs.put_many([Item("x"), Item("y")])] == ["stored", "full"]
    assert len(jobs) == 1
    with pytest.raises(QueueFull):
        jobs.put("z")


def test_jobs_are_cancelled_and_postponed_by_their_ids(jobs: Queue) -> None:
    jobs.put_many([Item(1, "a", 60), Item(2, "b", 60), Item(3, "c", 60)])
    assert jobs.cancel("a", "b", "none") == 2
    assert jobs.cancel() == 0
    assert jobs.postpone("c", 600)
    assert jobs.look("c").due - time.time() > 500
    assert jobs.postpone("c", at=datetime.now(timezone.utc) + timedelta(days=1))
    assert jobs.look("c").due - time.time() > 80_000
    assert not jobs.postpone("a", 1)
    jobs.update("c", 4)
    assert jobs.look("c").payload == 4
    with pytest.raises(NotFound):
        jobs.update("a", 4)


def test_ids_and_payloads_may_be_any_bytes(server: RealServer) -> None:
    jobs = Queue(server.url, "jobs", codec=Raw())
    id = b"\xff\x00 id"
    put = jobs.put(b"\x00\xfe", id=id)
    assert jobs.look(id).payload == b"\x00\xfe"
    assert jobs.look(put).id == put
    assert jobs.cancel(id) == 1


def test_many_are_weighed_not_only_counted(server: RealServer) -> None:
    server.client.config_resetstat()
    with Queue(server.url, "jobs", codec=Raw()) as jobs:
        assert all(jobs.put_many(Item(bytes(300_000)) for _ in range(30)))
        assert all(jobs.put_many([Item(bytes(3_000_000)), Item(b"")]))
    # Three of them are less than a megabyte; larger ones are sent alone.
    stats = {name.lower(): told for name, told in server.client.info("commandstats").items()}
    assert stats["cmdstat_dehydrator.mpush"]["calls"] == 10 + 2


async def test_a_queue_closes_what_it_opened_and_no_client_of_somebody_else(server: RealServer) -> None:
    def connected() -> int:
        return server.client.info("clients")["connected_clients"]

    before = connected()
    with Queue(server.url, "jobs") as jobs, redis.Redis(port=server.port) as client:
        async with AsyncQueue(server.url, "jobs") as others:
            assert jobs.put(1)
            assert await others.length() == 1
            with Queue(client, "jobs") as own:
                assert len(own) == 1
            assert connected() == before + 3
        wait_until(lambda: connected() == before + 2)
    wait_until(lambda: connected() == before)


def test_a_url_that_would_not_be_kept_to_is_refused() -> None:
    with pytest.raises(ValueError, match="TLS"):
        Queue("rediss+sentinel://127.0.0.1:26379/mine", "jobs")
    with pytest.raises(ValueError, match="name of the master"):
        Queue("redis+sentinel://127.0.0.1:26379", "jobs")


@pytest.mark.parametrize("library", ["redis", "valkey"])
@pytest.mark.parametrize("kind", ["Redis", "RedisCluster"])
async def test_a_client_of_the_other_kind_is_refused_before_anything_is_sent(library: str, kind: str) -> None:
    kind = kind.replace("Redis", library.title())
    plain, awaited = importlib.import_module(library), importlib.import_module(f"{library}.asyncio")
    with pytest.raises(TypeError, match=r"of asyncio; use dehydrator_queue\.aio"):
        Queue(getattr(awaited, kind)(host="127.0.0.1"), "jobs")
    with pytest.raises(TypeError, match="not of asyncio; use dehydrator_queue"):
        AsyncQueue(object.__new__(getattr(plain, kind)), "jobs")


def test_a_check_takes_nothing(server: RealServer, jobs: Queue) -> None:
    jobs.check()
    assert server.client.dbsize() == 0
    id = jobs.put("x")
    jobs.check()
    assert (jobs.look(id).attempts, jobs.look(id).leased) == (0, False)


def test_a_delay_is_counted_by_the_server(server: RealServer, jobs: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 86_400)
    jobs.put(1, id="a", delay=500)
    assert 400_000 < server.client.execute_command("DEHYDRATOR.PTTL", "jobs", "a") <= 500_000


def test_a_pause_is_made_and_ended(jobs: Queue) -> None:
    jobs.pause()
    assert jobs.info()["paused"] == 1
    assert jobs.resume()
    assert not jobs.resume()
    jobs.pause(timedelta(seconds=30))
    assert jobs.resume()


IN_GROUPS = {group: [Item(n, f"{group}:{n}", 60) for n in range(3)] for group in ("anna", "bert")}


def test_a_group_is_paused_postponed_and_cancelled(jobs: Queue) -> None:
    for group, items in IN_GROUPS.items():
        jobs.put_many(items, group=group)
    jobs.pause(timedelta(seconds=30), group="anna")
    jobs.pause(group="bert")
    assert [jobs.info(group=group)["paused"] for group in ("anna", "bert", "carl")] == [1, 1, 0]
    assert not jobs.resume()
    assert jobs.resume(group="anna")
    assert not jobs.resume(group="anna")
    assert jobs.postpone_all(600, group="anna") == 3
    assert jobs.look("anna:0").due - time.time() > 500
    assert jobs.cancel_all(prefix="anna:2") == 1
    assert jobs.cancel_all(group="anna") == 2
    assert jobs.cancel_all(prefix="") == 3
    for wrong in ({}, {"group": "anna", "prefix": "a"}):
        with pytest.raises(ValueError, match="either a `group` or a `prefix`"):
            jobs.cancel_all(**wrong)
    jobs.close()


async def test_a_group_is_paused_postponed_and_cancelled_with_asyncio(server: RealServer) -> None:
    jobs = AsyncQueue(server.url, "jobs")
    for group, items in IN_GROUPS.items():
        await jobs.put_many(items, group=group)
    await jobs.pause(30, group="anna")
    assert (await jobs.info(group="anna"))["paused"] == 1
    assert await jobs.resume(group="anna")
    assert await jobs.postpone_all(600, group="anna") == 3
    assert (await jobs.look("anna:0")).due - time.time() > 500
    assert await jobs.cancel_all(group="anna") == 3
    assert await jobs.cancel_all(prefix="bert:") == 3
    await jobs.close()


def test_a_client_may_decode_replies(server: RealServer) -> None:
    jobs = Queue(redis.Redis(port=server.port, decode_responses=True), "jobs")
    id = jobs.put("ä")
    assert jobs.look(id).payload == "ä"
    assert [waiting.payload for waiting in jobs] == ["ä"]


@pytest.mark.parametrize("protocol", [2, 3])
def test_both_protocols_are_read(server: RealServer, protocol: int) -> None:
    jobs = Queue(redis.Redis(port=server.port, protocol=protocol), "jobs")
    id = jobs.put(17)
    assert jobs.look(id).payload == 17
    assert jobs.info()["length"] == 1


def test_valkey_py_will_do(server: RealServer) -> None:
    valkey = pytest.importorskip("valkey")
    jobs = Queue(valkey.Valkey(port=server.port), "jobs")
    assert jobs.look(jobs.put(17)).payload == 17
    assert Queue(server.url.replace("redis", "valkey"), "jobs").put(18)


def test_a_server_without_the_module_is_named(bare_server: RealServer) -> None:
    jobs = Queue(bare_server.url, "jobs")
    with pytest.raises(ModuleMissing, match="loadmodule"):
        jobs.put(1)
    with pytest.raises(ModuleMissing):
        jobs.check()


def test_a_module_that_is_too_old_is_named(server: RealServer) -> None:
    with OlderModule(server.port) as older:
        jobs = Queue(older.url, "jobs")
        with pytest.raises(ModuleTooOld, match=r"dehydrator 0\.[0-9.]+ has no command DEHYDRATOR.EVERY.*Upgrade"):
            jobs.check()
        with pytest.raises(ModuleTooOld, match=r"needs version [0-9.]+ or later"):
            Worker(jobs, lambda job: None).run()


def test_a_key_of_another_type_is_an_error_at_once(server: RealServer) -> None:
    server.client.lpush("jobs", 1)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        Queue(server.url, "jobs").put(1)


def test_what_is_put_away_while_the_server_restarts_arrives_once(own_server: RealServer) -> None:
    jobs = Queue(own_server.url, "jobs", patience=120)
    own_server.kill()
    putting = threading.Thread(target=lambda: [jobs.put(n, id=str(n), delay=60) for n in range(100)])
    putting.start()
    own_server.start()
    putting.join()
    assert len(jobs) == 100


def test_a_script_that_runs_for_too_long_is_waited_for(own_server: RealServer) -> None:
    own_server.client.config_set("lua-time-limit", 1)
    jobs, met = Queue(own_server.url, "jobs", patience=120), []
    assert len(jobs) == 0

    def endless() -> None:
        with redis.Redis(port=own_server.port, socket_timeout=240) as client, suppress(redis.ResponseError):
            client.eval("while true do end", 0)

    def busy() -> bool:
        try:
            return not own_server.client.ping()
        except redis.ResponseError as error:
            return str(error).startswith("BUSY ")

    running = threading.Thread(target=endless)
    putting = threading.Thread(
        target=lambda: jobs._server.follow(jobs._putting(1, "a", 0, None, False, None, None, None), tell=met.append)
    )
    running.start()
    wait_until(busy)
    putting.start()
    try:
        wait_until(lambda: met or not putting.is_alive())
    finally:
        own_server.client.script_kill()
        running.join()
        putting.join()
    assert met
    assert jobs.look("a").payload == 1


@pytest.mark.slow
def test_a_connection_that_falls_silent_is_left_for_another(server: RealServer) -> None:
    address = Address(server)
    try:
        jobs = Queue(address.url, "jobs")
        jobs.put(1, id="a")
        address.fall_silent()
        assert jobs.put(2, id="b") == "b"
    finally:
        address.close()


async def test_the_queue_of_asyncio_does_the_same(server: RealServer) -> None:
    jobs = AsyncQueue(server.url, "jobs")
    await jobs.check()
    id = await jobs.put({"n": 1}, delay=60)
    assert await jobs.put({"n": 2}, id=id) is None
    assert (await jobs.look(id)).payload == {"n": 1}
    assert await jobs.put_many([Item(n, str(n), 100 + n) for n in range(5)]) == [(str(n), "stored") for n in range(5)]
    assert [waiting.id async for waiting in jobs] == [id, "0", "1", "2", "3", "4"]
    assert await jobs.postpone(id, 600)
    assert await jobs.cancel(id, "0") == 2
    assert await jobs.length() == 4
    assert (await jobs.info())["length"] == 4
    await jobs.close()


async def test_as_many_as_one_likes_are_put_away_at_once(server: RealServer) -> None:
    jobs = AsyncQueue(server.url, "jobs", patience=120)
    await asyncio.gather(*(jobs.put(n) for n in range(300)))
    assert await jobs.length() == 300
    await jobs.close()


async def test_a_connection_is_waited_for_where_there_are_few(server: RealServer) -> None:
    jobs = AsyncQueue(redis.asyncio.Redis(port=server.port, max_connections=5), "jobs", patience=120)
    await asyncio.gather(*(jobs.put(n) for n in range(50)))
    assert await jobs.length() == 50
    await jobs.close()


async def test_a_question_is_cancelled_whenever_that_is(server: RealServer) -> None:
    jobs = AsyncQueue(server.url, "jobs")
    question = poll(["jobs"], 1, 1000, "token", 3000)
    # However far it has come: to a connection, into the library's sending, or to the wait for the reply.
    for steps in [*range(60), *range(60)]:
        asking = asyncio.ensure_future(jobs._server.ask(question))
        for _ in range(steps):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking})
        assert asking.cancelled(), f"after {steps} steps"
    await jobs.close()


def test_dead_letters_are_listed_and_revived(server: RealServer, jobs: Queue) -> None:
    server.client.execute_command("DEHYDRATOR.ONDUE", "jobs", "HOLD", "DELIVERIES", "1", "STREAM", "jobs:dead")
    jobs.put("x", id="a")
    server.client.execute_command("DEHYDRATOR.POLL", "jobs", "LEASE", "1")
    letter = wait_until(lambda: server.client.execute_command("DEHYDRATOR.POLL", "jobs") or jobs.dead_letters())[0]
    assert (letter.id, letter.element, letter.attempts, letter.reason) == ("a", b'"x"', 1, "")
    assert jobs.revive() == 1
    assert jobs.dead_letters() == []
    assert jobs.look("a").attempts == 0


def bury(jobs: Queue, reason: str) -> bool:
    """Turns the due job into a dead letter."""
    (delivery,) = jobs._server.ask(poll(["jobs"], 1, 60_000, "token", None))
    return jobs._server.follow(jobs._commands.bury(delivery, reason, 5))


def test_about_as_many_dead_letters_are_kept_as_one_says(server: RealServer) -> None:
    jobs = Queue(server.url, "jobs", keep_dead=100)
    jobs._server.ask(jobs._commands.limit_attempts(5, jobs._commands.keep))
    assert policy_of(jobs) == (5, 100)
    jobs.set_policy(attempts=3, keep_dead=7)
    assert policy_of(jobs) == (3, 7)
    jobs.set_policy()
    assert policy_of(jobs) == (5, 10_000)
    jobs.set_policy(attempts=None, keep_dead=None)
    assert policy_of(jobs) == (65_535, 0)


def policy_of(jobs: Queue) -> tuple[int, int]:
    policy = jobs.info()["policy"]
    return policy["deliveries"], policy["maxlen"]


def test_letters_come_back_by_name_and_with_another_payload(jobs: Queue) -> None:
    for id in "abcd":
        jobs.put({"to": id}, id=id, group="anna")
        assert bury(jobs, "no such mailbox")
    first, second, third, _ = jobs.dead_letters()
    assert (first.payload, first.reason, first.group, first.error) == ({"to": "a"}, "no such mailbox", "anna", None)
    assert jobs.dead_letters(1, start=f"({second.entry}") == [third]
    assert jobs.revive(second, third.entry) == 2
    assert jobs.revive(first, payload={"to": "anna"}) == 1
    assert [jobs.look(id).payload["to"] for id in "abc"] == ["anna", "b", "c"]
    (last,) = jobs.dead_letters()
    assert (jobs.drop(last), jobs.drop(), jobs.dead_letters()) == (1, 0, [])


def test_limits_are_set_and_read(jobs: Queue) -> None:
    jobs.limit(rate=(10, 1), held=3, length=100, remember=60, each_held=1)
    jobs.limit(group="anna", share=5, held=2)
    assert jobs.limits() == Limits(length=100, held=3, rate=(10, 1.0), remember=60.0, each_held=1)
    assert jobs.limits(group="anna") == Limits(held=2, share=5)
    jobs.limit(rate=(0, 0), length=0)
    assert (jobs.limits().rate, jobs.limits().length) == (None, 0)


def test_errors_have_types(server: RealServer) -> None:
    server.client.config_set("dehydrator.max-ttl", 1000)
    try:
        with pytest.raises(TooLate):
            Queue(server.url, "jobs").put(1, delay=60)
    finally:
        server.client.config_set("dehydrator.max-ttl", 0)
    with pytest.raises(ValueError, match="Out of range float"):
        Queue(server.url, "jobs").put(float("nan"))


def test_an_element_that_cannot_be_decoded_hides_no_other(server: RealServer, jobs: Queue) -> None:
    jobs.put(1, id="a")
    server.client.execute_command("DEHYDRATOR.PUSH", "jobs", 0, b"\xff", "b")
    server.client.execute_command("DEHYDRATOR.EVERY", "jobs", 60_000, b"\xff", "s")
    assert [(one.id, one.payload, one.error is None) for one in jobs] == [("a", 1, True), ("b", None, False)]
    assert isinstance(jobs.look("b").error, ValueError)
    assert [(one.name, one.error is None) for one in jobs.schedules] == [("s", False)]


def test_a_client_that_decodes_meets_ids_that_are_no_text(server: RealServer) -> None:
    jobs = Queue(redis.Redis(port=server.port, decode_responses=True), "jobs")
    jobs.put(1, id=b"\xff")
    done: list[str] = []
    worker = Worker(jobs, lambda job: [done.append(job.id), worker.stop()])
    worker.run()
    assert done == ["\udcff"]


def test_a_client_without_keys_puts_nothing_beside_the_keys(server: RealServer) -> None:
    Queue(server.url, "jobs", keys=2).put(1)
    with pytest.raises(ValueError, match="jobs has several keys"):
        Queue(server.url, "jobs").put(1)


def test_sentinels_may_have_addresses_in_brackets() -> None:
    sentinel = connect("redis+sentinel://[::1]:1,[::2],h/m", 1).connection_pool.sentinel_manager
    at = [one.connection_pool.connection_kwargs for one in sentinel.sentinels]
    assert [(one["host"], one["port"]) for one in at] == [("::1", 1), ("::2", 26379), ("h", 26379)]


def test_a_dead_letter_whose_id_is_in_the_queue_again_stays(jobs: Queue) -> None:
    for id in ("a", "b"):
        jobs.put("old", id=id)
        assert bury(jobs, "no such mailbox")
    jobs.put("new", id="a")
    assert jobs.revive() == 1
    assert [(letter.id, letter.element) for letter in jobs.dead_letters()] == [("a", b'"old"')]
    assert jobs.look("a").payload == "new"
    assert jobs.look("b").payload == "old"
    assert jobs.revive() == 0


def test_a_dead_letter_whose_id_is_remembered_comes_back(server: RealServer, jobs: Queue) -> None:
    server.client.execute_command("DEHYDRATOR.LIMIT", "jobs", "REMEMBER", 600_000)
    jobs.put("once", id="a")
    assert bury(jobs, "no such mailbox")
    # It was done before.
    server.client.execute_command("DEHYDRATOR.PUSH", "jobs", 0, "x", "a")
    server.client.execute_command("DEHYDRATOR.PULL", "jobs", "a")
    assert jobs.put("again", id="a") is None
    assert jobs.revive() == 1
    assert jobs.look("a").payload == "once"


def test_a_job_is_not_lost_where_its_dead_letter_finds_no_stream(server: RealServer, jobs: Queue) -> None:
    server.client.set("jobs:dead", "x")
    jobs.put(1, id="a")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        bury(jobs, "no such mailbox")
    assert jobs.look("a").leased
