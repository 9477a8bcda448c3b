"""librdkafka's share consumers in threads, and what they were told of each record."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from raw_client import RawClient

from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestGroup,
)

ACCEPT, RELEASE, REJECT = 1, 2, 3


def set_group(bootstrap: str, group: str, **settings: str) -> None:
    """Settings of a share group; `_` stands for a dot."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def make_topic(bootstrap: str, name: str, partitions: int) -> None:
    """Make a topic with the cluster's replicas."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions)])[name].result(60)


def write(bootstrap: str, topic: str, values: list[str]) -> None:
    """Write these, acknowledged by all replicas."""
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for value in values:
        producer.produce(topic, value.encode(), on_delivery=lambda error, _: error and failed.append(error))
        producer.poll(0)
    assert producer.flush(120) == 0
    assert not failed


class Worker:
    """A member in a thread: `decide` says what becomes of a record, by its value and delivery count."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, decide: Callable[[str, int], int], **config: object
    ) -> None:
        self.seen: list[tuple[str, int]] = []
        self.accepted: Counter[str] = Counter()
        """Values whose acceptance was confirmed."""
        self.doubtful: set[str] = set()
        """Values whose acceptance may have been written, or not: the broker died before it answered."""
        self.errors: list[object] = []
        self._decide = decide
        self._topic = topic
        self._stop = threading.Event()
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "share.acknowledgement.mode": "explicit",
                **config,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._consumer.subscribe([self._topic])
        try:
            while not self._stop.is_set():
                self._round()
        finally:
            self._consumer.close()

    def _round(self) -> None:
        taken = []
        try:
            for record in self._consumer.poll(0.3) or ():
                if record.error():
                    self.errors.append(record.error())
                    continue
                value, count = record.value().decode(), record.delivery_count()
                self.seen.append((value, count))
                kind = self._decide(value, count)
                self._consumer.acknowledge(record, kind)
                taken.append((record, value, kind))
            if taken:
                told = self._consumer.commit_sync(30)
                failed = {(each.topic, each.partition) for each, error in told.items() if error is not None}
                for record, value, kind in taken:
                    if (record.topic(), record.partition()) in failed:
                        self.doubtful.add(value)
                    elif kind == ACCEPT:
                        self.accepted[value] += 1
        except KafkaException as error:
            self.doubtful |= {value for _, value, _ in taken}
            self.errors.append(error)
            if error.args[0].code() in (KafkaError._ALL_BROKERS_DOWN,):
                time.sleep(0.1)

    def close(self) -> None:
        """Leave the group."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def until(condition: Callable[[], object], what: str, timeout_s: float = 90.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def lag(bootstrap: str, group: str) -> int | None:
    """How many records of the group's partitions are not done; None: nobody can tell now."""
    for address in bootstrap.split(","):
        try:
            with RawClient(address) as client:
                request = DescribeShareGroupOffsetsRequest(groups=[RequestGroup(group_id=group)])
                client.send(frame_request(request.KEY, 1, 1, "test", request.encode(1)))
                (found,) = DescribeShareGroupOffsetsResponse.decode(client.receive(), 1, 5).groups
        except OSError:
            continue
        rows = [row for topic in found.topics for row in topic.partitions]
        if not found.error_code and rows and all(row.lag >= 0 for row in rows):
            return sum(row.lag for row in rows)
    return None
