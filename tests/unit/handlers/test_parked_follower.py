"""A follower's parked fetch reads again what has changed, and answers what a second reading of all would."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path

import pytest
from data_plane_world import Client, led_by, on_a_node, partition_of, produce_frame

from moldau.broker.controller.topics import NewTopic
from moldau.broker.handlers.apis.fetch import fetch, fetch_many
from moldau.broker.handlers.apis.fetch.one_fetch import OneFetch
from moldau.broker.metadata.image import PartitionState
from moldau.broker.node import Node
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

VERSION = 12
COUNT = 20
FOLLOWER = 7


def request(node: Node, min_bytes: int = 1) -> bytes:
    rows = [
        FetchPartition(
            partition=index,
            current_leader_epoch=partition_of(node, "wide", index).leader_epoch,
            log_start_offset=0,
            partition_max_bytes=1000,
        )
        for index in range(COUNT)
    ]
    body = FetchRequest(
        replica_id=FOLLOWER,
        max_wait_ms=5000,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="wide", partitions=rows)],
    ).encode(VERSION)
    return frame_request(1, VERSION, 5, "test", body)


async def turns() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


def rows_of(client: Client) -> dict[int, tuple[int, int, bool]]:
    sent = client.transport.sent
    (size,) = struct.unpack_from(">i", sent)
    response = FetchResponse.decode(bytes(sent[: 4 + size]), VERSION, 9)
    return {
        row.partition_index: (row.error_code, row.high_watermark, bool(row.records))
        for topic in response.responses
        for row in topic.partitions
    }


def play(
    folder: Path, monkeypatch: pytest.MonkeyPatch, many: bool, scene: Callable[[Node], Awaitable[None]]
) -> None:
    """`many`: as a fetch of more partitions than are read at once is served."""

    async def with_followers(node: Node) -> None:
        await node.controller.create_topics([NewTopic("wide", COUNT, 1)])
        replicas = (node.node_id, FOLLOWER)
        for index in range(COUNT):
            partition_of(node, "wide", index).become(PartitionState(node.node_id, 1, 1, replicas, replicas))
        monkeypatch.setattr(fetch, "TARGETS_AT_ONCE", 0 if many else 256)
        await scene(node)

    on_a_node(with_followers, folder)


async def parked(node: Node) -> Client:
    client = Client(node)
    client.feed(request(node))
    await turns()
    assert not client.transport.sent, "it waits"
    assert all(partition_of(node, "wide", index).parked.followers for index in range(COUNT))
    return client


@pytest.mark.parametrize("many", [False, True])
def test_only_what_has_changed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    async def scene(node: Node) -> None:
        follower = await parked(node)
        stats = partition_of(node, "wide").stats
        before = stats.fetches
        Client(node).feed(produce_frame("wide", 10))
        await turns()
        rows = rows_of(follower)
        assert rows == {0: (0, 0, True)} | dict.fromkeys(range(1, COUNT), (0, 0, False))
        assert stats.fetches - before == 1

    play(tmp_path, monkeypatch, many, scene)


@pytest.mark.parametrize("many", [False, True])
def test_another_leader_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool) -> None:
    async def scene(node: Node) -> None:
        follower = await parked(node)
        led_by(node, 99, "wide", 3, leader_epoch=2)
        await turns()
        rows = rows_of(follower)
        assert rows[3][0] == ErrorCode.FENCED_LEADER_EPOCH
        assert rows[2] == (0, 0, False)

    play(tmp_path, monkeypatch, many, scene)


@pytest.mark.parametrize("many", [False, True])
def test_a_high_watermark_that_moved_meanwhile_is_told_when_the_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    async def scene(node: Node) -> None:
        follower = await parked(node)
        partition = partition_of(node, "wide", 5)
        partition.high_watermark = partition.role.high_watermark = 1  # as if another follower had moved it
        await asyncio.sleep(6)
        await turns()
        rows = rows_of(follower)
        assert rows[5] == (0, 1, False)
        assert rows[4] == (0, 0, False)

    play(tmp_path, monkeypatch, many, scene)


@pytest.mark.parametrize("many", [False, True])
def test_records_that_are_too_few_are_not_kept_while_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    watch_all, rows_watched = fetch_many.ManyFetch._watch_all, []

    def watched(waiter: fetch_many.ManyFetch, rows: list[fetch_many.Row]) -> Generator[None, None, bool]:
        rows_watched.append(rows)
        return watch_all(waiter, rows)

    monkeypatch.setattr(fetch_many.ManyFetch, "_watch_all", watched)

    async def scene(node: Node) -> None:
        Client(node).feed(produce_frame("wide", 400))
        await turns()
        follower = Client(node)
        follower.feed(request(node, min_bytes=600))
        await turns()
        assert not follower.transport.sent, "it waits"
        (waiter,) = partition_of(node, "wide", 1).parked.followers or ()
        assert isinstance(waiter, OneFetch)
        assert waiter.known is not None
        assert {target.index for target in waiter.known} == set(range(1, COUNT))
        assert rows_watched == [[]] * many
        Client(node).feed(produce_frame("wide", 400))
        await turns()
        assert rows_of(follower)[0] == (0, 0, True)

    play(tmp_path, monkeypatch, many, scene)
