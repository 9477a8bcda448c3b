"""How large an answer to Fetch gets when little room is left for answers."""

import struct
from pathlib import Path

from data_plane_world import Client, on_a_node, produce_frame
from jumping_time import settled

from moldau.broker.node import Node
from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

VERSION = 11


def fetch_frame(topic: str, max_bytes: int, min_bytes: int = 1, max_wait_ms: int = 60_000) -> bytes:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )
    return frame_request(1, VERSION, 1, "load", request.encode(VERSION))


def records_bytes(client: Client) -> int | None:
    """The size of the records in the one answer; None while there is none."""
    data = bytes(client.transport.sent)
    if not data:
        return None
    (size,) = struct.unpack_from(">i", data)
    assert len(data) == 4 + size
    (topic,) = FetchResponse.decode(data[8:], VERSION).responses
    (partition,) = topic.partitions
    assert partition.error_code == 0
    return len(partition.records or b"")


async def filled(node: Node, *sizes: int) -> None:
    client = Client(node)
    for size in sizes:
        client.feed(produce_frame("a", size))
    await settled()
    assert len(client.answers(9)) == len(sizes)


def test_an_answer_holds_no_more_than_there_is_room_and_the_first_batch_whole(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        await filled(node, 50_000, 50_000, 50_000)
        for room_bytes, batches in ((1 << 20, 3), (110_000, 2), (70_000, 1), (10, 1)):
            node.broker.response_room.fetch_bytes = room_bytes
            client = Client(node)
            client.feed(fetch_frame("a", 1 << 20))
            size_bytes = records_bytes(client)
            assert size_bytes is not None
            assert size_bytes // 50_000 == batches

    on_a_node(scene, tmp_path)


def test_who_asks_for_more_than_there_is_room_does_not_wait_for_it(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        await filled(node, 50_000, 50_000)
        node.broker.response_room.fetch_bytes = 110_000
        client = Client(node)
        client.feed(fetch_frame("a", 1 << 20, min_bytes=1 << 20))
        assert records_bytes(client)

    on_a_node(scene, tmp_path)


def test_the_room_is_that_of_the_moment_of_the_answer(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(fetch_frame("a", 1 << 20, min_bytes=90_000))
        assert records_bytes(client) is None
        node.broker.response_room.fetch_bytes = 60_000
        await filled(node, 50_000, 50_000)
        size_bytes = records_bytes(client)
        assert size_bytes is not None
        assert size_bytes // 50_000 == 1

    on_a_node(scene, tmp_path)


def test_no_answer_is_larger_than_eight_mebibytes_out_of_the_box(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        await filled(node, *[1_000_000] * 12)
        client = Client(node)
        client.feed(fetch_frame("a", 50 << 20))
        size_bytes = records_bytes(client)
        assert size_bytes is not None
        assert size_bytes // 1_000_000 == 8

    on_a_node(scene, tmp_path)
