"""What the hot files cost, without a socket: microseconds of CPU, and the ratio to a reference loop.

    python -m bench.hot_path

The reference loop is plain Python work of fixed size (dictionary look-ups, small tuples, a struct), so that
the ratio means the same on a fast and on a slow machine. The budgets are those that stand in the headers of
the files; a line above its budget says so. Each figure is the best of several rounds: the machine's noise
only adds.
"""

import asyncio
import struct
import tempfile
import time
from collections.abc import Callable

from moldau.broker.handlers.apis.produce.produce_repeat import RepeatedProduce
from moldau.broker.node import Node
from moldau.broker.server.connection import Connection
from moldau.broker.server.dispatch import Dispatch
from moldau.broker.server.frame_buffer import shared_view
from moldau.common.protocol import hot_fetch, hot_produce
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.sources import from_texts

TOPIC = "bench"
CONNECTIONS = 100
ROUNDS = 7
CALLS = 5_000

# In reference loops, by piece, as in the files' headers.
BUDGETS = {
    "produce request, 100 a turn, all but the socket": 7.0,
    "log append, 100 a turn": 2.6,
    "decode of a Produce request": 2.0,
    "answer to a Produce request": 1.8,
    "decode of a Fetch request": 3.0,
    "answer to a Fetch request": 2.2,
    "fetch of one record, all but the socket": 27.0,
    "parked fetch woken by a record, all but the socket": 70.0,
}


class _NoSocket:
    """A transport that takes everything and keeps nothing."""

    def write(self, data: bytes) -> None: ...

    def writelines(self, parts: list[bytes]) -> None: ...

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None: ...

    def close(self) -> None: ...


def best_us(work: Callable[[int], None]) -> float:
    """The least CPU time of a call, in microseconds."""
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        work(CALLS)
        least = min(least, (time.process_time() - began) / CALLS)
    return least * 1e6


_REFERENCE = struct.Struct(">qiibi")


def reference(count: int) -> None:
    """About a microsecond of ordinary Python a round."""
    table = {bytes((i,)): i for i in range(64)}
    data = _REFERENCE.pack(1, 2, 3, 4, 5)
    for i in range(3 * count):
        first, second, third, fourth, fifth = _REFERENCE.unpack_from(data)
        pair = (first + i, table[b"\x05"], second)
        if pair[1] == 5 and third < 9 and fourth:
            data = _REFERENCE.pack(pair[1], second, third, fourth, fifth)


def produce_frame(version: int) -> bytes:
    """A request with one record of 100 bytes, as a client sends it."""
    batch = build_batch([Record(0, int(time.time() * 1000), None, b"x" * 100, ())])
    partition = PartitionProduceData(index=0, records=batch)
    body = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[partition])]
    ).encode(version)
    header = struct.pack(">hhih", 0, version, 1, 4) + b"load"
    return struct.pack(">i", len(header) + len(body)) + header + body


async def measure(folder: str) -> dict[str, float]:
    """All figures in microseconds."""
    texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": folder, "moldau.http.listener": ""}
    node = Node(from_texts(texts))
    await node.start()
    await node.controller.auto_create_topics([TOPIC])
    try:
        return {**_through_the_broker(node), **_fetches(node), **_codecs()}
    finally:
        await node.stop()


def _through_the_broker(node: Node) -> dict[str, float]:
    frame = produce_frame(7)
    size = len(frame)
    dispatch = Dispatch(node.broker)
    connections = []
    for _ in range(CONNECTIONS):
        connection = Connection(node.listeners.all[0], dispatch)
        connection.connection_made(_NoSocket())  # type: ignore[arg-type]
        connections.append(connection)

    def requests(count: int) -> None:
        for _ in range(count // CONNECTIONS):
            for connection in connections:
                connection.get_buffer(-1)[:size] = frame
                connection.buffer_updated(size)
            node.group_commit.flush()

    requests(2 * CONNECTIONS)
    assert isinstance(connections[0].shortcut, RepeatedProduce)
    partition = node.replicas.partition(TOPIC, 0)
    assert partition is not None
    log, batch = partition.log, memoryview(bytearray(frame[-168:]))
    now_ms = node.host.clock.now_ms()

    def appends(count: int) -> None:
        for number in range(count):
            log.leader.append(batch, partition.leader_epoch, now_ms)
            if number % CONNECTIONS == CONNECTIONS - 1:
                log.writer.flush_staged()

    figures = {"produce request, 100 a turn, all but the socket": best_us(requests)}
    assert bytes(shared_view[:4])  # the frames went through the shared buffer
    figures["log append, 100 a turn"] = best_us(appends)
    partition.dirty = False
    return figures


def _fetches(node: Node) -> dict[str, float]:
    """A consumer's fetch that is answered at once, and one that waits for the next record."""
    partition = node.replicas.partition(TOPIC, 0)
    assert partition is not None
    dispatch = Dispatch(node.broker)
    producer, consumer = (Connection(node.listeners.all[0], dispatch) for _ in range(2))
    for connection in (producer, consumer):
        connection.connection_made(_NoSocket())  # type: ignore[arg-type]
    record = produce_frame(7)

    def send(connection: Connection, frame: bytes) -> None:
        connection.get_buffer(-1)[: len(frame)] = frame
        connection.buffer_updated(len(frame))

    def produce() -> None:
        send(producer, record)
        node.group_commit.flush()

    def at_once(count: int) -> None:
        frame = fetch_frame(11, partition.log.log_end_offset - 1)
        for _ in range(count):
            send(consumer, frame)

    def parked(count: int) -> None:
        first = partition.log.log_end_offset
        frames = [fetch_frame(11, first + number) for number in range(count)]
        began = time.process_time()
        for frame in frames:
            send(consumer, frame)
            produce()
        took.append((time.process_time() - began) / count)

    took: list[float] = []
    produce()
    figures = {"fetch of one record, all but the socket": best_us(at_once)}
    for _ in range(ROUNDS):
        parked(CALLS)
    figures["parked fetch woken by a record, all but the socket"] = min(took) * 1e6
    return figures


def fetch_frame(version: int, offset: int) -> bytes:
    """A consumer's request without a session."""
    wanted = FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
    body = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
    ).encode(version)
    header = struct.pack(">hhih", 1, version, 1, 4) + b"load"
    return struct.pack(">i", len(header) + len(body)) + header + body


def _codecs() -> dict[str, float]:
    frame = memoryview(produce_frame(7))[4:]
    row = (0, 0, 1234, -1, 0, None)
    wanted = FetchPartition(fetch_offset=5, partition_max_bytes=1 << 20)
    fetch_body = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
    ).encode(11)
    fetch_view = memoryview(fetch_body)
    fetched = (0, 0, 10, 10, 0, None, b"r" * 1000)

    def repeat(call: Callable[[], object]) -> Callable[[int], None]:
        def work(count: int) -> None:
            for _ in range(count):
                call()

        return work

    return {
        "decode of a Produce request": best_us(repeat(lambda: hot_produce.decode_produce(frame, 14, 7))),
        "answer to a Produce request": best_us(
            repeat(lambda: hot_produce.encode_produce_response(7, [(b"bench", [row])]))
        ),
        "decode of a Fetch request": best_us(repeat(lambda: hot_fetch.decode_fetch(fetch_view, 0, 11))),
        "answer to a Fetch request": best_us(
            repeat(lambda: hot_fetch.encode_fetch_response(11, [(b"bench", [fetched])]))
        ),
    }


def main() -> None:
    """Measure and print."""
    unit_us = best_us(reference)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(folder))
    print(f"reference loop: {unit_us:.2f} us")
    for name, cost_us in figures.items():
        ratio, budget = cost_us / unit_us, BUDGETS[name]
        verdict = "" if ratio <= budget else f"   above its budget of {budget}"
        print(f"{name:50} {cost_us:6.2f} us   {ratio:5.2f} reference loops{verdict}")


if __name__ == "__main__":
    main()
