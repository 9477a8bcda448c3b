"""The second port over a real socket: pages, refusals, and strangers who try its patience."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator

import pytest

from moldau.monitor.page import Ask, Page, json_page, text_page
from moldau.server.http import HttpLimits, HttpServer


def fails(_: Ask) -> Page:
    raise KeyError("x")


def long_page(_: Ask) -> Page:
    def pieces() -> Iterator[bytes]:
        for index in range(100):
            yield b"%05d" % index * 1000
            yield b""

    return Page(pieces())


ROUTES = {
    "/": lambda ask: text_page("index"),
    "/echo": lambda ask: json_page({"query": dict(ask.query), "text": ask.wants_text}),
    "/fails": fails,
    "/long": long_page,
}


def served(test: Callable[[HttpServer], Awaitable[None]], limits: HttpLimits | None = None) -> None:
    async def main() -> None:
        server = HttpServer(ROUTES, limits)
        await server.open("127.0.0.1", 0)
        try:
            async with asyncio.timeout(10):
                await test(server)
        finally:
            await server.close()

    asyncio.run(main())


async def talk(server: HttpServer, sent: bytes) -> bytes:
    """Send, then read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    answer = await reader.read(-1)
    writer.close()
    return answer


async def get(
    server: HttpServer, target: str, headers: str = "", method: str = "GET"
) -> tuple[int, str, str]:
    """(status, head, body) of one request."""
    answer = await talk(
        server, f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n".encode()
    )
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), head.lower(), body


def test_a_page_with_its_query() -> None:
    async def test(server: HttpServer) -> None:
        status, head, body = await get(server, "/echo?a=1&format=text")
        assert (status, json.loads(body)) == (200, {"query": {"a": "1", "format": "text"}, "text": True})
        assert "content-type: application/json" in head
        assert (await get(server, "/echo/"))[0] == 200
        assert json.loads((await get(server, "/echo", "Accept: text/html,*/*\r\n"))[2])["text"] is True
        assert json.loads((await get(server, "/echo", "Accept: */*\r\n"))[2])["text"] is False

    served(test)


def test_what_does_not_exist_is_answered_with_what_does() -> None:
    async def test(server: HttpServer) -> None:
        status, _, body = await get(server, "/helth")
        assert status == 404
        assert "there is no /helth here" in body
        assert "/echo" in body
        status, head, body = await get(server, "/", "Content-Length: 0\r\n", "POST")
        assert (status, "allow: get, head" in head) == (405, True)
        assert "not POST" in body

    served(test)


def test_head_has_no_body() -> None:
    async def test(server: HttpServer) -> None:
        status, head, body = await get(server, "/", method="HEAD")
        assert (status, body) == (200, "")
        assert "content-length: 6" in head
        assert (await get(server, "/long", method="HEAD"))[2] == ""

    served(test)


def test_a_page_that_fails_is_a_500_and_the_server_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: HttpServer) -> None:
        assert (await get(server, "/fails"))[0] == 500
        assert (await get(server, "/"))[0] == 200

    served(test)
    assert "KeyError" in caplog.text


def test_a_connection_is_kept_and_requests_sent_together_are_answered_in_turn() -> None:
    async def test(server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        got = b""
        while got.count(b"index\n") < 3:
            got += await reader.read(1000)
        assert got.count(b"HTTP/1.1 200") == 3
        writer.close()

    served(test)


def test_a_long_page_comes_whole_while_the_loop_goes_on() -> None:
    async def test(server: HttpServer) -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        _, head, body = await get(server, "/long")
        counting.cancel()
        assert "transfer-encoding: chunked" in head
        assert "0009900099" in body
        assert turns > 3

    served(test)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x00\x00\x00\x10\x00\x12\x00\x03....\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),  # no Host
        (b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", b"400"),
    ],
)
def test_bad_requests_are_refused_with_a_sentence(sent: bytes, status: bytes) -> None:
    async def test(server: HttpServer) -> None:
        answer = await talk(server, sent)
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert b"not a request that this port understands" in answer
        assert (await get(server, "/"))[0] == 200

    served(test)


def test_a_slow_request_and_an_idle_connection_are_ended() -> None:
    async def test(server: HttpServer) -> None:
        assert await talk(server, b"GET / HT") == b""
        kept = await talk(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert kept.endswith(b"index\n")

    served(test, HttpLimits(request_seconds=0.05, idle_seconds=0.05))


def test_a_body_is_not_read_to_its_end() -> None:
    async def test(server: HttpServer) -> None:
        answer = await talk(
            server, b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 100_000
        )
        assert answer == b"" or answer.startswith(b"HTTP/1.1 405")
        assert (await get(server, "/"))[0] == 200

    served(test)


def test_connections_are_bounded() -> None:
    async def test(server: HttpServer) -> None:
        held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises((OSError, IndexError)):
            await get(server, "/")
        assert server.refused_count == 1
        for _, writer in held:
            writer.close()
        await asyncio.sleep(0.05)
        assert (await get(server, "/"))[0] == 200

    served(test, HttpLimits(connections_max=2))
