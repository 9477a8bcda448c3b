"""Produce and Fetch through a broker's connections without sockets: what one client's trouble costs the
others.
"""

import asyncio
import errno
import struct
from collections.abc import Awaitable
from pathlib import Path

import pytest
from data_plane_world import Client, on_a_node, partition_of, partition_rows, produce_frame
from jumping_time import settled

from moldau.broker.handlers.apis.fetch.list_offsets import list_offsets
from moldau.broker.handlers.apis.produce.produce_repeat import RepeatedProduce
from moldau.broker.handlers.apis.transactions.init_producer_id import init_producer_id
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.session import Session
from moldau.broker.log.appending.writer import LARGE_BATCH_BYTES
from moldau.broker.node import Node
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)


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
        assert isinstance(shortcut, RepeatedProduce)
        start = frame[:12] + shortcut.repeat.prefix
        bad = start + (b"\xff" * 20 if harm == "varint" else b"")
        bad = struct.pack(">i", len(bad) - 4) + bad[4:]
        evil.feed(frame * 256 + bad)  # the last is looked at when the turn's write has been answered
        other.feed(produce_frame("b", 100))
        await settled()
        assert [row.error_code for each in other.answers() for row in partition_rows(each)] == [0]
        assert evil.transport.closed
        other.feed(produce_frame("b", 100) * 2)
        await settled()
        assert len(other.answers()) == 3

    on_a_node(scene, tmp_path)


def test_a_disk_that_fails_in_the_middle_of_a_request_is_told_for_all_its_partitions(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        def broken(*_: object) -> int:
            raise OSError(errno.EIO, "input/output error")

        files = partition_of(node, "a", 1).log.files.file_system
        files.pwritev = broken  # type: ignore[method-assign]  # how large batches are written
        client = Client(node)
        client.feed(produce_frame("a", 100, LARGE_BATCH_BYTES))
        await settled()
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
            node.listeners.all[0]._sweep()
        assert client.transport.closed
        assert client.transport.aborted

    on_a_node(scene, tmp_path)


def test_a_damaged_segment_is_said_to_whoever_searches_it(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(produce_frame("a", 100))
        await settled()
        segment = partition_of(node, "a").log.segments[0]
        segment.write([bytes(segment.size_bytes)], segment.size_bytes, 0)
        asked = ListOffsetsTopic(name="a", partitions=[ListOffsetsPartition(partition_index=0, timestamp=1)])
        context = RequestContext(5, 1, Session("PLAINTEXT"))
        answer = list_offsets(node.broker, context, ListOffsetsRequest(topics=[asked]))
        assert isinstance(answer, Awaitable)
        answer = await answer
        assert answer.topics[0].partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE

    on_a_node(scene, tmp_path)


def test_a_full_disk_makes_a_new_producer_wait_and_not_fail(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        async def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

        node.controller._store.append_if = refuse  # type: ignore[method-assign]
        answer = init_producer_id(
            node.broker,
            RequestContext(4, 1, Session("PLAINTEXT")),
            InitProducerIdRequest(transactional_id=None),
        )
        assert isinstance(answer, Awaitable)
        assert (await answer).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    on_a_node(scene, tmp_path)
