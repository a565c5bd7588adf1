"""Debian's RabbitMQ: durable queues, persistent messages, confirmed by the server.

A message waits in a queue with a TTL and without consumers, and is dead-lettered into the queue of jobs. There is a
queue for each whole second, because a message leaves its queue only at its head.
"""

from __future__ import annotations

import math
import os
import subprocess
import threading
from collections.abc import Callable

import pika

from system import Client, System, payload

PERSISTENT = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)


class Jobs(Client):
    def __init__(self, port: int) -> None:
        self._connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
        self._confirming = self._connection.channel()
        self._confirming.confirm_delivery()
        self._channel = self._connection.channel()
        self._channel.queue_declare("jobs", durable=True)
        self._declared: set[int] = set()

    def _place(self, delay: float) -> str:
        """Returns the queue in which a message waits. Never early."""
        seconds = math.ceil(delay)
        place = f"delay-{seconds}" if seconds else "jobs"
        if seconds and seconds not in self._declared:
            arguments = {
                "x-message-ttl": seconds * 1000,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "jobs",
            }
            self._channel.queue_declare(place, durable=True, arguments=arguments)
            self._declared.add(seconds)
        return place

    def put(self, number: int, delay: float) -> None:
        self._confirming.basic_publish("", self._place(delay), payload(number).encode(), PERSISTENT)

    def put_many(self, numbers: range, delay: float) -> None:
        place = self._place(delay)
        for number in numbers:
            self._channel.basic_publish("", place, payload(number).encode(), PERSISTENT)
            if number % 1000 == 0:
                self._connection.process_data_events()
        # Confirmed, so all before it arrived, too.
        self._confirming.queue_declare(place, passive=True)

    def work(self, done: Callable[[int], None], stopping: threading.Event) -> None:
        self._channel.basic_qos(prefetch_count=1)
        for method, _, body in self._channel.consume("jobs", inactivity_timeout=0.5):
            if method is not None:
                done(int(body))
                self._channel.basic_ack(method.delivery_tag)
            if stopping.is_set():
                break
        self._channel.cancel()

    def close(self) -> None:
        self._connection.close()


class RabbitMq(System):
    name = "RabbitMQ, TTL and dead letters"
    #: A message can only be taken from the head of its queue.
    can_cancel = False

    def version(self) -> str:
        words = ["dpkg-query", "-W", "-f", "RabbitMQ ${source:Upstream-Version}", "rabbitmq-server"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def words(self) -> list[str]:
        return ["/usr/lib/rabbitmq/bin/rabbitmq-server"]

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.port - 1),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "none"),
        }

    def is_up(self) -> bool:
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port)).close()
        return True

    def client(self) -> Client:
        return Jobs(self.port)
