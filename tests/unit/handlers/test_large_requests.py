"""A large request is served in slices; small ones of other connections are answered between any two of them.

The lane's slices have no length here, so that every step of a request is one turn of the loop: what is
counted are turns, not time.
"""

import asyncio
import mmap
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from data_plane_world import Client, on_a_node

from moldau.broker.handlers.parts import exchange
from moldau.broker.node import Node
from moldau.common.core.allowance import Allowance
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest
from moldau.common.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

Scene = Callable[[Node], Awaitable[None]]
VERSION = 9


def metadata_frame(count: int, name: str = "a") -> bytes:
    body = MetadataRequest(
        topics=[MetadataRequestTopic(name=f"{name}{i}") for i in range(count)],
        allow_auto_topic_creation=False,
    ).encode(VERSION)
    return frame_request(3, VERSION, 7, "test", body)


def play(folder: Path, scene: Scene, **texts: str) -> None:
    async def with_short_slices(node: Node) -> None:
        node.broker.slow_lane = SlowLane(0.0)
        await scene(node)

    on_a_node(with_short_slices, folder, **texts)


async def turns_until(done: Callable[[], object], most: int = 100_000) -> int:
    for turn in range(most):
        if done():
            return turn
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


def answer_of(client: Client) -> MetadataResponse:
    return MetadataResponse.decode(bytes(client.transport.sent), VERSION, 9)


def test_a_large_request_is_decoded_and_answered_in_many_turns(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        large, small = Client(node), Client(node)
        large.feed(metadata_frame(5_000))
        assert not large.transport.sent
        answered = 0

        def step() -> bool:
            nonlocal answered
            small.feed(frame_request(18, 0, answered, None, ApiVersionsRequest().encode(0)))
            answered += bool(small.transport.sent)
            small.transport.sent.clear()
            return bool(large.transport.sent)

        turns = await turns_until(step)
        assert turns >= 5_000 // 64 + 5_000 // 256
        assert answered == turns + 1  # each turn had room for another's request
        assert [topic.name for topic in answer_of(large).topics] == [f"a{i}" for i in range(5_000)]
        assert not node.broker.allowance.used

    play(tmp_path, scene)


def test_requests_behind_a_large_one_are_answered_after_it(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(metadata_frame(2_000) + metadata_frame(1, "b"))

        def answers() -> list[MetadataResponse]:
            found, data = [], bytes(client.transport.sent)
            while data:
                end = 4 + int.from_bytes(data[:4], "big")
                found.append(MetadataResponse.decode(data[:end], VERSION, 9))
                data = data[end:]
            return found

        await turns_until(lambda: len(answers()) == 2)
        assert [len(answer.topics) for answer in answers()] == [2_000, 1]

    play(tmp_path, scene)


def test_a_large_request_whose_client_has_gone_is_given_up(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(metadata_frame(50_000))
        for _ in range(10):
            await asyncio.sleep(0)
        assert node.broker.allowance.used
        # The frame's bytes count as long as it is worked on.
        assert node.listeners.requests.used_bytes > 100_000
        client.connection.connection_lost(None)
        turns = await turns_until(lambda: not node.broker.allowance.used)
        assert turns < 10
        await turns_until(lambda: not node.listeners.requests.used_bytes)
        assert not client.transport.sent

    play(tmp_path, scene)


def test_a_request_with_too_many_rows_closes_its_connection_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        client.feed(metadata_frame(3_000))
        await turns_until(lambda: client.transport.closed)
        assert not client.transport.sent
        assert not node.broker.allowance.used
        fits = Client(node)
        fits.feed(metadata_frame(1_900))
        await turns_until(lambda: fits.transport.sent)

    play(tmp_path, scene, moldau_request_elements_max="2000")
    assert "moldau.request.elements.max" in caplog.text
    assert "bug" not in caplog.text


def test_a_large_request_that_does_not_parse_closes_its_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(node: Node) -> None:
        frame = bytearray(metadata_frame(5_000))
        frame[-20] = 0xFF
        client = Client(node)
        client.feed(bytes(frame))
        await turns_until(lambda: client.transport.closed)
        assert not client.transport.sent

    play(tmp_path, scene)
    assert "does not parse" in caplog.text
    assert "bug" not in caplog.text


def test_a_frame_that_stands_in_a_buffer_of_its_own_is_not_copied() -> None:
    buffer = mmap.mmap(-1, 3 * 1024 * 1024)
    kept = exchange.kept(memoryview(buffer)[4:])
    assert isinstance(kept, memoryview)
    assert isinstance(exchange.kept(memoryview(bytearray(1000))), bytes)


def test_large_requests_share_one_allowance_in_the_order_of_arrival() -> None:
    async def scene() -> None:
        allowance = Allowance()
        assert await allowance.acquire(10**9, 1000) == 1000
        assert await allowance.acquire(900, 1000) == 900
        first = asyncio.ensure_future(allowance.acquire(500, 1000))
        gone = asyncio.ensure_future(allowance.acquire(500, 1000))
        small = asyncio.ensure_future(
            allowance.acquire(1, 1000)
        )  # there is room, and yet it waits for its turn
        await asyncio.sleep(0)
        assert not first.done()
        assert not small.done()
        gone.cancel()
        await asyncio.sleep(0)
        allowance.give_back(900)
        assert await first == 500
        assert await small == 1
        assert allowance.used == 1501
        for each in (1000, 500, 1):
            allowance.give_back(each)
        assert allowance.used == 0
        assert await allowance.acquire(5000, 5000) == 5000  # a single one always fits

    asyncio.run(asyncio.wait_for(scene(), 5))


def test_what_was_granted_to_a_cancelled_request_is_given_back() -> None:
    async def scene() -> None:
        allowance = Allowance()
        await allowance.acquire(2000, 1000)
        await allowance.acquire(2000, 1000)
        waits = asyncio.ensure_future(allowance.acquire(700, 1000))
        await asyncio.sleep(0)
        allowance.give_back(1000)
        waits.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert allowance.used == 1000

    asyncio.run(asyncio.wait_for(scene(), 5))
