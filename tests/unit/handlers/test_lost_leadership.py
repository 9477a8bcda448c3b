"""What becomes of requests that wait when this broker loses a partition, or its leadership."""

import asyncio
import random
import struct
import time
from pathlib import Path

import pytest
from data_plane_world import VERSION, Client, led_by, on_a_node, partition_of, partition_rows, produce_frame
from jumping_time import until

from moldau.broker.metadata.changes import PartitionChanged, replay
from moldau.broker.node import Node
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

FETCH_VERSION = 11


def framed(key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", key, version, 1, 4) + b"load" + (b"\0" if version == VERSION else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def fetch_frame(topic: str, offset: int = 0, replica_id: int = -1, leader_epoch: int = -1) -> bytes:
    wanted = FetchPartition(
        fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=leader_epoch
    )
    request = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=30_000,
        min_bytes=1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    return framed(1, FETCH_VERSION, request.encode(FETCH_VERSION))


def fetched(client: Client) -> list[FetchResponse]:
    answers, data = [], bytes(client.transport.sent)
    while data:
        (size,) = struct.unpack_from(">i", data)
        answers.append(FetchResponse.decode(data[8 : 4 + size], FETCH_VERSION))
        data = data[4 + size :]
    return answers


def fetch_error(answer: FetchResponse) -> int:
    return int(answer.responses[0].partitions[0].error_code)


def waiting_frame(topic: str, acks: int, timeout_ms: int) -> bytes:
    batch = build_batch([Record(0, int(time.time() * 1000), None, b"x", ())])
    rows = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=rows)]
    )
    return framed(0, VERSION, request.encode(VERSION))


async def answered(client: Client, count: int = 1) -> list[int]:
    """The error codes of so many Produce answers."""
    await until(lambda: len(client.answers()) >= count)
    return [int(partition_rows(answer)[0].error_code) for answer in client.answers()]


@pytest.mark.parametrize("repeated", [False, True], ids=["decoded", "repeated"])
def test_a_produce_that_waits_is_told_that_the_leader_is_another(tmp_path: Path, repeated: bool) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        if repeated:
            client.feed(produce_frame("a", 10))
            assert await answered(client) == [0]
        client.feed(produce_frame("a", 10))
        assert partition_of(node, "a").waiting_count == 1
        before = len(client.answers())
        led_by(node, 99, "a")
        codes = [int(partition_rows(answer)[0].error_code) for answer in client.answers()]
        assert codes[before:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert partition_of(node, "a").waiting_count == 0
        client.feed(produce_frame("a", 10))  # whoever comes later is told the same
        assert (await answered(client, before + 2))[-1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await asyncio.sleep(0)
        assert len(client.answers()) == before + 2

    on_a_node(scene, tmp_path)


def test_nothing_is_appended_in_the_name_of_another_leader(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        partition = led_by(node, 99, "a", leader_epoch=7)
        batch = memoryview(build_batch([Record(0, 0, None, b"x", ())]))
        for acks in (-1, 0, 1):
            assert partition.append(batch, 0, acks).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.log.log_end_offset == 0
        assert partition.log.latest_leader_epoch < 7

    on_a_node(scene, tmp_path)


def test_a_parked_fetch_is_told_that_the_leader_is_another(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(fetch_frame("a"))
        assert not client.transport.sent
        led_by(node, 99, "a")
        assert [fetch_error(each) for each in fetched(client)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    on_a_node(scene, tmp_path)


def test_a_parked_fetch_of_a_follower_is_answered_once_something_is_written(tmp_path: Path) -> None:
    """Its fetch is what moves the high watermark; it must not wait for that."""

    async def scene(node: Node) -> None:
        partition = partition_of(node, "a")
        state = node.metadata.image.topics["a"].partitions[0]
        partition.become(state._replace(partition_epoch=1, replicas=(node.node_id, 7), isr=(node.node_id, 7)))
        follower, consumer, producer = Client(node), Client(node), Client(node)
        follower.feed(fetch_frame("a", replica_id=7, leader_epoch=state.leader_epoch))
        consumer.feed(fetch_frame("a"))
        producer.feed(waiting_frame("a", -1, 30_000))
        for _ in range(5):
            await asyncio.sleep(0)
        row = fetched(follower)[0].responses[0].partitions[0]
        assert (row.error_code, bool(row.records)) == (0, True)
        assert not consumer.transport.sent
        assert not producer.transport.sent
        follower.feed(fetch_frame("a", offset=1, replica_id=7, leader_epoch=state.leader_epoch))
        assert await answered(producer) == [0]
        assert fetched(consumer)[0].responses[0].partitions[0].records
        assert len(fetched(follower)) == 1
        led_by(node, 99, "a")
        assert fetch_error(fetched(follower)[1]) == ErrorCode.FENCED_LEADER_EPOCH
        assert not partition.parked.followers

    on_a_node(scene, tmp_path)


def test_a_fetch_says_which_leader_it_believes_in_and_who_asks(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        led_by(node, node.node_id, "a", leader_epoch=5)
        for replica_id, leader_epoch, error in (
            (-1, 4, ErrorCode.FENCED_LEADER_EPOCH),
            (-1, 6, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (7, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),  # no replica of this partition
            (7, 5, ErrorCode.UNKNOWN_LEADER_EPOCH),  # perhaps of newer metadata
        ):
            client = Client(node)
            client.feed(fetch_frame("a", replica_id=replica_id, leader_epoch=leader_epoch))
            assert [fetch_error(each) for each in fetched(client)] == [error]

    on_a_node(scene, tmp_path)


def test_a_partition_that_is_reassigned_away_is_closed_and_its_log_removed(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        node.replicas._work.lane = None  # all in one slice, however busy the machine is
        client, poll = Client(node), Client(node)
        poll.feed(fetch_frame("a"))
        client.feed(produce_frame("a", 10))
        old = node.metadata.image
        state = old.topics["a"].partitions[0]
        moved = state._replace(
            leader=99, leader_epoch=1, partition_epoch=state.partition_epoch + 1, replicas=(99,), isr=(99,)
        )
        new = replay(old, old.version + 1, [PartitionChanged("a", 0, moved)])
        folder = Path(partition_of(node, "a").log.directory)
        node.replicas.apply(old, new, [PartitionChanged("a", 0, moved)])
        not_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await answered(client) == [not_leader]
        assert [fetch_error(each) for each in fetched(poll)] == [not_leader]
        assert node.replicas.partition("a", 0) is None
        assert node.replicas.partition("a", 1) is not None
        assert not folder.exists()  # noqa: ASYNC240
        client.feed(produce_frame("a", 10))
        assert await answered(client, 2) == [not_leader] * 2

    on_a_node(scene, tmp_path)


def others_in_sync(node: Node, topic: str) -> None:
    """A second replica is in sync, as far as the partition knows, and does not come."""
    state = node.metadata.image.topics[topic].partitions[0]
    replicas = (node.node_id, 99)
    partition_of(node, topic).become(
        state._replace(leader_epoch=state.leader_epoch + 1, replicas=replicas, isr=replicas)
    )


def test_a_produce_is_answered_when_its_timeout_is_over_and_acks_1_waits_for_nobody(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        others_in_sync(node, "a")
        one, every, patient = Client(node), Client(node), Client(node)
        one.feed(waiting_frame("a", 1, 30_000))
        every.feed(waiting_frame("a", -1, 50))
        patient.feed(waiting_frame("a", -1, 30_000))
        assert await answered(one) == [0]
        assert not every.answers()
        assert await answered(every) == [ErrorCode.REQUEST_TIMED_OUT]
        assert not patient.answers()
        assert partition_of(node, "a").log.log_end_offset == 3, "the records stay"
        led_by(node, node.node_id, "a", leader_epoch=9)  # alone again
        assert await answered(patient) == [0]

    on_a_node(scene, tmp_path)


def test_what_is_appended_waits_although_the_in_sync_set_shrinks_too_far(tmp_path: Path) -> None:
    """As in Kafka: it may still be committed, and who is told otherwise sends it again."""

    async def scene(node: Node) -> None:
        others_in_sync(node, "a")
        client, hasty = Client(node), Client(node)
        client.feed(waiting_frame("a", -1, 30_000))
        hasty.feed(waiting_frame("a", -1, 50))
        await asyncio.sleep(0)
        state = node.metadata.image.topics["a"].partitions[0]
        alone = state._replace(leader_epoch=5, partition_epoch=9, replicas=(node.node_id, 99))
        partition_of(node, "a").become(alone)
        assert await answered(hasty) == [ErrorCode.REQUEST_TIMED_OUT]
        assert not client.answers()
        late = Client(node)
        late.feed(waiting_frame("a", -1, 30_000))
        assert await answered(late) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert partition_of(node, "a").log.log_end_offset == 2, "what is refused is not appended"
        sole = alone._replace(partition_epoch=10, replicas=(node.node_id,))
        partition_of(node, "a").become(sole)
        assert await answered(client) == [0]

    on_a_node(scene, tmp_path, min_insync_replicas="2")


def large_frame(topic: str, timeout_ms: int) -> bytes:
    value = random.Random(1).randbytes(1_000_000)
    rows = [PartitionProduceData(index=0, records=build_batch([Record(0, 0, None, value, ())]))]
    request = ProduceRequest(
        acks=-1, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=rows)]
    )
    return framed(0, VERSION, request.encode(VERSION))


@pytest.mark.parametrize("end", ["committed", "timed out", "deposed"])
def test_a_connection_appends_no_more_than_its_share_before_it_is_replicated(
    tmp_path: Path, end: str
) -> None:
    """The first request is decoded, the others take the shortcut for repeated ones."""

    async def scene(node: Node) -> None:
        others_in_sync(node, "a")
        client, backlog = Client(node), node.listeners.backlog
        frame = large_frame("a", 300 if end == "timed out" else 60_000)
        sending = asyncio.ensure_future(send(client, frame * 8))
        partition = partition_of(node, "a")
        await until(lambda: partition.log.written_end_offset == 5)
        for _ in range(10):
            await asyncio.sleep(0)
        assert partition.log.log_end_offset == 5
        assert backlog.waiting_bytes > 5_000_000
        if end == "deposed":
            led_by(node, 99, "a", leader_epoch=9)
        elif end == "committed":
            led_by(node, node.node_id, "a", leader_epoch=9)
        codes = await answered(client, 8)
        await sending
        assert set(codes) == {{"committed": 0, "timed out": ErrorCode.REQUEST_TIMED_OUT, "deposed": 6}[end]}
        assert (backlog.waiting_bytes, backlog.connection_count) == (0, 0)
        assert client.transport.reading

    on_a_node(scene, tmp_path)


async def send(client: Client, data: bytes) -> None:
    """As a socket: nothing arrives while reading is paused."""
    for at in range(0, len(data), 65536):
        await until(lambda: client.transport.reading)
        client.feed(data[at : at + 65536])
        await asyncio.sleep(0)
