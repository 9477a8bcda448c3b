"""A data folder without metadata: what its logs say of producers and of leaders must not speak against those
who come after."""

import struct
from pathlib import Path

import pytest
from data_plane_world import VERSION, Client, led_by, on_a_node, partition_of, partition_rows
from jumping_time import until

from moldau.broker.coordinator.transaction.metadata import Transaction
from moldau.broker.coordinator.transaction.records import StateRecord, encode
from moldau.broker.coordinator.transaction.states import TransactionState
from moldau.broker.metadata.image import TRANSACTION_STATE_TOPIC
from moldau.broker.node import Node
from moldau.broker.stages.coordination import Coordination
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record


async def produce(node: Node, producer_id: int, sequence: int) -> int:
    """A numbered record to a-0; the error code of the answer."""
    batch = build_batch(
        [Record(0, 1_000, None, b"value", ())],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )
    rows = [PartitionProduceData(index=0, records=batch)]
    topics = [TopicProduceData(name="a", partition_data=rows)]
    body = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics).encode(VERSION)
    header = struct.pack(">hhih", 0, VERSION, 1, 4) + b"load" + b"\0"
    client = Client(node)
    client.feed(struct.pack(">i", len(header) + len(body)) + header + body)
    await until(lambda: bool(client.answers()))
    (row,) = partition_rows(client.answers()[0])
    return int(row.error_code)


def lose_metadata(folder: Path) -> None:
    found = list(folder.glob("moldau-metadata*"))
    assert found
    for path in found:
        path.unlink()


def test_a_new_producer_is_not_taken_for_one_of_the_past(tmp_path: Path) -> None:
    async def before(node: Node) -> None:
        assert await produce(node, await node.broker.producer_ids.next(), 0) == ErrorCode.NONE

    async def after(node: Node) -> None:
        assert partition_of(node, "a").log.log_end_offset == 1
        assert await produce(node, await node.broker.producer_ids.next(), 0) == ErrorCode.NONE
        assert partition_of(node, "a").log.log_end_offset == 2

    on_a_node(before, tmp_path)
    lose_metadata(tmp_path)
    on_a_node(after, tmp_path)


def test_an_id_that_a_client_has_made_up_does_not_use_up_all_others(tmp_path: Path) -> None:
    async def before(node: Node) -> None:
        assert await produce(node, 7, 0) == ErrorCode.NONE
        assert await produce(node, (1 << 63) - 1, 0) == ErrorCode.NONE

    async def after(node: Node) -> None:
        assert 7 < await node.broker.producer_ids.next() < 1 << 62

    on_a_node(before, tmp_path)
    lose_metadata(tmp_path)
    on_a_node(after, tmp_path)


def test_the_producer_id_of_a_transactional_id_is_not_given_again(tmp_path: Path) -> None:
    async def before(node: Node) -> None:
        await node.controller.auto_create_topics([TRANSACTION_STATE_TOPIC])
        idle = Transaction("till", 123_456_789, 3, 60_000, TransactionState.EMPTY, updated_ms=1)
        await node.reached(Coordination).coordinator_log.append_records(
            TRANSACTION_STATE_TOPIC, 0, 0, [encode(StateRecord("till", idle), 1)]
        )

    async def after(node: Node) -> None:
        assert await node.broker.producer_ids.next() > 123_456_789

    on_a_node(before, tmp_path)
    lose_metadata(tmp_path)
    on_a_node(after, tmp_path)


@pytest.mark.parametrize("leader_epoch", [0, 7])
def test_leaders_and_coordinators_go_on_with_later_epochs(tmp_path: Path, leader_epoch: int) -> None:
    async def before(node: Node) -> None:
        await node.controller.auto_create_topics([TRANSACTION_STATE_TOPIC])
        partition = led_by(node, node.node_id, "a", leader_epoch=leader_epoch)
        assert await produce(node, 4, 0) == ErrorCode.NONE
        assert not partition.append_marker(
            EndTransactionMarker(ControlType.COMMIT, 9), 4, 0, 1_000
        ).error_code

    async def after(node: Node) -> None:
        partition = partition_of(node, "a")
        assert partition.leader_epoch > leader_epoch
        coordinator = partition_of(node, TRANSACTION_STATE_TOPIC)
        assert coordinator.leader_epoch > 9
        marker = EndTransactionMarker(ControlType.COMMIT, coordinator.leader_epoch)
        assert not partition.append_marker(marker, 4, 0, 1_000).error_code
        assert await produce(node, 4, 1) == ErrorCode.NONE
        assert partition.log.latest_leader_epoch == partition.leader_epoch

    on_a_node(before, tmp_path)
    lose_metadata(tmp_path)
    on_a_node(after, tmp_path)
