"""A Fetch of many partitions is read, waited for and answered in slices, and says what any other Fetch
would."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from data_plane_world import Client, led_by, on_a_node, partition_of, produce_frame

from moldau.broker.controller.topics import NewTopic
from moldau.broker.handlers.apis.fetch import fetch
from moldau.broker.node import Node
from moldau.broker.server.request_memory import SMALL_BYTES
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

VERSION = 12
COUNT = 700  # a frame of 23 KB

Scene = Callable[[Node], Awaitable[None]]


def play(folder: Path, scene: Scene) -> None:
    async def with_topic(node: Node) -> None:
        await node.controller.create_topics([NewTopic("wide", COUNT, 1)])
        node.broker.slow_lane = SlowLane(0.0)
        await scene(node)

    on_a_node(with_topic, folder)


def request(
    *indexes: int, session: tuple[int, int] = (0, -1), forgotten: tuple[int, ...] = (), wait_ms: int = 0
) -> bytes:
    rows = [FetchPartition(partition=index, partition_max_bytes=1000) for index in indexes]
    body = FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="wide", partitions=rows)] if rows else [],
        forgotten_topics_data=[ForgottenTopic(topic="wide", partitions=list(forgotten))] if forgotten else [],
    ).encode(VERSION)
    return frame_request(1, VERSION, 5, "test", body)


async def answer(client: Client, turns_max: int = 100_000) -> tuple[FetchResponse, int]:
    """The next answer, and how many turns of the loop it took."""
    for turn in range(turns_max):
        sent = client.transport.sent
        if len(sent) >= 4:
            end = 4 + struct.unpack_from(">i", sent)[0]
            data = bytes(sent[:end])
            del sent[:end]
            return FetchResponse.decode(data, VERSION, 9), turn
        await asyncio.sleep(0)
    raise AssertionError("there is no answer")


def rows_of(response: FetchResponse) -> dict[int, tuple[int, int, bool]]:
    return {
        row.partition_index: (row.error_code, row.high_watermark, bool(row.records))
        for topic in response.responses
        for row in topic.partitions
    }


async def produce(node: Node, *indexes: int) -> None:
    """A record to these partitions of the topic."""
    client = Client(node)
    size = max(indexes) + 1
    frame = produce_frame("wide", *([10] * size))
    client.feed(frame)
    for _ in range(100_000):
        if client.transport.sent:
            return
        await asyncio.sleep(0)
    raise AssertionError("there is no answer")


def test_a_large_full_fetch_takes_many_turns_and_answers_each_partition(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        await produce(node, 1)
        client = Client(node)
        client.feed(request(*range(COUNT + 1)))
        response, turns = await answer(client)
        assert turns >= COUNT // 64 + 2 * COUNT // 32
        rows = rows_of(response)
        assert list(rows) == list(range(COUNT + 1))
        assert rows[0] == rows[1] == (0, 1, True)
        assert rows[2] == (0, 0, False)
        assert rows[COUNT][0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(tmp_path, scene)


def test_many_partitions_are_answered_as_few_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: Node) -> None:
        await produce(node, 3)
        answers = []
        for targets_at_once in (0, 10_000):
            monkeypatch.setattr(fetch, "TARGETS_AT_ONCE", targets_at_once)
            client = Client(node)
            client.feed(request(*range(10), 8, 2, 99))
            answers.append((await answer(client))[0])
        assert answers[0] == answers[1]

    play(tmp_path, scene)


def test_a_session_of_many_partitions_tells_news_only_and_wakes_for_each(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(request(*range(COUNT), session=(0, 0)))
        response, _ = await answer(client)
        session_id = response.session_id
        assert session_id
        assert len(rows_of(response)) == COUNT
        client.feed(request(session=(session_id, 1), wait_ms=60_000))
        for _ in range(5):
            await asyncio.sleep(0)
        # The first partitions are read and perhaps not yet watched: what comes now is not missed either.
        await produce(node, 0)
        response, _ = await answer(client)
        assert rows_of(response) == {0: (0, 1, True)}
        client.feed(request(session=(session_id, 2), forgotten=tuple(range(300)), wait_ms=60_000))
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(partition_of(node, "wide", 300).parked.consumers or ()) == 1
        assert not partition_of(node, "wide", 0).parked.consumers
        await node.controller.delete_topics([("wide", bytes(16))])
        response, _ = await answer(client)
        assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in {row[0] for row in rows_of(response).values()}

    play(tmp_path, scene)


def test_at_every_moment_something_may_come(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(request(*range(COUNT), session=(0, 0)))
        session_id = (await answer(client))[0].session_id
        for epoch, turns in enumerate(range(0, 60, 3), 1):
            client.feed(request(session=(session_id, epoch), wait_ms=60_000))
            for _ in range(turns):
                await asyncio.sleep(0)
            high_watermark = partition_of(node, "wide").high_watermark
            await produce(node, 0)
            response, _ = await answer(client)
            assert rows_of(response)[0][1] >= high_watermark

    play(tmp_path, scene)


def test_at_every_moment_a_partition_may_get_another_leader(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(request(*range(COUNT), session=(0, 0)))
        session_id = (await answer(client))[0].session_id
        for index in range(20):
            client.feed(
                request(session=(session_id, index + 1), forgotten=tuple(range(index)), wait_ms=60_000)
            )
            for _ in range(3 * index):
                await asyncio.sleep(0)
            led_by(node, 99, "wide", index)
            response, _ = await answer(client)
            assert rows_of(response)[index][0] == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(tmp_path, scene)


def test_a_client_that_goes_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(request(*range(COUNT), wait_ms=60_000))
        for _ in range(2_000):
            await asyncio.sleep(0)
        assert partition_of(node, "wide", 7).parked.consumers
        client.connection.connection_lost(None)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not any(partition.parked.consumers for partition in node.replicas.partitions())
        assert not node.broker.allowance.used

    play(tmp_path, scene)


def test_a_long_poll_counts_none_of_its_request_s_bytes(tmp_path: Path) -> None:
    """They are freed before it waits. Four such requests of 90 MB used the whole limit up for days, and cost
    nothing."""

    async def scene(node: Node) -> None:
        client = Client(node)
        data = request(*list(range(COUNT)) * 3, wait_ms=600_000)
        assert len(data) > SMALL_BYTES
        client.feed(data)
        assert node.listeners.requests.used_bytes == len(data) - 4
        partition = partition_of(node, "wide", COUNT - 1)
        for _ in range(100_000):
            if partition.parked.consumers:
                break
            await asyncio.sleep(0)
        assert partition.parked.consumers
        assert node.listeners.requests.used_bytes == 0
        await produce(node, 0)
        response, _ = await answer(client)
        assert rows_of(response)[0] == (0, 1, True)
        assert node.listeners.requests.used_bytes == 0

    play(tmp_path, scene)
