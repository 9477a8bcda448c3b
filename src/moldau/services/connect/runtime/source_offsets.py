"""The offsets of sources, in a compacted topic, in Kafka Connect's own bytes.

    key    ["files",{"filename":"/var/log/syslog"}]     the connector's name and a source partition
    value  {"position":1234}                            where reading stands; null: forgotten

Read with read_committed, up to where the topic ended (aborted and open transactions included) when the
reading began: what a fenced task had committed is seen, what it had not is not. A worker keeps what it has
read and reads on from there the next time; between two readings there is no consumer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from moldau.client.librdkafka_settings import client_settings, create
from moldau.connect.errors import ConnectError, Retriable
from moldau.services.connect.runtime.setup import shared_client_settings
from moldau.services.connect.runtime.topics import ensure_topic

_TIMEOUT_SECONDS = 30.0
_READ_SECONDS = 120.0


def key_bytes(connector: str, partition: Mapping[str, Any]) -> bytes:
    """The key of a partition's offset."""
    return _json([connector, dict(partition)])


def value_bytes(offset: Mapping[str, Any] | None) -> bytes | None:
    """The value; None: a tombstone."""
    return None if offset is None else _json(dict(offset))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def partition_text(partition: Mapping[str, Any]) -> str:
    """The same for equal partitions, in whatever order their fields stand."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))


class SourceOffsets:
    """Of a worker: all topics that its connectors keep offsets in. Used by many threads."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._topics: dict[str, _Topic] = {}

    def read(self, topic: str, connector: str) -> dict[str, Mapping[str, Any]]:
        """A connector's offsets by `partition_text`, as of now. Retriable, ConnectError."""
        with self._lock:
            found = self._topics.setdefault(topic, _Topic(topic, self._worker))
        return found.read(connector)


class _Topic:
    def __init__(self, name: str, worker: Mapping[str, str]) -> None:
        self._name = name
        self._worker = worker
        self._lock = threading.Lock()
        self._next: dict[int, int] = {}
        self._offsets: dict[str, dict[str, Mapping[str, Any]]] = {}

    def read(self, connector: str) -> dict[str, Mapping[str, Any]]:
        with self._lock:
            try:
                self._catch_up()
            except KafkaException as failed:
                error = failed.args[0]
                raise Retriable(f"the offsets in {self._name} cannot be read: {error.str()}") from failed
            return dict(self._offsets.get(connector, {}))

    def _catch_up(self) -> None:
        given = shared_client_settings(self._worker)
        admin = create(AdminClient, client_settings(given, {"log_level": 3}))
        replication = int(self._worker.get("offset.storage.replication.factor", "-1"))
        partitions = int(self._worker.get("offset.storage.partitions", "25"))
        ensure_topic(admin, self._name, partitions, replication, {"cleanup.policy": "compact"})
        ends = self._ends(admin)
        if any(self._next.get(each, 0) > end for each, end in ends.items()):  # deleted, and created anew
            self._next, self._offsets = {}, {}
        if all(self._next.get(each, 0) >= end for each, end in ends.items()):
            return
        own = {
            "group.id": "moldau-connect-offsets",  # required, and not used: nothing is committed
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 3,
        }
        consumer = create(Consumer, {**client_settings(given, {}), **own})
        try:
            self._read_to(consumer, ends)
        finally:
            consumer.close()

    def _ends(self, admin: AdminClient) -> dict[int, int]:
        topic = admin.list_topics(timeout=_TIMEOUT_SECONDS).topics.get(self._name)
        if topic is None or not topic.partitions:
            raise Retriable(f"the topic {self._name} is not there yet")
        wanted = {
            KafkaPartition(self._name, each): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for each in topic.partitions
        }
        found = admin.list_offsets(
            wanted,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_TIMEOUT_SECONDS,
        )
        return {place.partition: future.result(_TIMEOUT_SECONDS).offset for place, future in found.items()}

    def _read_to(self, consumer: Consumer, ends: Mapping[int, int]) -> None:
        left = {each for each, end in ends.items() if self._next.get(each, 0) < end}
        consumer.assign(
            [KafkaPartition(self._name, each, self._next.get(each, OFFSET_BEGINNING)) for each in left]
        )
        until = time.monotonic() + _READ_SECONDS
        while left:
            if time.monotonic() > until:
                raise Retriable(
                    f"the offsets in {self._name} were not read to their end within {_READ_SECONDS:.0f} s: "
                    "a transaction may be open (moldau transactions list)"
                )
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                partition = int(message.partition() or 0)
                offset = int(message.offset() or 0)
                if error is None:
                    self._take(message.key(), message.value())
                    self._next[partition] = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._next[partition] = max(self._next.get(partition, 0), offset)
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise ConnectError(f"the offsets in {self._name} may not be read: {error.str()}")
                if partition in left and self._next.get(partition, 0) >= ends[partition]:
                    left.discard(partition)

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        try:
            connector, partition = json.loads(key or b"")
            offset = None if value is None else json.loads(value)
            text = partition_text(partition)
        except (ValueError, TypeError):
            return  # not ours, nor Kafka's
        if not isinstance(connector, str) or not isinstance(partition, dict):
            return
        if isinstance(offset, dict):
            self._offsets.setdefault(connector, {})[text] = offset
        else:
            self._offsets.get(connector, {}).pop(text, None)
