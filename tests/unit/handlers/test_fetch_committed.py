"""Long polls of consumers that read committed records only: woken by what they may see, by nothing else."""

import struct
import time
from pathlib import Path

import pytest
from data_plane_world import Client, on_a_node, partition_of, produce_frame
from jumping_time import until

from moldau.broker.handlers.apis.fetch.one_fetch import OneFetch
from moldau.broker.node import Node
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record

VERSION = 12
PRODUCER = 7000


def fetch_frame(min_bytes: int, offset: int = 0) -> bytes:
    partitions = [
        FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20),
        FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1 << 20),
    ]
    body = FetchRequest(
        max_wait_ms=9000,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        isolation_level=1,
        session_epoch=-1,
        topics=[FetchTopic(topic="a", partitions=partitions)],
    ).encode(VERSION)
    header = struct.pack(">hhih", 1, VERSION, 1, 4) + b"load" + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def now_ms() -> int:
    return int(time.time() * 1000)


def append(node: Node, sequence: int) -> None:
    """A record of an open transaction."""
    batch = build_batch(
        [Record(0, now_ms(), None, b"value" * 20, ())],
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    partition = partition_of(node, "a")
    guard = partition.log.transactions.begin_verification(PRODUCER, 0)
    assert not partition.append_verified(memoryview(batch), now_ms(), -1, guard).error_code


def end(node: Node) -> None:
    marker = EndTransactionMarker(ControlType.ABORT, 0)
    assert not partition_of(node, "a").append_marker(marker, PRODUCER, 0, now_ms()).error_code


def answer(client: Client) -> FetchResponse:
    return FetchResponse.decode(bytes(client.transport.sent)[9:], VERSION)


def test_an_open_transaction_wakes_nobody_and_its_marker_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = []
    collect = OneFetch.collect
    monkeypatch.setattr(OneFetch, "collect", lambda request: collected.append(1) or collect(request))

    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(fetch_frame(min_bytes=1))
        for sequence in range(5):
            append(node, sequence)
            node.group_commit.flush()
        assert partition_of(node, "a").high_watermark == 5
        assert len(collected) == 1  # nobody looked again for what could not be there
        end(node)
        node.group_commit.flush()
        (row, _) = answer(client).responses[0].partitions
        assert row.last_stable_offset == 6
        assert [(each.producer_id, each.first_offset) for each in row.aborted_transactions] == [(PRODUCER, 0)]
        assert len(collected) == 2

    on_a_node(scene, tmp_path)


def test_committed_bytes_are_counted_without_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collected = []
    collect = OneFetch.collect
    monkeypatch.setattr(OneFetch, "collect", lambda request: collected.append(1) or collect(request))

    async def scene(node: Node) -> None:
        consumer, producer = Client(node), Client(node)
        consumer.feed(fetch_frame(min_bytes=900))
        for count in range(1, 5):
            assert not consumer.transport.sent
            producer.feed(produce_frame("a", 200))
            await until(lambda count=count: partition_of(node, "a").high_watermark == count)
        (row, _) = answer(consumer).responses[0].partitions
        assert len(row.records) >= 900
        assert len(collected) == 2

    on_a_node(scene, tmp_path)


def test_what_a_marker_sets_free_is_too_little_until_more_comes(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        consumer, producer = Client(node), Client(node)
        append(node, 0)
        node.group_commit.flush()
        consumer.feed(fetch_frame(min_bytes=500))
        end(node)
        node.group_commit.flush()
        assert not consumer.transport.sent
        producer.feed(produce_frame("a", 300))
        await until(lambda: bool(consumer.transport.sent))
        (row, _) = answer(consumer).responses[0].partitions
        assert len(row.records) >= 500
        assert row.last_stable_offset == 3

    on_a_node(scene, tmp_path)
