"""What replicating one small record costs a leader and a follower, without sockets: microseconds of CPU.

    python -m bench.replication_path

leader      Produce with acks=all, two followers' parked fetches woken and answered, their next fetches, which
            move the high watermark and settle the Produce
follower    a response with one batch received and appended, the next Fetch sent

Each figure is the best of several rounds, and the ratio to the reference loop of bench.hot_path.
"""

import asyncio
import struct
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from bench.hot_path import _NoSocket, best_us, produce_frame, reference
from moldau.broker.metadata.image import BrokerState, PartitionState
from moldau.broker.node import Node
from moldau.broker.peers.broker_peers import BrokerPeers
from moldau.broker.server.connection import Connection
from moldau.broker.server.dispatch import Dispatch
from moldau.broker.stages.cluster import Cluster
from moldau.common.protocol.frames import has_tagged_response_header
from moldau.common.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.common.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.sources import from_texts

TOPIC = "bench"
FOLLOWERS = (2, 3)
EPOCH = 7  # of the other brokers
VERSION = 17
ROUNDS, CALLS = 7, 2_000
_FRAME = struct.Struct(">i")


def fetch_frame(
    topic_id: bytes, replica: int, offset: int, session: int, epoch: int, last_epoch: int
) -> bytes:
    """A follower's request that names one partition."""
    row = FetchPartition(
        partition=0,
        current_leader_epoch=0,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
        partition_max_bytes=1 << 20,
    )
    body = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10 << 20,
        session_id=session,
        session_epoch=epoch,
        replica_state=ReplicaState(replica_id=replica, replica_epoch=EPOCH),
        topics=[FetchTopic(topic_id=topic_id, partitions=[row])],
    ).encode(VERSION)
    header = struct.pack(">hhih", 1, VERSION, 1, 4) + b"load\x00"
    return _FRAME.pack(len(header) + len(body)) + header + body


class Sink(_NoSocket):
    """Keeps the last answer."""

    def __init__(self) -> None:
        self.last = b""

    def write(self, data: bytes) -> None:
        self.last = bytes(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.last = b"".join(parts)


class Leader:
    """One partition led here, a producer, and two followers on connections without sockets."""

    def __init__(self, node: Node) -> None:
        partition = node.replicas.partition(TOPIC, 0)
        assert partition is not None
        shared = partition.shared._replace(
            broker_epoch=lambda replica: EPOCH, is_stranger=lambda replica, epoch: False
        )
        partition.shared = shared
        partition.become(PartitionState(node.node_id, 1, 1, (node.node_id, 2, 3), (node.node_id, 2, 3)))
        self.partition, self.node = partition, node
        dispatch = Dispatch(node.broker)
        self.connections: list[Connection] = []
        self.sinks: list[Sink] = []
        for _ in range(3):
            connection, sink = Connection(node.listeners.all[0], dispatch), Sink()
            connection.connection_made(sink)  # type: ignore[arg-type]
            self.connections.append(connection)
            self.sinks.append(sink)
        self.produce = produce_frame(7)
        self.epoch = 0
        self.sessions = [0, 0]
        for number, replica in enumerate(FOLLOWERS):
            self.send(number + 1, self._fetch(number, replica, partition.log.log_end_offset))
        self.epoch = 1

    def _fetch(self, number: int, replica: int, offset: int) -> bytes:
        topic_id, epoch = self.partition.topic_id, self.partition.leader_epoch
        frame = fetch_frame(topic_id, replica, offset, self.sessions[number], self.epoch, -1)
        return frame.replace(struct.pack(">iiq", 0, 0, offset), struct.pack(">iiq", 0, epoch, offset))

    def send(self, number: int, frame: bytes) -> None:
        connection = self.connections[number]
        connection.get_buffer(-1)[: len(frame)] = frame
        connection.buffer_updated(len(frame))

    def measure(self) -> float:
        """Microseconds a record, all in all."""
        end_offset = self.partition.log.log_end_offset
        if not self.sessions[0]:
            self._record(end_offset, None)  # the first answers name the sessions
            for number in (0, 1):
                (self.sessions[number],) = struct.unpack_from(">i", self.sinks[number + 1].last, 15)
            for number, replica in enumerate(FOLLOWERS):
                self.send(number + 1, self._fetch(number, replica, end_offset + 1))
            end_offset += 1
        frames = []
        for _ in range(CALLS):
            self.epoch += 1
            end_offset += 1
            frames.append([self._fetch(number, replica, end_offset) for number, replica in enumerate((2, 3))])
        began = time.process_time()
        for pair in frames:
            self._record(0, pair)
        took = time.process_time() - began
        assert self.partition.high_watermark == end_offset, (self.partition.high_watermark, end_offset)
        return took / CALLS * 1e6

    def _record(self, offset: int, fetches: list[bytes] | None) -> None:
        self.send(0, self.produce)
        self.node.group_commit.flush()
        for number, frame in enumerate(fetches or ()):
            self.send(number + 1, frame)


class FakeLeader(asyncio.Transport):
    """The other end of the follower's connection: answers each Fetch with the next batch."""

    def __init__(self, loop: asyncio.AbstractEventLoop, topic_id: bytes) -> None:
        super().__init__()
        self.loop, self.protocol = loop, None
        self.offset, self.left, self.done = 0, 0, loop.create_future()
        self.correlation = b""
        batch = bytearray(build_batch([Record(0, int(time.time() * 1000), None, b"x" * 100, ())]))
        batch[12:16] = b"\0\0\0\1"  # leader epoch
        row = PartitionData(partition_index=1, high_watermark=1, records=bytes(batch))
        topic = FetchableTopicResponse(topic_id=topic_id, partitions=[row])
        body = FetchResponse(session_id=9, responses=[topic]).encode(VERSION)
        tag = b"\0" if has_tagged_response_header(1, VERSION) else b""
        self.frame = bytearray(_FRAME.pack(4 + len(tag) + len(body)) + bytes(4) + tag + body)
        self.batch_at = self.frame.index(batch)
        self.begun = False

    def write(self, data: Any) -> None:
        self.correlation = bytes(data[8:12])
        if data[4:6] == b"\0\x12":
            keys = [ApiVersion(api_key=key, min_version=0, max_version=VERSION) for key in (1, 18)]
            body = ApiVersionsResponse(api_keys=keys).encode(3)
            self.loop.call_soon(self._receive, _FRAME.pack(4 + len(body)) + bytes(4) + body)
        elif self.left:
            self.answer()
        elif not self.done.done():
            self.done.set_result(None)

    def answer(self) -> None:
        self.left -= 1
        self.frame[4:8] = self.correlation
        struct.pack_into(">q", self.frame, self.batch_at, self.offset)
        self.offset += 1
        self.loop.call_soon(self._receive, self.frame)

    def _receive(self, frame: bytes) -> None:
        protocol: Any = self.protocol
        protocol.get_buffer(-1)[: len(frame)] = frame
        protocol.buffer_updated(len(frame))

    def abort(self) -> None: ...

    async def rounds(self, count: int) -> float:
        """Microseconds a response, of so many."""
        if not self.done.done():
            await self.done
        self.left, self.done = count, self.loop.create_future()
        began = time.process_time()
        self.answer()
        await self.done
        return (time.process_time() - began) / count * 1e6


async def follower(node: Node) -> float:
    """The best round of the follower's cycle."""
    partition = node.replicas.partition(TOPIC, 1)
    assert partition is not None
    loop = node.host.loop
    leader = FakeLeader(loop, partition.topic_id)

    async def connect(host: str, port: int, make: Callable[[], Any]) -> None:
        leader.protocol = make()
        leader.protocol.connection_made(leader)  # type: ignore[attr-defined]

    host = SimpleNamespace(
        loop=loop, timers=node.host.timers, random=node.host.random, network=SimpleNamespace(connect=connect)
    )
    image = SimpleNamespace(brokers={2: BrokerState(2, EPOCH, {"PLAINTEXT": ("127.0.0.1", 1)})})
    node.reached(Cluster).connections.make = lambda purpose: BrokerPeers(  # type: ignore[method-assign]
        node.node_id,
        lambda: image,  # type: ignore[arg-type,return-value]
        host,  # type: ignore[arg-type]
        node.broker.slow_lane,
        purpose=purpose,
        listener_name=None,
        setup_timeout_ms=1000,
        frame_bytes_max=100 << 20,
    )
    partition.become(PartitionState(2, 1, 1, (2, node.node_id), (2, node.node_id)))
    best = min([await leader.rounds(CALLS) for _ in range(ROUNDS)])
    assert partition.log.log_end_offset == ROUNDS * CALLS
    return best


async def measure(folder: str) -> dict[str, float]:
    """Both figures in microseconds."""
    texts = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": folder,
        "moldau.http.listener": "",
        "num.partitions": "2",
    }
    node = Node(from_texts(texts))
    await node.start()
    await node.controller.auto_create_topics([TOPIC])
    try:
        leader = Leader(node)
        figures = {"leader, a record to two followers": min(leader.measure() for _ in range(ROUNDS))}
        figures["follower, a response and the next request"] = await follower(node)
        return figures
    finally:
        await node.stop()


def main() -> None:
    """Measure and print."""
    import uvloop

    unit_us = best_us(reference)
    with tempfile.TemporaryDirectory() as folder:
        figures = uvloop.run(measure(folder))
    print(f"reference loop: {unit_us:.2f} us")
    for name, cost_us in figures.items():
        print(f"{name:50} {cost_us:6.2f} us   {cost_us / unit_us:5.2f} reference loops")


if __name__ == "__main__":
    main()
