"""A broker in this process, and clients that speak with it through its connections, without sockets."""

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from jumping_time import host_of_the_loop, run_in_jumping_time

from moldau.broker.node import Node
from moldau.broker.replication.partition import Partition
from moldau.broker.server.connection import Connection
from moldau.broker.server.dispatch import Dispatch
from moldau.common.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.sources import from_texts

VERSION = 9


class Transport:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.closed = self.aborted = False
        self.reading = True

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None:
        self.sent += data

    def writelines(self, parts: list[bytes]) -> None:
        for part in parts:
            self.sent += part

    def get_write_buffer_size(self) -> int:
        return 0

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class Client:
    """One connection to the node, and what came back on it."""

    def __init__(self, node: Node, listener: int = 0) -> None:
        self.transport = Transport()
        self.connection = Connection(node.listeners.all[listener], Dispatch(node.broker))
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def feed(self, data: bytes) -> None:
        while data and not self.transport.closed:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]

    def answers(self, version: int = VERSION) -> list[ProduceResponse]:
        answers, data = [], bytes(self.transport.sent)
        while data:
            (size,) = struct.unpack_from(">i", data)
            answers.append(ProduceResponse.decode(data[9 : 4 + size], version))
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


def on_a_node(
    scene: Callable[[Node], Awaitable[None]], folder: Path, *, real_time: bool = False, **texts: str
) -> None:
    """Run the scene with a broker that has the topics `a` and `b`, in a time that jumps over waits
    (jumping_time.py); in real time where it speaks through sockets.
    """

    async def main() -> None:
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(folder),
            "moldau.http.listener": "",
            "num.partitions": "2",
        }
        settings.update({name.replace("_", "."): value for name, value in texts.items()})
        node = Node(from_texts(settings), None if real_time else host_of_the_loop())
        await node.start()
        try:
            await node.controller.auto_create_topics(["a", "b"])
            await scene(node)
        finally:
            await node.stop()

    if real_time:
        asyncio.run(asyncio.wait_for(main(), 60))
    else:
        run_in_jumping_time(main(), 600)


def partition_of(node: Node, topic: str, index: int = 0) -> Partition:
    partition = node.replicas.partition(topic, index)
    assert partition is not None
    return partition


def led_by(node: Node, leader: int, topic: str, index: int = 0, leader_epoch: int | None = None) -> Partition:
    """The partition learns of another leader, or of a later epoch, as from the metadata."""
    partition = partition_of(node, topic, index)
    state = node.metadata.image.topics[topic].partitions[index]
    later = state.leader_epoch + 1 if leader_epoch is None else leader_epoch
    partition.become(state._replace(leader=leader, leader_epoch=later, isr=(leader,)))
    return partition


def partition_rows(answer: ProduceResponse) -> list:  # type: ignore[type-arg]
    return [row for topic in answer.responses for row in topic.partition_responses]
