"""Sends one record after the other and reads each back: the time from a producer to a consumer.

The consumer is assigned every partition from its end on before the first record is sent, so no group and no
rebalance is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.tools.commands.perf.latencies import Latencies
from moldau.tools.shared.errors import CommandError, explain_kafka_error, is_of_unused_group

ANSWER_SECONDS = 60.0
_MS = 1000.0


@dataclass(frozen=True)
class Probe:
    """The record that is sent; made anew for each round."""

    value: Callable[[], bytes]
    key: Callable[[], bytes] | None = None
    headers: Callable[[], Sequence[tuple[str, bytes | None]]] | None = None


def measure(
    topic: str,
    rounds: int,
    probe: Probe,
    settings: Mapping[str, Any],
    acks: str = "all",
    report: Callable[[int, float], None] = lambda number, latency_ms: None,
    group_id: str = "moldau-perf",
) -> Latencies:
    """Do `rounds` round trips; `report` gets each one's number and latency. CommandError, KafkaException."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    consumer = Consumer({**settings, "group.id": group_id, "enable.auto.commit": False})
    producer = Producer({**settings, "linger.ms": 0, "acks": acks})
    found = Latencies()
    try:
        known = consumer.list_topics(topic, timeout=10).topics[topic]
        if known.error is not None:
            raise CommandError(f"topic {topic}: {explain_kafka_error(known.error)}")
        partitions = sorted(known.partitions)
        ends = [
            TopicPartition(
                topic, index, consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30)[1]
            )
            for index in partitions
        ]
        consumer.assign(ends)
        for number in range(rounds):
            latency_ms = _round(producer, consumer, topic, probe)
            found.add(latency_ms)
            report(number, latency_ms)
    finally:
        consumer.close()
    return found


def _round(producer: Any, consumer: Any, topic: str, probe: Probe) -> float:
    value = probe.value()
    key = probe.key() if probe.key else None
    headers = probe.headers() if probe.headers else None
    failures: list[Any] = []
    began = time.perf_counter()
    producer.produce(
        topic,
        value,
        key,
        headers=headers,
        on_delivery=lambda error, _: failures.append(error) if error else None,
    )
    left = producer.flush(ANSWER_SECONDS)
    if failures:
        raise CommandError(explain_kafka_error(failures[0]))
    if left:
        raise CommandError(f"a record was not acknowledged within {ANSWER_SECONDS:.0f} s")
    record = consumer.poll(ANSWER_SECONDS)
    while record is not None and record.error() is not None and is_of_unused_group(record.error()):
        record = consumer.poll(ANSWER_SECONDS)
    ended = time.perf_counter()
    if record is None:
        raise CommandError(f"a record did not come back within {ANSWER_SECONDS:.0f} s")
    if record.error() is not None:
        raise CommandError(explain_kafka_error(record.error()))
    if record.value() != value or record.key() != key:
        raise CommandError(
            f"another record than the one sent came back from {topic}: is somebody else writing to it?"
        )
    return (ended - began) * _MS
