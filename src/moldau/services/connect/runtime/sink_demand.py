"""What there is to do for a sink: its topics' ends, and how far its group is. For engine_choice.py.

The consumer joins no group; it asks for offsets and is closed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from moldau.common.core.clock import Clock
from moldau.common.core.java_patterns import compile_java
from moldau.connect.errors import Retriable
from moldau.services.connect.runtime.engine_choice import Look
from moldau.services.connect.runtime.rows import SINK_ROWS, settings_of
from moldau.services.connect.runtime.setup import TaskSetup

_TIMEOUT_SECONDS = 10.0
_LATEST, _EARLIEST = OffsetSpec.latest(), OffsetSpec.earliest()  # type: ignore[no-untyped-call]


class SinkDemand:
    """Of one connector. ConnectError: a setting is wrong."""

    def __init__(self, setup: TaskSetup, clock: Clock) -> None:
        self._clock = clock
        rows = settings_of(SINK_ROWS, setup.config, setup.connector)
        self._topics: Sequence[str] = rows["topics"]
        self._pattern = compile_java(rows["topics.regex"]) if rows["topics.regex"] else None
        self._admin: AdminClient = setup.admin()
        self._consumer: Consumer = setup.consumer()

    def look(self) -> Look:
        """Blocks for some milliseconds. Retriable."""
        try:
            known = self._admin.list_topics(timeout=_TIMEOUT_SECONDS).topics
            names = [each for each in known if self._is_read(each)]
            places = [(name, each) for name in names for each in known[name].partitions]
            if not places:
                return Look(self._clock.monotonic_ms(), 0, 0, 0)
            ends, starts = (
                self._offsets(places, _LATEST),
                self._offsets(places, _EARLIEST),
            )
            committed = self._consumer.committed([KafkaPartition(*each) for each in places], _TIMEOUT_SECONDS)
        except KafkaException as failed:
            raise Retriable(f"its topics cannot be looked at: {failed.args[0].str()}") from failed
        lag = 0
        for each in committed:
            place = each.topic, each.partition
            at = each.offset if each.offset >= 0 else starts[place]
            lag += max(ends[place] - max(at, starts[place]), 0)
        return Look(self._clock.monotonic_ms(), sum(ends.values()), lag, len(places))

    def _is_read(self, topic: str) -> bool:
        if self._pattern is None:
            return topic in self._topics
        return not topic.startswith("__") and self._pattern.fullmatch(topic) is not None

    def _offsets(self, places: Sequence[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
        wanted = {KafkaPartition(*each): spec for each in places}
        found = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_TIMEOUT_SECONDS
        )
        return {
            (place.topic, place.partition): future.result(_TIMEOUT_SECONDS).offset
            for place, future in found.items()
        }

    def close(self) -> None:
        """Let go of the clients."""
        self._consumer.close()
