"""kafka-python as a client under test."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from client_members import PollingMember
from client_model import CODECS, Member, Message, Place, Received, eventually
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError


class KafkaPythonClient:
    name = "kafka-python"
    codecs = CODECS

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(self, topic: str, messages: Sequence[Message], codec: str = "none", **config: Any) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
            max_request_size=5_000_000,
            acks="all",
            **config,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    key=one.key,
                    value=one.value,
                    headers=list(one.headers),
                    partition=one.partition,
                    timestamp_ms=one.timestamp_ms,
                )
                for one in messages
            ]
            producer.flush(25)
            for one in sent:
                one.get(10)
        finally:
            producer.close(5)

    def read(self, counts: Mapping[str, int]) -> dict[str, list[Received]]:
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, fetch_max_wait_ms=100)
        try:
            places = [TopicPartition(t, p) for t in counts for p in sorted(consumer.partitions_for_topic(t))]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            found: dict[str, list[Received]] = {topic: [] for topic in counts}
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and sum(map(len, found.values())) < sum(counts.values()):
                for one in _flat(consumer.poll(200)):
                    found[one.topic].append(one)
            return found
        finally:
            consumer.close()

    def open_member(self, group: str, topics: Sequence[str], **config: Any) -> Member:
        consumer = KafkaConsumer(
            *topics,
            bootstrap_servers=self.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=300,
            session_timeout_ms=6000,
            fetch_max_wait_ms=100,
            metadata_max_age_ms=1000,
            **config,
        )
        await_metadata(consumer, topics)

        def step() -> tuple[list[Received], set[Place]]:
            records = _flat(consumer.poll(50))
            if records:
                with contextlib.suppress(KafkaError):  # rebalanced away: the next owner reads and commits
                    consumer.commit()
            return records, {(one.topic, one.partition) for one in consumer.assignment()}

        return PollingMember(step, consumer.close)

    def close(self) -> None:
        pass


def await_metadata(consumer: KafkaConsumer, topics: Sequence[str]) -> None:
    """Wait until a consumer that has subscribed knows the partitions of its topics; before its first poll.

    kafka-python 3.0.12 joins without them, assigns nothing, and rejoins when they come. That second join it
    loses where a poll ends before the join does: the next poll finds the metadata as at the assignment,
    decides that no join is needed (ConsumerCoordinator.need_rejoin does not look at the join that is under
    way), and neither takes the assignment nor sends heartbeats. Seen with Apache Kafka 4.3 as well, in ten of
    ten runs that poll for 1 ms. With the metadata there before the join, no second one follows.
    """
    eventually(lambda: all(consumer.partitions_for_topic(topic) for topic in topics))


def _flat(polled: Mapping[TopicPartition, Sequence[Any]]) -> list[Received]:
    return [
        Received(
            one.topic,
            one.partition,
            one.offset,
            one.key,
            one.value,
            tuple(tuple(h) for h in one.headers),
            one.timestamp,
        )
        for records in polled.values()
        for one in records
    ]
