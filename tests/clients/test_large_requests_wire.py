"""Large legal requests over real sockets: they are answered, refused in the protocol's own terms, and harm
nobody."""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Callable

import pytest
from client_model import eventually
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from raw_client import Disconnected, RawClient

from bench.brokers import BrokerProcess
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

StartBroker = Callable[..., BrokerProcess]
PARTITIONS = 2_000


def create(bootstrap: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)], request_timeout=60)[name].result(60)


def metadata(count: int, name: str = "") -> bytes:
    """Metadata version 4 of so many topics of this name, without creating them."""
    text = name.encode()
    row = struct.pack(">h", len(text)) + text
    return frame_request(3, 4, 1, None, struct.pack(">i", count) + row * count + b"\0")


def test_a_name_repeated_a_hundred_thousand_times_is_answered_once(private_broker: StartBroker) -> None:
    broker = private_broker()
    with RawClient(broker.address, 60) as client:
        client.send(metadata(200_000, "nowhere"))
        answer = MetadataResponse.decode(client.receive(), 4, 4)
        (topic,) = answer.topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_too_many_rows_end_the_connection_and_nothing_else(private_broker: StartBroker) -> None:
    broker = private_broker()
    with RawClient(broker.address, 60) as good, RawClient(broker.address, 60) as bad:
        bad.send(metadata(600_000))
        with pytest.raises(Disconnected):
            bad.receive()
        good.send(metadata(1, "nowhere"))
        assert good.receive()


def test_an_offset_commit_that_fits_into_no_batch_is_refused_as_kafka_does(
    private_broker: StartBroker,
) -> None:
    broker = private_broker()
    create(broker.address, "t", 1)
    rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7)] * 100_000
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=rows)])
    with RawClient(broker.address, 60) as client:
        client.call(10, 0, key="g")  # FindCoordinator makes __consumer_offsets
        client.send(frame_request(8, 2, 1, None, request.encode(2)))
        answer = OffsetCommitResponse.decode(client.receive(), 2, 4)
        codes = [row.error_code for row in answer.topics[0].partitions]
        assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR] * 100_000


def test_two_thousand_partitions_are_made_fetched_and_deleted(private_broker: StartBroker) -> None:
    broker = private_broker()
    create(broker.address, "wide", PARTITIONS)
    rows = [FetchPartition(partition=index, partition_max_bytes=1000) for index in range(PARTITIONS)]
    body = FetchRequest(
        max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[FetchTopic(topic="wide", partitions=rows)]
    ).encode(11)
    with RawClient(broker.address, 60) as client:
        client.send(frame_request(1, 11, 1, None, body))
        answer = FetchResponse.decode(client.receive(), 11, 4)
        codes = [row.error_code for row in answer.responses[0].partitions]
        assert codes == [0] * PARTITIONS  # each is there once its topic's creation is answered
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics(["wide"], request_timeout=60)["wide"].result(60)
    create(broker.address, "wide", 1)


def test_partitions_whose_creation_a_kill_interrupts_are_made_at_the_next_start(
    private_broker: StartBroker,
) -> None:
    broker = private_broker()
    folder = broker.log_dir()

    def creates() -> None:
        with contextlib.suppress(KafkaException):
            create(broker.address, "wide", PARTITIONS)

    thread = threading.Thread(target=creates)
    thread.start()
    eventually(lambda: len(list(folder.glob("wide-*"))) > 20, 30)
    broker.kill()
    thread.join()
    assert len(list(folder.glob("wide-*"))) < PARTITIONS
    broker.start()
    assert len(list(folder.glob("wide-*"))) == PARTITIONS
    request = MetadataRequest(topics=[MetadataRequestTopic(name="wide")])
    with RawClient(broker.address, 60) as client:
        client.send(frame_request(3, 4, 1, None, request.encode(4)))
        answer = MetadataResponse.decode(client.receive(), 4, 4)
        assert len(answer.topics[0].partitions) == PARTITIONS
