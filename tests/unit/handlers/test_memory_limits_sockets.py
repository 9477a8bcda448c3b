"""Both memory limits over real sockets: half frames and clients that do not read, beside one that behaves."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from data_plane_world import on_a_node, produce_frame
from jumping_time import until
from test_fetch_room import fetch_frame

from moldau.broker.node import Node

MB = 1_000_000
Ask = Callable[[bytes], Awaitable[bytes]]


async def answer(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def good_client(node: Node) -> Ask:
    reader, writer = await asyncio.open_connection("127.0.0.1", node.listeners.all[0].port)

    async def ask(request: bytes) -> bytes:
        writer.write(request)
        return await answer(reader)

    return ask


def strangers(node: Node, count: int, sent: bytes) -> list[socket.socket]:
    """Connections whose clients send this, read nothing and say no more."""
    opened = []
    for _ in range(count):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", node.listeners.all[0].port))
        one.setblocking(False)
        one.send(sent)
        opened.append(one)
    return opened


def test_half_frames_of_many_clients_do_not_keep_a_good_one_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(node: Node) -> None:
        half = struct.pack(">i", 1_500_000) + bytes(300_000)
        held = strangers(node, 2, half)
        await until(lambda: len(node.listeners.requests._frames) == 2)
        ask = await good_client(node)
        await ask(produce_frame("a", 100))  # a small request does not wait
        await ask(produce_frame("a", 900_000))
        assert node.listeners.requests.used_bytes <= 2_500_000
        assert node.listeners.requests.depleted_ms > 1_000
        for one in held:
            one.close()

    on_a_node(scene, tmp_path, real_time=True, queued_max_request_bytes="2500000")
    assert "made no progress for 2 s" in caplog.text
    assert "queued.max.request.bytes=2500000 was used up" in caplog.text


def test_clients_that_do_not_read_are_closed_and_a_good_one_reads_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(node: Node) -> None:
        ask = await good_client(node)
        for _ in range(16):
            await ask(produce_frame("a", 900_000))
        held = strangers(node, 30, fetch_frame("a", 50 << 20) * 5)
        await until(lambda: bool(node.listeners.responses.closed_count))
        assert node.listeners.responses.used_bytes <= 10 * MB
        assert len(await ask(fetch_frame("a", 50 << 20))) > 900_000
        for one in held:
            one.close()
        await until(lambda: not node.listeners.responses.used_bytes)

    on_a_node(scene, tmp_path, real_time=True, moldau_queued_max_response_bytes=str(10 * MB))
    assert "moldau.queued.max.response.bytes=10000000 is used up" in caplog.text
