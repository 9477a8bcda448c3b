"""Members of share groups that speak with a real broker request by request."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from moldau.client.connection import Connection
from moldau.client.options import ClientOptions
from moldau.common.protocol.messages import share_fetch as fetch
from moldau.common.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.common.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.common.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.common.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.testing import Broker

GROUP_RESOURCE = 32
Acks = Sequence[tuple[int, int, list[int]]]


def until(found: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait until this is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"never: {what}")


class Member:
    """One member on a connection of its own."""

    def __init__(self, broker: Broker, member_id: str, group_id: str = "g") -> None:
        host, port = broker.bootstrap_servers.split(",")[0].rsplit(":", 1)
        self.connection = Connection(host, int(port), ClientOptions())
        self.group_id, self.member_id, self.session_epoch = group_id, member_id, 0

    def make_topic(self, name: str, partitions: int = 1) -> bytes:
        """Its id."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        self.connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))

        def topic_id() -> bytes | None:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
            (row,) = self.connection.ask(asked).topics
            led = len(row.partitions) == partitions and all(each.leader_id >= 0 for each in row.partitions)
            return bytes(row.topic_id) if not row.error_code and led else None

        found: bytes = until(topic_id, "the topic is there")
        return found

    def write(self, topic: str, count: int) -> None:
        """One batch of so many records."""
        records = [Record(offset, 1, None, b"v", ()) for offset in range(count)]
        rows = [PartitionProduceData(index=0, records=bytes(build_batch(records)))]
        request = ProduceRequest(
            acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=rows)]
        )
        answer = self.connection.ask(request, at_most=9)
        assert not answer.responses[0].partition_responses[0].error_code

    def read_from_the_start(self) -> None:
        """The group begins at the beginning of its topics."""
        self.set_group("share.auto.offset.reset", "earliest")

    def set_group(self, name: str, value: str) -> None:
        """A setting of the group."""
        setting = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self.group_id, configs=[setting]
        )
        answer = self.connection.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert not answer.responses[0].error_code

    def join(self, topic: str) -> None:
        """Heartbeats until there is an assignment."""
        epoch = 0
        self.connection.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id]))

        def assigned() -> bool:
            nonlocal epoch
            answer = self.connection.ask(
                ShareGroupHeartbeatRequest(
                    group_id=self.group_id,
                    member_id=self.member_id,
                    member_epoch=epoch,
                    subscribed_topic_names=[topic] if not epoch else None,
                )
            )
            if not answer.error_code:
                epoch = answer.member_epoch
            return bool(answer.assignment and answer.assignment.topic_partitions)

        until(assigned, "an assignment")

    def request(self, topic_id: bytes, max_wait_ms: int = 5000, acks: Acks = (), **fields: Any) -> Any:
        """A fetch of the next session epoch."""
        rows = [
            fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acks
        ]
        place = fetch.FetchPartition(partition_index=0, acknowledgement_batches=rows)
        request = fetch.ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_records=500,
            batch_size=500,
            topics=[fetch.FetchTopic(topic_id=topic_id, partitions=[place])],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        self.session_epoch += 1
        return request

    def fetch(self, topic_id: bytes, max_wait_ms: int = 5000, acks: Acks = (), **fields: Any) -> Any:
        """The answer's row of partition 0."""
        answer = self.connection.ask(self.request(topic_id, max_wait_ms, acks, **fields))
        assert not answer.error_code, answer
        return answer.responses[0].partitions[0] if answer.responses else None


def acquired(row: Any) -> list[tuple[int, int, int]]:
    """First and last offset and delivery count of what a row has."""
    if row is None:
        return []
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in row.acquired_records]
