"""A client that asks the wrong broker is told the leader, and where it is (KIP-951)."""

import time
from pathlib import Path

import pytest
from brokers_world import Brokers, answers, ask, client_of, send, until, with_brokers

from moldau.broker.metadata.changes import BrokerFenced, PartitionChanged
from moldau.broker.node import Node
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def batch() -> bytes:
    return build_batch([Record(0, int(time.time() * 1000), None, b"x", ())])


def produce(node: Node, *indexes: int, topic: str = "t", acks: int = -1, version: int = 13) -> ProduceRequest:
    rows = [PartitionProduceData(index=index, records=batch()) for index in indexes]
    data = TopicProduceData(partition_data=rows)
    if version >= 13:
        data.topic_id = node.metadata.image.topics[topic].topic_id
    else:
        data.name = topic
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data])


def fetch(
    node: Node, *indexes: int, leader_epoch: int = -1, wait_ms: int = 0, **named: object
) -> FetchRequest:
    rows = [
        FetchPartition(partition=index, current_leader_epoch=leader_epoch, partition_max_bytes=1 << 20)
        for index in indexes
    ]
    topic = FetchTopic(topic_id=node.metadata.image.topics["t"].topic_id, partitions=rows)
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic], **named)


def endpoint(node: Node, listener: int = 0) -> tuple[int, str, int, str]:
    return node.node_id, "127.0.0.1", node.listeners.all[listener].port, f"rack-{node.node_id}"


def told(answer: object) -> list[tuple[int, str, int, str]]:
    return [(one.node_id, one.host, one.port, one.rack) for one in answer.node_endpoints]  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_a_producer_is_told_who_leads(tmp_path: Path, version: int) -> None:
    async def scene(brokers: Brokers) -> None:
        node, other = brokers.nodes[1], brokers.nodes[2]
        await brokers.topic("t", (1,), (2,), (2,))
        for listener in ("PLAINTEXT", "OTHER"):
            answer = await ask(node, produce(node, 0, 1, 2, 9, version=version), version, listener)
            rows = answer.responses[0].partition_responses
            assert [row.error_code for row in rows] == [0, NOT_LEADER, NOT_LEADER, 3]
            leaders = [(row.current_leader.leader_id, row.current_leader.leader_epoch) for row in rows]
            none = (-1, -1)
            assert leaders == ([none] * 4 if version < 10 else [none, (2, 0), (2, 0), none])
            at = int(listener == "OTHER")
            assert told(answer) == ([] if version < 10 else [endpoint(other, at)])
        answer = await ask(other, produce(node, 1, 2, version=version), version)
        assert [row.error_code for row in answer.responses[0].partition_responses] == [0, 0]
        assert told(answer) == []

    with_brokers(tmp_path, (1, 2), scene)


def test_a_producer_with_very_many_rows_is_told_too(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        node = brokers.nodes[1]
        await brokers.topic("t", *([(1,)] + [(2,)] * 600))
        answer = await ask(node, produce(node, *range(601)))
        rows = answer.responses[0].partition_responses
        assert [row.error_code for row in rows] == [0] + [NOT_LEADER] * 600
        assert {row.current_leader.leader_id for row in rows[1:]} == {2}
        assert told(answer) == [endpoint(brokers.nodes[2])]

    with_brokers(tmp_path, (1, 2), scene)


async def moved(brokers: Brokers, leader: int, index: int = 0) -> None:
    """Leadership moves, as the metadata says it."""
    node = brokers.nodes[1]
    state = node.metadata.image.topics["t"].partitions[index]
    changed = state._replace(
        leader=leader, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
    )
    await brokers.decided(PartitionChanged("t", index, changed))


@pytest.mark.parametrize("repeated", [False, True], ids=["decoded", "repeated"])
def test_a_producer_whose_leader_changes_while_it_waits_is_told(tmp_path: Path, repeated: bool) -> None:
    async def scene(brokers: Brokers) -> None:
        node = brokers.nodes[1]
        await brokers.topic("t", (1, 2))
        client = client_of(node)
        version = send(client, request := produce(node, 0))
        if repeated:
            assert client.connection.shortcut is not None
            version = send(client, request)
        await until(lambda: brokers.partition(1).waiting_count)
        assert not client.transport.sent
        await moved(brokers, 2)
        await until(lambda: client.transport.sent)
        found = answers(client, ProduceRequest, version)
        assert len(found) == 1 + repeated
        for answer in found:
            (row,) = answer.responses[0].partition_responses
            leader = row.current_leader
            assert (row.error_code, leader.leader_id, leader.leader_epoch) == (NOT_LEADER, 2, 1)
            assert told(answer) == [endpoint(brokers.nodes[2])]

    with_brokers(tmp_path, (1, 2), scene, moldau_durability="os")


@pytest.mark.parametrize("version", [15, 16, 18])
def test_a_consumer_is_told_who_leads(tmp_path: Path, version: int) -> None:
    async def scene(brokers: Brokers) -> None:
        node = brokers.nodes[1]
        await brokers.topic("t", (1, 3), (2, 3), (1, 2))
        await moved(brokers, 2, 2)
        await moved(brokers, 1, 2)
        answer = await ask(node, fetch(node, 0, 1, 9), version)
        rows = answer.responses[0].partitions
        assert [row.error_code for row in rows] == [0, NOT_LEADER, 3]
        leaders = [(row.current_leader.leader_id, row.current_leader.leader_epoch) for row in rows]
        assert leaders == [(-1, -1), (2, 0) if version >= 16 else (-1, -1), (-1, -1)]
        assert told(answer) == ([endpoint(brokers.nodes[2])] if version >= 16 else [])
        answer = await ask(node, fetch(node, 2, leader_epoch=0), version)
        (row,) = answer.responses[0].partitions
        assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert row.current_leader.leader_epoch == (2 if version >= 16 else -1)
        assert told(answer) == ([endpoint(node)] if version >= 16 else [])
        answer = await ask(node, fetch(node, 2, leader_epoch=7), version)
        (row,) = answer.responses[0].partitions
        assert (row.error_code, row.current_leader.leader_id) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)

    with_brokers(tmp_path, (1, 2, 3), scene)


def test_a_consumer_of_very_many_partitions_is_told_too(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        node = brokers.nodes[1]
        await brokers.topic("t", *[(1 + index % 2,) for index in range(600)])
        for session_epoch in (-1, 0):
            answer = await ask(node, fetch(node, *range(600), session_epoch=session_epoch))
            rows = answer.responses[0].partitions
            assert [row.current_leader.leader_id for row in rows] == [-1, 2] * 300
            assert told(answer) == [endpoint(brokers.nodes[2])]

    with_brokers(tmp_path, (1, 2), scene)


def test_a_leader_that_cannot_be_reached_has_no_endpoint(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        node = brokers.nodes[1]
        await brokers.topic("t", (2,), (2,))
        await moved(brokers, -1, 1)
        answer = await ask(node, produce(node, 0, 1))
        rows = answer.responses[0].partition_responses
        assert [row.current_leader.leader_id for row in rows] == [2, -1]
        await brokers.decided(BrokerFenced(2, True))
        answer = await ask(node, produce(node, 0))
        assert answer.responses[0].partition_responses[0].error_code == NOT_LEADER
        assert told(answer) == []
        answer = await ask(node, fetch(node, 0))
        assert answer.responses[0].partitions[0].current_leader.leader_id == 2
        assert told(answer) == []

    with_brokers(tmp_path, (1, 2), scene)
