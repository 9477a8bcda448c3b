"""WriteTxnMarkers from other brokers, and from strangers."""

import asyncio
from pathlib import Path

import pytest
from data_plane_world import Client, on_a_node, partition_of
from test_produce_transactional import PRODUCER, Coordinator, frame, until

from moldau.broker.handlers.apis.transactions import write_txn_markers
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.image import TRANSACTION_STATE_TOPIC
from moldau.broker.node import Node
from moldau.common.core.waiting import settled
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


def marker(producer_id: int = PRODUCER, *, epoch: int = 0, coordinator_epoch: int = 0) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="a", partition_indexes=[0, 1])],
        coordinator_epoch=coordinator_epoch,
    )


async def sent(node: Node, *markers: WritableTxnMarker) -> list[list[ErrorCode]]:
    """The error codes of each marker's partitions."""
    context = RequestContext(2, 1, Session("PLAINTEXT", client_host="10.0.0.7", client_id="broker"))
    request = WriteTxnMarkersRequest(markers=list(markers))
    answer = await settled(TABLE[WriteTxnMarkersRequest.KEY].handler(node.broker, context, request))
    assert [row.producer_id for row in answer.markers] == [each.producer_id for each in markers]
    return [
        [ErrorCode(each.error_code) for topic in row.topics for each in topic.partitions]
        for row in answer.markers
    ]


async def open_transaction(node: Node) -> None:
    Coordinator(node)
    client = Client(node)
    client.feed(frame(0))
    await until(lambda: bool(client.transport.sent))
    assert partition_of(node, "a").log.transactions.is_open(PRODUCER, 0)


def test_a_stranger_cannot_fence_the_coordinator_that_there_is(tmp_path: Path) -> None:
    """A marker of a coordinator epoch beyond all there are would be the last that the producer's partition
    ever takes."""

    async def scene(node: Node) -> None:
        await open_transaction(node)
        beyond = marker(coordinator_epoch=2**31 - 1)
        assert await sent(node, beyond) == [[ErrorCode.UNKNOWN_LEADER_EPOCH] * 2], "there is no coordinator"
        await node.controller.auto_create_topics([TRANSACTION_STATE_TOPIC])
        assert await sent(node, beyond) == [[ErrorCode.UNKNOWN_LEADER_EPOCH] * 2]
        assert partition_of(node, "a").log.transactions.is_open(PRODUCER, 0)
        assert await sent(node, marker()) == [[ErrorCode.NONE] * 2]
        assert not partition_of(node, "a").log.transactions.is_open(PRODUCER, 0)

    on_a_node(scene, tmp_path)


def test_an_epoch_that_the_partition_knows_may_come_again(tmp_path: Path) -> None:
    """An operator aborts with the epoch that DescribeProducers shows, as in data that Kafka has written."""

    async def scene(node: Node) -> None:
        await open_transaction(node)
        for index in (0, 1):
            states = partition_of(node, "a", index).log.producers.states
            if PRODUCER in states:
                states[PRODUCER] = states[PRODUCER]._replace(coordinator_epoch=40)
        codes = await sent(node, marker(coordinator_epoch=40))
        assert codes == [[ErrorCode.NONE, ErrorCode.UNKNOWN_LEADER_EPOCH]], "partition 1 knows no producer"

    on_a_node(scene, tmp_path)


def test_all_markers_are_appended_before_the_first_is_waited_for(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        node.broker.slow_lane._slice_seconds = 60.0  # all of it fits into one slice, however slow the machine
        partition = partition_of(node, "a")
        waits: list[int] = []
        real = partition.wait_for

        class Waiting:
            """The partition, noting what is committed when somebody begins to wait."""

            def __getattr__(self, name: str) -> object:
                return getattr(partition, name)

            def wait_for(self, *args: object, **named: object) -> None:
                waits.append(partition.high_watermark)
                real(*args, **named)  # type: ignore[arg-type]

        node.replicas._by_name["a"][0] = Waiting()  # type: ignore[assignment]
        codes = await sent(node, *[marker(producer_id) for producer_id in (1, 2, 3)], marker(-1))
        assert codes == [[0, 0]] * 3 + [[ErrorCode.INVALID_PRODUCER_EPOCH] * 2]
        assert waits == [0, 0, 0]
        assert partition.high_watermark == 3
        node.replicas._by_name["a"][0] = partition

    on_a_node(scene, tmp_path)


def test_what_is_not_committed_in_time_is_answered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower is away: the coordinator's other markers must not wait for this partition's."""
    monkeypatch.setattr(write_txn_markers, "COMMIT_TIMEOUT_MS", 1)

    async def scene(node: Node) -> None:
        partition = partition_of(node, "a")
        state = node.metadata.image.topics["a"].partitions[0]
        partition.become(
            state._replace(replicas=(1, 2), isr=(1, 2), partition_epoch=state.partition_epoch + 1)
        )
        (codes,) = await asyncio.wait_for(sent(node, marker(5)), 60)
        assert codes == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]

    on_a_node(scene, tmp_path)
