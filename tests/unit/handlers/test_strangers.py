"""Who claims to be a broker and is none moves no high watermark, enters no in-sync set, and loses nobody's
records."""

import logging
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers_world import Brokers, answered, ask, client_of, send, until, with_brokers

from moldau.broker.log.log import Origin
from moldau.broker.metadata.changes import PartitionChanged
from moldau.broker.metadata.store import MetadataStoreError
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from moldau.common.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

LEADER, FOLLOWER, OTHER = 1, 2, 3


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield


def batch(**named: object) -> memoryview:
    record = Record(0, int(time.time() * 1000), None, b"x", ())
    return memoryview(build_batch([record], **named))  # type: ignore[arg-type]


def fetch(
    brokers: Brokers,
    replica_id: int,
    broker_epoch: int,
    offset: int,
    *,
    leader_epoch: int = 0,
    last_epoch: int = 0,
    wait_ms: int = 0,
) -> FetchRequest:
    row = FetchPartition(
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
        partition_max_bytes=1 << 20,
    )
    topic_id = brokers.nodes[LEADER].metadata.image.topics["t"].topic_id
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
        max_wait_ms=wait_ms,
        topics=[FetchTopic(topic_id=topic_id, partitions=[row])],
    )


def code(answer: FetchResponse) -> int:
    return int(answer.responses[0].partitions[0].error_code)


async def three_uncommitted(brokers: Brokers) -> None:
    """Three records that the follower does not have yet."""
    await brokers.topic("t", (LEADER, FOLLOWER))
    leader = brokers.partition(LEADER)
    for _ in range(3):
        assert leader.append(batch(), int(time.time() * 1000), -1).error_code == 0
    await until(lambda: leader.log.written_end_offset == 3)


def test_a_fetch_that_is_not_of_the_replica_commits_nothing(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await three_uncommitted(brokers)
        node, leader = brokers.nodes[LEADER], brokers.partition(LEADER)
        epoch = brokers.nodes[FOLLOWER].controller.this_broker.broker_epoch
        assert epoch is not None
        for stranger in (-1, epoch + 99, 0):  # before the replica itself has come
            assert code(await ask(node, fetch(brokers, FOLLOWER, stranger, 3))) == 0
            assert leader.high_watermark == 0
        real = await ask(node, fetch(brokers, FOLLOWER, epoch, 0, last_epoch=-1))
        assert (code(real), leader.high_watermark) == (0, 0)
        not_leader, unknown = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH
        out_of_range = ErrorCode.OFFSET_OUT_OF_RANGE
        diverging = []
        for request, expected in (
            (fetch(brokers, FOLLOWER, epoch + 99, 3), 0),  # an epoch that is not registered
            (fetch(brokers, FOLLOWER, epoch - 1, 3), not_leader),  # of an earlier life
            (fetch(brokers, FOLLOWER, -1, 3), 0),  # none
            (fetch(brokers, OTHER, epoch, 3), unknown),  # no replica of this partition
            (fetch(brokers, 77, epoch, 3), unknown),  # no broker at all
            (fetch(brokers, LEADER, epoch, 3), unknown),  # the leader itself
            (fetch(brokers, FOLLOWER, epoch, 3, leader_epoch=5), unknown),
            (fetch(brokers, FOLLOWER, epoch, 99), 0),  # more than the leader has
            (fetch(brokers, FOLLOWER, epoch, 3, last_epoch=5), out_of_range),  # an epoch it cannot have seen
            (fetch(brokers, FOLLOWER, epoch, 99, last_epoch=-1), out_of_range),
        ):
            answer = await ask(node, request)
            assert code(answer) == expected, request
            assert leader.high_watermark == 0, request
            assert leader.isr == (LEADER, FOLLOWER)
            diverging.append(answer.responses[0].partitions[0].diverging_epoch.end_offset)
        assert diverging[7] == 3, "it is told to truncate"
        assert code(await ask(node, fetch(brokers, FOLLOWER, epoch, 3))) == 0
        assert leader.high_watermark == 3

    with_brokers(tmp_path, (LEADER, FOLLOWER, OTHER), scene, replicates=False)


def test_a_stranger_does_not_bring_a_replica_into_the_in_sync_set(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await three_uncommitted(brokers)
        node, leader = brokers.nodes[LEADER], brokers.partition(LEADER)
        epoch = brokers.nodes[FOLLOWER].controller.this_broker.broker_epoch
        state = node.metadata.image.topics["t"].partitions[0]
        await brokers.decided(PartitionChanged("t", 0, state._replace(isr=(LEADER,), partition_epoch=1)))
        assert leader.high_watermark == 3
        await ask(node, fetch(brokers, FOLLOWER, epoch + 99, 3))
        await ask(node, fetch(brokers, OTHER, epoch, 3))
        assert leader.role.asked is None
        await ask(node, fetch(brokers, FOLLOWER, epoch, 3))
        await until(lambda: leader.isr == (LEADER, FOLLOWER))

    with_brokers(tmp_path, (LEADER, FOLLOWER, OTHER), scene, replicates=False)


@pytest.mark.parametrize("api_key", [4, 5, 6, 7, 56, 58, 62, 63, 67, 70, 73, 82])
def test_requests_of_kafkas_controllers_and_brokers_end_the_connection(tmp_path: Path, api_key: int) -> None:
    """LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, AlterPartition, BrokerRegistration ...:
    brokers here decide in the metadata store, and ask each other for none of these."""

    async def scene(brokers: Brokers) -> None:
        await three_uncommitted(brokers)
        before = brokers.ensemble.image
        client = client_of(brokers.nodes[LEADER])
        client.feed(struct.pack(">ihhih", 110, api_key, 0, 1, -1) + bytes(100))
        await until(lambda: client.transport.closed or client.transport.aborted)
        assert not client.transport.sent
        assert brokers.ensemble.image is before
        assert brokers.partition(LEADER).log.log_end_offset == 3

    with_brokers(tmp_path, (LEADER, FOLLOWER), scene, replicates=False)


def test_markers_of_a_stranger(tmp_path: Path) -> None:
    """A marker goes to the leader alone, and one of a producer that is fenced is refused."""

    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (LEADER, FOLLOWER))
        leader = brokers.partition(LEADER)
        begin = batch(producer_id=7, producer_epoch=3, base_sequence=0, transactional=True)
        assert leader.append(begin, int(time.time() * 1000), -1, Origin.COORDINATOR).error_code == 0
        await until(lambda: leader.log.written_end_offset == 1)

        def markers(producer_epoch: int, coordinator_epoch: int = 0) -> WriteTxnMarkersRequest:
            row = WritableTxnMarker(
                producer_id=7,
                producer_epoch=producer_epoch,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                coordinator_epoch=coordinator_epoch,
            )
            return WriteTxnMarkersRequest(markers=[row])

        for node_id, epoch, expected in (
            (FOLLOWER, 3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (OTHER, 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (LEADER, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
            (LEADER, -1, ErrorCode.INVALID_PRODUCER_EPOCH),
        ):
            answer = await ask(brokers.nodes[node_id], markers(epoch))
            assert answer.markers[0].topics[0].partitions[0].error_code == expected
        answer = await ask(brokers.nodes[LEADER], markers(3, 99))
        code = answer.markers[0].topics[0].partitions[0].error_code
        assert code == ErrorCode.UNKNOWN_LEADER_EPOCH, "no coordinator can have that epoch"
        assert leader.log.log_end_offset == 1
        assert list(leader.log.producers.ongoing) == [0], "the transaction is open as before"

    with_brokers(tmp_path, (LEADER, FOLLOWER, OTHER), scene)


def test_a_second_broker_of_the_same_id_does_not_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (LEADER, FOLLOWER))
        before = brokers.ensemble.image
        with pytest.raises(MetadataStoreError, match=r"node.id=2 .*; give each broker its own"):
            await brokers.start(
                FOLLOWER, log_dirs=str(tmp_path / "another"), initial_broker_registration_timeout_ms="50"
            )
        told = [record.getMessage() for record in caplog.records if "waiting" in record.getMessage()]
        assert len(told) == 1, "it waits for some time, and says once what for"
        assert "node.id=2" in told[0]
        assert brokers.ensemble.image.brokers == before.brokers
        assert brokers.ensemble.image.topics == before.topics
        client = client_of(brokers.nodes[FOLLOWER])
        request = fetch(brokers, -1, -1, 0, last_epoch=-1)
        assert code(await answered(client, request, send(client, request, 18))) == 0

    with_brokers(tmp_path, (LEADER, FOLLOWER), scene)
