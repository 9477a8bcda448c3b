"""Produce and Fetch through a broker's connections without sockets: what one client's trouble costs the
others.
"""

import asyncio
import errno
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from moldau.core.settings.sources import from_texts
from moldau.handlers.broker import RequestContext
from moldau.handlers.init_producer_id import init_producer_id
from moldau.handlers.list_offsets import list_offsets
from moldau.log.appender import LARGE_BATCH_BYTES
from moldau.node import Node
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.records.builder import build_batch
from moldau.records.record import Record
from moldau.replication.partition import Partition
from moldau.server.connection import Connection
from moldau.server.dispatch import Dispatch

VERSION = 9


class Transport:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.closed = self.aborted = False

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None:
        self.sent += data

    def writelines(self, parts: list[bytes]) -> None:
        for part in parts:
            self.sent += part

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class Client:
    """One connection to the node, and what came back on it."""

    def __init__(self, node: Node) -> None:
        self.transport = Transport()
        self.connection = Connection(node.listeners[0], Dispatch(node.broker, "PLAINTEXT"))
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def feed(self, data: bytes) -> None:
        while data and not self.transport.closed:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]

    def answers(self) -> list[ProduceResponse]:
        answers, data = [], bytes(self.transport.sent)
        while data:
            (size,) = struct.unpack_from(">i", data)
            answers.append(ProduceResponse.decode(data[9 : 4 + size], VERSION))
            data = data[4 + size :]
        return answers


def produce_frame(topic: str, *sizes: int) -> bytes:
    """A request with a batch for partition 0, 1, ... of the topic, its one value of that size."""
    now_ms = int(time.time() * 1000)
    batches = [build_batch([Record(0, now_ms, None, b"x" * size, ())]) for size in sizes]
    rows = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    body = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=rows)]
    ).encode(VERSION)
    header = struct.pack(">hhih", 0, VERSION, 1, 4) + b"load" + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def on_a_node(scene: Callable[[Node], Awaitable[None]], folder: Path, **texts: str) -> None:
    """Run the scene with a broker that has the topics `a` and `b`."""

    async def main() -> None:
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(folder),
            "moldau.http.listener": "",
            "num.partitions": "2",
        }
        settings.update({name.replace("_", "."): value for name, value in texts.items()})
        node = Node(from_texts(settings))
        await node.start()
        try:
            await node.controller.auto_create_topics(["a", "b"])
            await scene(node)
        finally:
            await node.stop()

    asyncio.run(asyncio.wait_for(main(), 10))


def partition_of(node: Node, topic: str, index: int = 0) -> Partition:
    partition = node.replicas.partition(topic, index)
    assert partition is not None
    return partition


@pytest.mark.parametrize("harm", ["varint", "short"])
def test_a_malformed_repetition_behind_parked_answers_costs_its_connection_alone(
    tmp_path: Path, harm: str
) -> None:
    async def scene(node: Node) -> None:
        frame = produce_frame("a", 100)
        evil, other = Client(node), Client(node)
        evil.feed(frame)  # leaves the shortcut
        await asyncio.sleep(0)
        shortcut = evil.connection.shortcut
        assert shortcut is not None
        start = frame[:12] + shortcut.prefix
        bad = start + (b"\xff" * 20 if harm == "varint" else b"")
        bad = struct.pack(">i", len(bad) - 4) + bad[4:]
        evil.feed(frame * 256 + bad)  # the last is looked at when the turn's write has been answered
        other.feed(produce_frame("b", 100))
        await asyncio.sleep(0.01)
        assert [row.error_code for each in other.answers() for row in partition_rows(each)] == [0]
        assert evil.transport.closed
        other.feed(produce_frame("b", 100) * 2)
        await asyncio.sleep(0.01)
        assert len(other.answers()) == 3

    on_a_node(scene, tmp_path)


def partition_rows(answer: ProduceResponse) -> list:  # type: ignore[type-arg]
    return [row for topic in answer.responses for row in topic.partition_responses]


def test_a_disk_that_fails_in_the_middle_of_a_request_is_told_for_all_its_partitions(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        def broken(*_: object) -> int:
            raise OSError(errno.EIO, "input/output error")

        files = partition_of(node, "a", 1).log._files
        files.pwritev = broken  # type: ignore[method-assign]  # how large batches are written
        client = Client(node)
        client.feed(produce_frame("a", 100, LARGE_BATCH_BYTES))
        await asyncio.sleep(0.01)
        (answer,) = client.answers()
        assert [row.error_code for row in partition_rows(answer)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2

    on_a_node(scene, tmp_path)


@pytest.mark.parametrize("durability", ["os", "group"])
def test_what_was_appended_when_the_broker_stops_is_answered(tmp_path: Path, durability: str) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(produce_frame("a", 100) * 3)
        await node.stop()
        assert [row.error_code for each in client.answers() for row in partition_rows(each)] == [0] * 3

    on_a_node(scene, tmp_path, moldau_durability=durability)


def test_a_client_that_never_takes_its_answers_is_cut_off_in_the_end(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.connection.pause_writing()
        for _ in range(20):
            node.listeners[0]._sweep()
        assert client.transport.closed
        assert client.transport.aborted

    on_a_node(scene, tmp_path)


def test_a_damaged_segment_is_said_to_whoever_searches_it(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(produce_frame("a", 100))
        await asyncio.sleep(0.01)
        segment = partition_of(node, "a").log.segments[0]
        segment.write([bytes(segment.size_bytes)], segment.size_bytes, 0)
        asked = ListOffsetsTopic(name="a", partitions=[ListOffsetsPartition(partition_index=0, timestamp=1)])
        context = RequestContext(5, 1, "", "", 0, "PLAINTEXT")
        answer = list_offsets(node.broker, context, ListOffsetsRequest(topics=[asked]))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE

    on_a_node(scene, tmp_path)


def test_a_full_disk_makes_a_new_producer_wait_and_not_fail(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        async def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

        node.controller._store.append_if = refuse  # type: ignore[method-assign]
        answer = init_producer_id(
            node.broker,
            RequestContext(4, 1, "", "", 0, "PLAINTEXT"),
            InitProducerIdRequest(transactional_id=None),
        )
        assert isinstance(answer, Awaitable)
        assert (await answer).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    on_a_node(scene, tmp_path)
