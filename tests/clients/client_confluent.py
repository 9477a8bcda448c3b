"""confluent-kafka (librdkafka of the newest release) as a client under test."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from client_members import PollingMember
from client_model import CODECS, Member, Message, Place, Received
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    """Make a topic; underscores in setting names stand for dots."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=named)])[topic].result(20)


class ConfluentClient:
    name = "confluent"
    codecs = CODECS

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(self, topic: str, messages: Sequence[Message], codec: str = "none", **config: Any) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": codec,
                "linger.ms": 20,
                "message.timeout.ms": 20000,
                "message.max.bytes": 5_000_000,
                **config,
            }
        )
        errors: list[KafkaError] = []
        for one in messages:
            optional = {"partition": one.partition, "timestamp": one.timestamp_ms}
            producer.produce(
                topic,
                key=one.key,
                value=one.value,
                headers=list(one.headers),
                on_delivery=lambda error, _: errors.append(error) if error else None,
                **{name: value for name, value in optional.items() if value is not None},
            )
        assert producer.flush(25) == 0, "records were not acknowledged in time"
        if errors:
            raise KafkaException(errors[0])

    def read(self, counts: Mapping[str, int]) -> dict[str, list[Received]]:
        consumer = Consumer(self._config(f"confluent-read-{uuid.uuid4()}"))
        try:
            known = consumer.list_topics(timeout=10).topics
            consumer.assign([TopicPartition(t, p, 0) for t in counts for p in known[t].partitions])
            found: dict[str, list[Received]] = {topic: [] for topic in counts}
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and sum(map(len, found.values())) < sum(counts.values()):
                for one in _checked(consumer.consume(500, 0.2)):
                    found[one.topic].append(one)
            return found
        finally:
            consumer.close()

    def open_member(self, group: str, topics: Sequence[str], **config: str) -> Member:
        consumer = Consumer(
            {
                **self._config(group),
                "heartbeat.interval.ms": 300,
                "session.timeout.ms": 6000,
                "topic.metadata.refresh.interval.ms": 1000,
                **config,
            }
        )
        return _member(consumer, topics)

    def open_new_protocol_member(self, group: str, topics: Sequence[str], **config: str) -> Member:
        """KIP-848: the broker assigns, so the classic session settings must be absent."""
        settings = self._config(group) | {"group.protocol": "consumer"} | config
        return _member(Consumer(settings), topics)

    def _config(self, group: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }

    def close(self) -> None:
        pass


def _member(consumer: Consumer, topics: Sequence[str]) -> Member:
    consumer.subscribe(list(topics))

    def step() -> tuple[list[Received], set[Place]]:
        records = _checked(consumer.consume(500, 0.05))
        if records:
            with contextlib.suppress(KafkaException):  # rebalanced away: the next owner reads and commits
                consumer.commit(asynchronous=False)
        return records, {(one.topic, one.partition) for one in consumer.assignment()}

    return PollingMember(step, consumer.close)


def _checked(messages: Sequence[Any]) -> list[Received]:
    found = []
    for one in messages:
        if one.error() is not None:
            if one.error().retriable() or one.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            raise KafkaException(one.error())
        headers = tuple((name, value) for name, value in one.headers() or ())
        found.append(
            Received(
                one.topic(),
                one.partition(),
                one.offset(),
                one.key(),
                one.value(),
                headers,
                one.timestamp()[1],
            )
        )
    return found
