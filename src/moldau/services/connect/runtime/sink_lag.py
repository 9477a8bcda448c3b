"""How far a sink's task is behind: records not read yet, and the age in seconds of the oldest record not
written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from moldau.common.core.clock import Clock
from moldau.connect.batch import TopicPartition
from moldau.services.connect.runtime.metrics import TaskMetrics

_EVERY_MS = 1_000.0


class Lag:
    """Measured once a second from what the client knows anyhow."""

    def __init__(self, clock: Clock, metrics: TaskMetrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._at_ms = 0.0
        self._read: dict[TopicPartition, tuple[int, int]] = {}
        self._written: dict[TopicPartition, int] = {}

    def read(self, place: TopicPartition, last: Any) -> None:
        """The last message that was polled."""
        self._read[place] = (last.offset() + 1, last.timestamp()[1])

    def written(self, place: TopicPartition, last: Any) -> None:
        """The last message that was written."""
        self._written[place] = last.offset() + 1

    def forget(self, place: TopicPartition) -> None:
        """The partition is another task's now."""
        self._read.pop(place, None)
        self._written.pop(place, None)

    def measure(self, consumer: Consumer, places: Iterable[TopicPartition]) -> None:
        """Set the gauges."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._at_ms:
            return
        self._at_ms = now_ms + _EVERY_MS
        records, seconds, count = 0, 0.0, 0
        for place in places:
            count += 1
            try:
                _, end = consumer.get_watermark_offsets(
                    KafkaPartition(place.topic, place.partition), cached=True
                )
            except KafkaException:
                continue
            if place not in self._read or end < 0:
                continue
            position, timestamp_ms = self._read[place]
            behind = max(end - self._written.get(place, position), 0)
            records += behind
            if behind:
                seconds = max(seconds, (self._clock.now_ms() - timestamp_ms) / 1000)
        self._metrics.set("partition-count", count)
        self._metrics.set("moldau-lag-records", records)
        self._metrics.set("moldau-lag-seconds", seconds)
