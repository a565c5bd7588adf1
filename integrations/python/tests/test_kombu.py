from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from queue import Empty
from typing import Any
from uuid import uuid4

import celery
import kombu
import pytest
import redis
from address import Address
from servers import RealServer, free_port, wait_until

import dehydrator_queue.kombu
from dehydrator_queue import ModuleMissing
from dehydrator_queue.kombu.leave import leave
from dehydrator_queue.queue.commands import pairs

KEY = "dehydrator:work"


def connect(server: RealServer, **options: Any) -> kombu.Connection:
    options = {"visibility_timeout": 60, **options}
    return kombu.Connection(server.url, transport="dehydrator_queue.kombu:Transport", transport_options=options)


def publish(connection: kombu.Connection, body: Any, **properties: Any) -> None:
    connection.Producer().publish(body, routing_key="work", declare=[kombu.Queue("work")], **properties)


def get(connection: kombu.Connection, **options: Any) -> Any:
    return kombu.Queue("work")(connection.default_channel).get(**options)


def length(server: RealServer, key: str = KEY) -> int:
    return server.client.execute_command("DEHYDRATOR.LEN", key)


def polls(server: RealServer) -> int:
    return server.client.info("commandstats").get("cmdstat_dehydrator.mpoll", {"calls": 0})["calls"]


def eta(seconds: float) -> dict[str, str]:
    return {"eta": (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat()}


def test_a_message_is_there_until_it_is_acknowledged(server: RealServer) -> None:
    with connect(server) as connection:
        publish(connection, {"n": 1})
        message = get(connection)
        assert message.payload == {"n": 1}
        assert get(connection) is None
        assert length(server) == 1
        message.ack()
        assert length(server) == 0


def test_a_message_with_an_eta_waits_in_the_server(server: RealServer) -> None:
    with connect(server) as connection:
        began = time.monotonic()
        publish(connection, "later", headers=eta(4.0))
        assert get(connection) is None
        message = wait_until(lambda: get(connection))
        assert 4.0 <= time.monotonic() - began < 60
        message.ack()


@pytest.mark.parametrize("headers", [{"eta": None}, {"eta": "nonsense"}, {"eta": 17}])
def test_what_names_no_moment_does_not_wait(server: RealServer, headers: dict[str, Any]) -> None:
    with connect(server) as connection:
        publish(connection, "now", headers=headers)
        get(connection).ack()


def test_an_eta_without_a_zone_is_local(server: RealServer) -> None:
    with connect(server) as connection:
        publish(connection, "later", headers={"eta": (datetime.now() + timedelta(hours=1)).isoformat()})
        (id,) = server.client.execute_command("DEHYDRATOR.SCAN", KEY, 0)[1]
        assert 3_590_000 < server.client.execute_command("DEHYDRATOR.PTTL", KEY, id) <= 3_600_000


def test_deliveries_are_limited(server: RealServer) -> None:
    with connect(server, deliveries=2) as connection:
        kombu.Consumer(connection.channel(), [kombu.Queue("work")]).consume()
        publish(connection, 1)
        for token in ("a", "b"):
            server.client.execute_command("DEHYDRATOR.POLL", KEY, "LEASE", 1, "TOKEN", token, "BLOCK", 5000)
        wait_until(lambda: length(server) == 0)
    assert len(server.client.xrange(f"{KEY}:dead")) == 1


def test_a_reply_has_a_time_limit(server: RealServer) -> None:
    with connect(server) as connection:
        assert connection.channel().client.connection_pool.connection_kwargs["socket_timeout"] == 10
    with connect(server, socket_timeout=3) as connection:
        assert connection.channel().client.connection_pool.connection_kwargs["socket_timeout"] == 3


def test_a_worker_whose_clock_is_behind_does_not_wait_again(server: RealServer) -> None:
    with connect(server) as connection:
        publish(connection, "later", headers=eta(3600))
        (id,) = server.client.execute_command("DEHYDRATOR.SCAN", KEY, 0)[1]
        server.client.execute_command("DEHYDRATOR.TOUCH", KEY, 0, id)
        assert get(connection).headers["eta"] is None


def ends(server: RealServer) -> list[float]:
    """Returns how many seconds after its deadline each message is dropped."""
    ids = server.client.execute_command("DEHYDRATOR.SCAN", KEY, 0)[1]
    told = [pairs(server.client.execute_command("DEHYDRATOR.LOOK", KEY, id, "FULL")) for id in ids]
    return [(one["until"] - one["deadline"]) / 1000 for one in told if one["until"] is not None]


def of_task(expires: float, **more: Any) -> dict[str, Any]:
    return {"task": "note", "expires": eta(expires)["eta"], "ignore_result": True, **more}


def test_what_nobody_waits_for_is_dropped_by_the_server_when_it_expires(server: RealServer) -> None:
    with connect(server) as connection:
        publish(connection, 1, headers=of_task(3))
        publish(connection, 2, expiration=3)
        publish(connection, 3, headers=of_task(4, **eta(3)))
        assert length(server) == 3
        wait_until(lambda: length(server) == 0)
        publish(connection, 4, headers=of_task(600, **eta(200)))
        (end,) = ends(server)
        assert end == pytest.approx(400, abs=60)
        # What was taken in time may end late.
        publish(connection, 5, expiration=3)
        message = get(connection)
        time.sleep(3.5)
        assert length(server) == 2
        message.ack()
        assert length(server) == 1


@pytest.mark.parametrize(
    "headers",
    [
        # Celery revokes these, and stores that in their results.
        of_task(600, ignore_result=False),
        of_task(600, group="one"),
        # It is over before it begins.
        of_task(-1),
        of_task(100, **eta(200)),
        # When that is, is not known.
        {**of_task(600), "expires": "nonsense"},
        {**of_task(600), "expires": None},
    ],
)
def test_what_somebody_waits_for_is_left_to_celery(server: RealServer, headers: dict[str, Any]) -> None:
    with connect(server) as connection:
        # Celery has this property beside its header.
        publish(connection, 1, headers=headers, expiration=600, correlation_id="17")
        publish(connection, 1, expiration=600, correlation_id="17")
        assert length(server) == 2
        assert ends(server) == []


def test_groups_of_messages_take_turns(server: RealServer) -> None:
    with connect(server) as connection:
        # Celery's own header is the id of a canvas.
        for name, headers in (("a1", {"group": "x"}), ("a2", {}), ("b1", {}), ("-", None)):
            of = {} if headers is None else {"dehydrator_group": name[0]}
            publish(connection, name, headers={**(headers or {}), **of})
        assert [get(connection).payload for _ in range(4)] == ["a1", "b1", "-", "a2"]


def test_a_message_that_is_requeued_comes_again_and_says_so(server: RealServer) -> None:
    with connect(server) as connection:
        publish(connection, 1)
        message = get(connection)
        assert not message.delivery_info.get("redelivered")
        message.requeue()
        message = get(connection)
        assert message.delivery_info["redelivered"]
        assert message.headers["redelivered"]
        message.reject()
        assert length(server) == 0


def test_what_is_in_hand_when_a_connection_closes_is_given_back_in_order(server: RealServer) -> None:
    with connect(server) as connection:
        for n in range(5):
            publish(connection, n)
        assert [get(connection).payload for _ in range(3)] == [0, 1, 2]
    with connect(server) as connection:
        assert [get(connection, no_ack=True).payload for _ in range(5)] == [3, 4, 0, 1, 2]
        assert length(server) == 0


def test_what_a_killed_process_had_comes_again(server: RealServer) -> None:
    with connect(server) as connection:
        publish(connection, 1)
    program = (
        "import kombu, time\n"
        f"c = kombu.Connection('{server.url}', transport='dehydrator_queue.kombu:Transport',"
        " transport_options={'visibility_timeout': 4})\n"
        "assert kombu.Queue('work')(c.default_channel).get()\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with connect(server) as connection:
            # It is renewed while the process lives.
            end = time.monotonic() + 6
            while time.monotonic() < end:
                assert get(connection) is None
                time.sleep(0.1)
            process.kill()
            message = wait_until(lambda: get(connection))
            assert message.delivery_info["redelivered"]


def test_an_ack_arrives_over_another_connection(own_server: RealServer) -> None:
    with connect(own_server, visibility_timeout=30) as connection:
        publish(connection, 1)
        message = get(connection)
        own_server.kill()
        message.ack()
        own_server.start()
        wait_until(lambda: length(own_server) == 0)


def test_what_is_in_hand_when_a_connection_breaks_comes_again(own_server: RealServer) -> None:
    received = []
    connection = connect(own_server, visibility_timeout=1)
    publish(connection, 1)
    channel = connection.channel()
    callbacks = [lambda body, message: received.append(message)]
    kombu.Consumer(channel, [kombu.Queue("work")], callbacks=callbacks).consume()
    wait_until(lambda: drain(connection) or received)
    # A poll is under way.
    drain(connection)
    own_server.kill()
    # As Celery's worker does then.
    with suppress(redis.ConnectionError, OSError):
        connection.collect()
    own_server.start()
    with connect(own_server) as other:
        assert wait_until(lambda: get(other)).payload == 1


def test_one_reply_has_as_many_messages_as_the_worker_may_still_have(server: RealServer) -> None:
    received = []
    with connect(server) as connection:
        for n in range(9):
            publish(connection, n)
        channel = connection.channel()
        channel.basic_qos(0, 5, False)
        callbacks = [lambda body, message: received.append(message)]
        with kombu.Consumer(channel, [kombu.Queue("work")], callbacks=callbacks):
            before = polls(server)
            wait_until(lambda: drain(connection) or len(received) >= 5)
            assert [message.payload for message in received] == [0, 1, 2, 3, 4]
            for message in received[:2]:
                message.ack()
            wait_until(lambda: drain(connection) or len(received) >= 7)
            assert [message.payload for message in received[5:]] == [5, 6]
        told = pairs(server.client.execute_command("DEHYDRATOR.INFO", KEY))
        assert (told["length"], told["leased"]) == (7, 5)
    # One for each batch, and one that waits after each.
    assert 2 <= polls(server) - before <= 4


def test_a_worker_that_prefetches_nothing_is_given_one_message_at_a_time(server: RealServer) -> None:
    received = []
    with connect(server) as connection:
        for n in range(3):
            publish(connection, n)
        channel = connection.channel()
        channel.basic_qos(0, 5, False)
        # As Celery does with `worker_disable_prefetch`.
        channel.qos.can_consume = lambda: len(received) < 2
        callbacks = [lambda body, message: received.append(message)]
        with kombu.Consumer(channel, [kombu.Queue("work")], callbacks=callbacks):
            wait_until(lambda: drain(connection) or len(received) >= 2)
            for _ in range(2):
                drain(connection)
        assert [message.payload for message in received] == [0, 1]
        assert pairs(server.client.execute_command("DEHYDRATOR.INFO", KEY))["leased"] == 2


def test_what_came_in_one_reply_goes_on_to_others_when_the_worker_stops(server: RealServer) -> None:
    def stop(body: Any, message: Any) -> None:
        raise SystemExit

    with connect(server) as connection, connect(server) as other:
        for n in range(3):
            publish(connection, n)
        channel = connection.channel()
        channel.basic_qos(0, 5, False)
        with kombu.Consumer(channel, [kombu.Queue("work")], callbacks=[stop]), pytest.raises(SystemExit):
            connection.drain_events(timeout=120)
        told = pairs(server.client.execute_command("DEHYDRATOR.INFO", KEY))
        # Only what the worker has got counts as given out.
        assert (told["leased"], told["given-out"]) == (1, 1)
        assert get(other).payload == 1


def test_a_lease_is_renewed_and_ended_where_connections_fall_silent(server: RealServer) -> None:
    address = Address(server)
    options = {"visibility_timeout": 6}
    try:
        with (
            connect(server) as direct,
            kombu.Connection(address.url, transport=direct.transport_cls, transport_options=options) as connection,
        ):
            publish(direct, 1)
            message = get(connection)
            address.fall_silent()
            end = time.monotonic() + 9
            while time.monotonic() < end:
                assert get(direct) is None
                time.sleep(0.1)
            address.fall_silent()
            message.ack()
            wait_until(lambda: length(server) == 0)
            # The others are kombu's own: it waits for them without end.
            address.lead_to(server, cut=True)
    finally:
        address.close()


def test_an_error_of_one_queue_keeps_no_other_from_renewal(server: RealServer) -> None:
    other = "dehydrator:other"
    with connect(server, visibility_timeout=4) as connection:
        connection.Producer().publish(1, routing_key="other", declare=[kombu.Queue("other")])
        assert kombu.Queue("other")(connection.default_channel).get()
        publish(connection, 2)
        message = get(connection)
        server.client.delete(other)
        server.client.set(other, "x")
        end = time.monotonic() + 6
        while time.monotonic() < end:
            assert get(connection) is None
            time.sleep(0.1)
        message.ack()
        assert length(server) == 0
        server.client.delete(other)


def drain(connection: kombu.Connection) -> None:
    with suppress(TimeoutError):
        connection.drain_events(timeout=0.1)


def test_what_a_poll_gets_while_its_channel_closes_is_given_back(server: RealServer) -> None:
    received = []
    with connect(server) as connection, connect(server) as other:
        channel = connection.channel()
        callbacks = [lambda body, message: received.append(message)]
        kombu.Consumer(channel, [kombu.Queue("work")], callbacks=callbacks).consume()
        drain(connection)
        publish(other, 1)
        wait_until(lambda: pairs(server.client.execute_command("DEHYDRATOR.INFO", KEY))["leased"] == 1)
        # A worker would begin it, and another one too.
        channel.close()
        assert received == []
        assert not get(other).delivery_info.get("redelivered")


def test_a_reply_that_is_lost_is_asked_for_again(server: RealServer) -> None:
    received = []
    with connect(server, visibility_timeout=60) as connection:
        consumer = connection.Consumer(
            [kombu.Queue("work")], callbacks=[lambda body, message: received.append(message)]
        )
        with consumer:
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.1)
            # The poll is blocked in the server: it gets the message, and the reply is not read.
            publish(connection, 1)
            wait_until(lambda: server.client.execute_command("DEHYDRATOR.INFO", KEY)[5] == 1)
            consumer.channel.client.connection.disconnect()
            end = time.monotonic() + 120
            while not received and time.monotonic() < end:
                try:
                    connection.drain_events(timeout=1)
                except OSError:
                    continue
        assert [message.payload for message in received] == [1]
        received[0].ack()
    assert length(server) == 0


@pytest.mark.parametrize("bad", [b"{not json", b"[1]", b"{}", b"\xff\xfe"])
def test_what_cannot_be_read_is_a_dead_letter_and_the_rest_is_delivered(server: RealServer, bad: bytes) -> None:
    server.client.execute_command("DEHYDRATOR.PUSH", KEY, 0, bad, "bad")
    with connect(server) as connection:
        publish(connection, "good")
        assert wait_until(lambda: get(connection)).payload == "good"
    ((_, entry),) = server.client.xrange(f"{KEY}:dead")
    assert entry[b"element"] == bad
    assert entry[b"reason"].startswith(b"it cannot be decoded: ")


def test_about_as_many_that_cannot_be_read_are_kept_as_one_says(server: RealServer) -> None:
    with connect(server, keep_dead=2) as connection:
        publish(connection, 1)
        server.client.execute_command("DEHYDRATOR.PUSH", KEY, 0, "{not json", "bad")
        wait_until(lambda: get(connection, no_ack=True) is None and length(server) == 0)
    ((_, letter),) = server.client.xrange(f"{KEY}:dead")
    assert letter[b"reason"].startswith(b"it cannot be decoded: ")
    told = server.client.execute_command("DEHYDRATOR.INFO", KEY)
    policy = told[told.index(b"policy") + 1]
    assert policy[policy.index(b"maxlen") + 1] == 2


def test_what_cannot_be_read_stays_where_dead_letters_find_no_stream(server: RealServer) -> None:
    server.client.set(f"{KEY}:dead", "x")
    server.client.execute_command("DEHYDRATOR.PUSH", KEY, 0, b"{not json", "bad")
    with connect(server) as connection:
        publish(connection, "good")
        assert wait_until(lambda: get(connection)).payload == "good"
    assert server.client.execute_command("DEHYDRATOR.LOOK", KEY, "bad") == b"{not json"


def test_priorities_sizes_and_purge_are_as_on_redis(server: RealServer) -> None:
    with connect(server) as connection:
        publish(connection, "low", priority=9)
        publish(connection, "high", priority=0)
        publish(connection, "later", headers=eta(600))
        queue = kombu.Queue("work")(connection.default_channel)
        assert queue.queue_declare(passive=True).message_count == 3
        message = get(connection)
        assert message.payload == "high"
        assert queue.queue_declare(passive=True).message_count == 2
        assert queue.purge() == 2
        message.ack()
        assert server.client.keys("dehydrator:*") == []


def test_what_was_given_back_counts_beside_what_waits(server: RealServer) -> None:
    with connect(server) as connection:
        publish(connection, "again")
        publish(connection, "later", headers=eta(600))
        get(connection).requeue()
        queue = kombu.Queue("work")(connection.default_channel)
        assert queue.queue_declare(passive=True).message_count == 2


def test_a_queue_that_expires_keeps_what_waits_and_what_is_in_hand(server: RealServer) -> None:
    with connect(server, visibility_timeout=1) as connection:
        queue = kombu.Queue("work", expires=3)(connection.default_channel)
        queue.declare()
        if not getattr(connection.default_channel, "_expires", None):
            pytest.skip("this kombu has no queues that expire")
        connection.Producer().publish("later", routing_key="work", headers=eta(3))
        connection.Producer().publish("unused", routing_key="work")
        assert queue.get(no_ack=True).payload == "unused"
        message = wait_until(queue.get)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            assert length(server) == 1
            time.sleep(0.1)
        message.ack()
        connection.Producer().publish("unused", routing_key="work")
        assert 0 < server.client.pttl(KEY) <= 3000
        wait_until(lambda: not server.client.exists(KEY))


def test_a_global_prefix_is_ahead_of_each_key(server: RealServer) -> None:
    with connect(server, global_keyprefix="site:") as connection:
        publish(connection, 1, priority=3)
        publish(connection, 2, expiration=None)
        assert sorted(server.client.keys("*dehydrator*")) == [
            b"site:dehydrator:work",
            b"site:dehydrator:work\x06\x163",
        ]
        assert connection.default_channel.queue_declare("work", passive=True).message_count == 2
        assert [get(connection, no_ack=True).payload for _ in range(2)] == [2, 1]


def test_a_message_in_two_queues_is_acknowledged_in_each(server: RealServer) -> None:
    exchange = kombu.Exchange("news", type="topic")
    queues = [kombu.Queue(name, exchange, routing_key="news.#") for name in ("left", "right")]
    with connect(server) as connection:
        bound = [queue(connection.default_channel) for queue in queues]
        for queue in bound:
            queue.declare()
        connection.Producer().publish("x", exchange=exchange, routing_key="news.today")
        left, right = (queue.get() for queue in bound)
        left.ack()
        assert (length(server, "dehydrator:left"), length(server, "dehydrator:right")) == (0, 1)
        right.ack()
        assert length(server, "dehydrator:right") == 0


def test_messages_of_one_task_are_found_by_its_id_and_all_arrive(server: RealServer) -> None:
    task = str(uuid4())
    with connect(server) as connection:
        for n in range(6):
            publish(connection, n, headers={"id": task, **eta(600)})
        ids = {id.decode() for id in server.client.execute_command("DEHYDRATOR.SCAN", KEY, 0)[1]}
        assert len(ids) == 6
        assert ids >= {task, f"{task}:1", f"{task}:2"}


def test_a_revoked_message_that_a_worker_takes_in_that_moment_is_left_to_it(
    server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = redis.Redis.execute_command

    def late(client: redis.Redis, *words: Any, **options: Any) -> Any:
        """Makes another worker take due messages before this one, by any command."""
        if words[0] == "DEHYDRATOR.PULL":
            assert send(server.client, "DEHYDRATOR.POLL", KEY, "LEASE", 60_000)
        return send(client, *words, **options)

    with connect(server) as connection:
        publish(connection, 1, headers={"id": "t"})
        monkeypatch.setattr(redis.Redis, "execute_command", late)
        taken = list(connection.default_channel._take_free(KEY, "t"))
        leased = server.client.execute_command("DEHYDRATOR.INFO", KEY)
        assert (len(taken), length(server)) == (1, 0), leased


def test_a_server_without_the_module_is_named(bare_server: RealServer) -> None:
    with pytest.raises(ModuleMissing, match="loadmodule"), connect(bare_server) as connection:
        connection.connect()


def test_a_key_of_another_type_is_named(server: RealServer) -> None:
    server.client.lpush(KEY, "x")
    with connect(server) as connection, pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        publish(connection, 1)


def test_the_list_of_the_redis_transport_is_left_alone(server: RealServer) -> None:
    with kombu.Connection(server.url) as before:
        publish(before, "old")
    with connect(server) as connection:
        publish(connection, "new")
        queue = kombu.Queue("work")(connection.default_channel)
        assert get(connection, no_ack=True).payload == "new"
        queue.delete()
    with kombu.Connection(server.url) as before:
        assert get(before, no_ack=True).payload == "old"


def test_the_alias_is_a_scheme(server: RealServer) -> None:
    with kombu.Connection(server.url.replace("redis", "dehydrator")) as connection:
        publish(connection, 1)
        assert length(server) == 1
        assert isinstance(connection.default_channel, dehydrator_queue.kombu.Channel)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, 300),
        ({"lease": 60}, 60),
        ({"visibility_timeout": 7200}, 7200),
        ({"visibility_timeout": 7200, "lease": 5}, 5),
    ],
)
def test_a_lease_has_a_name_and_a_default_of_its_own(server: RealServer, options: dict[str, Any], seconds: int) -> None:
    with kombu.Connection(
        server.url, transport="dehydrator_queue.kombu:Transport", transport_options=options
    ) as connection:
        channel = connection.default_channel
        assert channel.leases.lease_ms == seconds * 1000
        assert channel.visibility_timeout == options.get("visibility_timeout", 3600)


def test_the_next_of_several_urls_has_the_same_transport(server: RealServer) -> None:
    nobody = f"redis://127.0.0.1:{free_port()}"
    urls = f"{nobody};{server.url}"
    with kombu.Connection(urls, transport="dehydrator_queue.kombu:Transport") as connection:
        connection.ensure_connection(max_retries=3, interval_start=0.01)
        publish(connection, "there")
        with connection.clone() as another:
            assert get(another).payload == "there"
    assert length(server) == 1


def test_a_batch_is_put_away_at_once(server: RealServer) -> None:
    with connect(server) as connection:
        producer = connection.Producer()
        if not hasattr(producer, "batch"):
            pytest.skip("this kombu has no batches")
        with producer.batch():
            for n in range(10):
                producer.publish(n, routing_key="work", declare=[kombu.Queue("work")], headers=eta(600))
        assert length(server) == 10
        with pytest.raises(Empty):
            connection.default_channel._get("work")


def test_a_channel_that_is_closed_behind_its_connection_leaves_its_leases_to_run_out(server: RealServer) -> None:
    # As a worker of Celery's does it when the server has gone.
    connection = connect(server, visibility_timeout=1)
    publish(connection, "work")
    channel = connection.default_channel
    assert get(connection).payload == "work"
    connection.transport.client = None
    channel.close()
    with connect(server) as other:
        wait_until(lambda: get(other)).ack()


def test_what_waits_goes_back_to_the_lists_of_kombus_own_transport(server: RealServer) -> None:
    options = {"global_keyprefix": "mine:"}
    app = celery.Celery(broker=f"{server.url}/0")
    app.conf.update(broker_transport_options=options, task_queues=[kombu.Queue("work"), kombu.Queue("other")])
    with connect(server, **options) as connection, kombu.Connection(server.url, transport_options=options) as own:
        for n in range(1500):
            publish(connection, n)
        publish(connection, "last", priority=9, headers=eta(3600))
        connection.Producer().publish("other", routing_key="other", declare=[kombu.Queue("other")])
        held = get(connection)
        assert held.payload == 0
        assert leave(app) == 1501
        assert leave(app, "work") == 0
        # What a worker has stays its own.
        assert [key for key in server.client.keys("mine:dehydrator:*") if length(server, key)] == [
            f"mine:{KEY}".encode()
        ]
        got = [get(own) for _ in range(1500)]
        assert [message.payload for message in got] == [*range(1, 1500), "last"]
        assert got[-1].headers["eta"]
        assert kombu.Queue("other")(own.default_channel).get().payload == "other"
        held.requeue()
        assert leave(app) == 1
        assert get(own).payload == 0
        assert not server.client.keys("mine:dehydrator:*")


def test_there_is_no_way_back_on_a_cluster() -> None:
    app = celery.Celery(broker="redis+cluster://127.0.0.1:7000")
    with pytest.raises(ValueError, match="cluster"):
        leave(app)
