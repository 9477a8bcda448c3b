"""One record written and read back by each client library with a login of its own.

`exchange(client, address, login, topic, value)` makes a producer and a consumer, and gives what was read;
what the library raises where it is refused is raised. The libraries that are no Python run in one agent each
(client_agents.py), so that a login costs milliseconds and not a start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from client_agents import Agent

from moldau.testing.security import Login

WAIT_S = 60.0
REFUSED_S = 5.0
NAMES = ("confluent", "kafka-python", "aiokafka", "kcat", "kafkajs", "java")

REFUSED_LOGIN: Mapping[str, str] = {
    "confluent": "_AUTHENTICATION",
    "kafka-python": "KafkaTimeoutError",  # it tries again and again, and may miss the response before the end
    "aiokafka": "SaslAuthenticationFailed",  # in its log
    "kcat": "(?i)authentication fail",
    "kafkajs": "KafkaJSSASLAuthenticationError",
    "java": "SaslAuthenticationException",
}
"""How each library tells of a login that the broker has refused."""

REFUSED_TOPIC: Mapping[str, str] = {
    "confluent": "TOPIC_AUTHORIZATION_FAILED",
    "kafka-python": "TopicAuthorizationFailed",
    "aiokafka": "TopicAuthorizationFailed",
    "kcat": "(?i)topic authorization failed",
    "kafkajs": "(?i)not authorized to access (this )?topics?",
    "java": "TopicAuthorizationException",
}
"""How each library tells of a topic that its user may not write."""


class Refused(Exception):
    """What a client said of a refusal: the name and the text of its error."""


class Clients:
    """The client libraries by name; agents are given as functions that start them."""

    def __init__(self, java: Callable[[], Agent], kafkajs: Callable[[], Agent]) -> None:
        self._start = {"java": java, "kafkajs": kafkajs}
        self._agents: dict[str, Agent] = {}

    def agent(self, name: str) -> Agent:
        if name not in self._agents:
            self._agents[name] = self._start[name]()
        return self._agents[name]

    def exchange(
        self, client: str, address: str, login: Login, topic: str, value: str, wait_s: float = WAIT_S
    ) -> str:
        """Write `value` to partition 0 and read it back from there. Refused with the library's words.

        `wait_s`: how long kafka-python tries to log in.
        """
        try:
            if client in self._start:
                options = login.java() if client == "java" else login.kafkajs()
                found = self.agent(client).call(
                    "exchange", address=address, options=options, topic=topic, value=value
                )
                return str(found)
            if client == "kafka-python":
                return by_kafka_python(address, login, topic, value, wait_s)
            return _IN_PYTHON[client](address, login, topic, value)
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error!r} {error}") from error

    def said(self, client: str, address: str, login: Login, topic: str) -> str:
        """What a library says, as error or in its log, of an exchange that is refused."""
        with _log() as said:
            try:
                self.exchange(client, address, login, topic, "never", REFUSED_S)
            except Refused as refused:
                return f"{refused}\n" + "\n".join(said)
        raise AssertionError(f"{client} was not refused")

    def close(self) -> None:
        for one in self._agents.values():
            one.close()


@contextlib.contextmanager
def _log() -> Iterator[list[str]]:
    """What the libraries in Python log meanwhile."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(handler)


def by_confluent(address: str, login: Login, topic: str, value: str) -> str:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

    failures: list[KafkaError] = []

    def failed(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            failures.append(error)

    settings = {
        "bootstrap.servers": address,
        "log_level": 0,
        "error_cb": failed,
        "message.timeout.ms": 60_000,
        **login.librdkafka(),
    }
    producer = Producer(settings)
    delivered: list[tuple[KafkaError | None, int]] = []
    producer.produce(
        topic, value, partition=0, on_delivery=lambda error, one: delivered.append((error, one.offset()))
    )
    deadline = time.monotonic() + WAIT_S
    while not delivered and not failures and time.monotonic() < deadline:
        producer.poll(0.05)
    if failures:
        raise KafkaException(failures[0])
    ((error, offset),) = delivered
    if error is not None:
        raise KafkaException(error)
    del settings["message.timeout.ms"]
    consumer = Consumer({**settings, "group.id": f"group-{topic}", "fetch.wait.max.ms": 100})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        while message := consumer.poll(max(0.0, deadline + WAIT_S - time.monotonic())):
            if not message.error():
                return bytes(message.value()).decode()
            if message.error().code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # it commits nothing
                raise KafkaException(message.error())
        raise TimeoutError("nothing read")
    finally:
        consumer.close()


def by_kafka_python(address: str, login: Login, topic: str, value: str, wait_s: float) -> str:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    words = {"bootstrap_servers": address, **login.kafka_python()}
    producer = KafkaProducer(**words, bootstrap_timeout_ms=int(wait_s * 1e3))
    try:
        offset = producer.send(topic, value.encode(), partition=0).get(WAIT_S).offset
    finally:
        producer.close(5)
    consumer = KafkaConsumer(**words, fetch_max_wait_ms=100)
    try:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, offset)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for one in consumer.poll(200).get(place, ()):
                return str(one.value.decode())
        raise TimeoutError("nothing read")
    finally:
        consumer.close()


def by_aiokafka(address: str, login: Login, topic: str, value: str) -> str:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def run() -> str:
        words: dict[str, Any] = {"bootstrap_servers": address, **login.aiokafka()}
        producer = AIOKafkaProducer(**words)
        try:
            await producer.start()
            sent = await producer.send_and_wait(topic, value.encode(), partition=0)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(**words, fetch_max_wait_ms=100)
        try:
            await consumer.start()
            place = TopicPartition(topic, 0)
            consumer.assign([place])
            consumer.seek(place, sent.offset)
            return str((await asyncio.wait_for(consumer.getone(), WAIT_S)).value.decode())
        finally:
            await consumer.stop()

    return asyncio.run(run())


def by_kcat(address: str, login: Login, topic: str, value: str) -> str:
    settings = [word for name, text in login.librdkafka().items() for word in ("-X", f"{name}={text}")]
    where = ["kcat", "-b", address, *settings, "-t", topic, "-p", "0"]
    _kcat([*where, "-P", "-D", "\n", "-X", "topic.message.timeout.ms=60000"], value)
    read = _kcat([*where, "-C", "-o", "beginning", "-e", "-q", "-X", "fetch.wait.max.ms=50"], "")
    return read.splitlines()[-1]


def _kcat(command: list[str], text: str) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=WAIT_S, check=False)
    if done.returncode or re.search("ERROR|failed", done.stderr):
        raise RuntimeError(done.stderr)
    return done.stdout


_IN_PYTHON = {
    "confluent": by_confluent,
    "aiokafka": by_aiokafka,
    "kcat": by_kcat,
}
