"""The second port over a real socket: pages, refusals, and strangers who try its patience."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from time import perf_counter

import pytest
import uvloop
from kept import kept

from moldau.broker.monitor.page import Ask, Page, json_page, text_page
from moldau.broker.server.http import HttpLimits, HttpServer
from moldau.common.core.clock import SystemClock
from moldau.common.core.network import SystemNetwork


def fails(_: Ask) -> Page:
    raise KeyError("x")


def long_page(_: Ask) -> Page:
    def pieces() -> Iterator[bytes]:
        for index in range(100):
            yield b"%05d" % index * 1000
            yield b""

    return Page(pieces())


def endless(_: Ask) -> Page:
    def pieces() -> Iterator[bytes]:
        while True:
            yield b"x" * 1000

    return Page(pieces())


ROUTES = {
    "/": lambda ask: text_page("index"),
    "/echo": lambda ask: json_page({"query": dict(ask.query), "text": ask.wants_text}),
    "/fails": fails,
    "/long": long_page,
    "/endless": endless,
}


def served(test: Callable[[HttpServer], Awaitable[None]], limits: HttpLimits | None = None) -> None:
    async def main() -> None:
        server = HttpServer(ROUTES, SystemClock(), perf_counter, limits)
        address = SystemNetwork(asyncio.get_running_loop()).listen("127.0.0.1", 0, 64)
        await server.serve(address)
        try:
            async with asyncio.timeout(10):
                await test(server)
        finally:
            await server.close()

    uvloop.run(main())


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


Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(8_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not come to that")


async def held(server: HttpServer, sent: bytes = b"GET / HTTP/1.1\r\n", host: str = "127.0.0.1") -> Opened:
    """A connection that has sent this, and that the server has taken."""
    before = len(server._clients) + server.evicted_count
    opened = await asyncio.open_connection("127.0.0.1", server.port, local_addr=(host, 0))
    opened[1].write(sent)
    await until(lambda: len(server._clients) + server.evicted_count > before)
    return opened


async def is_open(connection: Opened) -> bool:
    try:
        async with asyncio.timeout(0.02):
            return bool(await connection[0].read(1))
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def test_a_probe_gets_through_however_many_slow_connections_there_are() -> None:
    async def test(server: HttpServer) -> None:
        slow = [await held(server) for _ in range(20)]
        assert (await get(server, "/"))[0] == 200
        assert server.evicted_count == 1
        assert [await is_open(each) for each in slow] == [False] + [True] * 19
        full = kept(server)
        for _ in range(30):  # and they are renewed
            slow.append(await held(server))
            assert (await get(server, "/"))[0] == 200
        assert kept(server) <= full
        for _, writer in slow:
            writer.close()

    served(test, HttpLimits(connections_max=20))


def test_a_host_with_many_connections_makes_room_for_others(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: HttpServer) -> None:
        scraper = await held(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "127.0.0.2")
        slow = [await held(server) for _ in range(3)]
        assert await scraper[0].readline() == b"HTTP/1.1 200 OK\r\n"  # and is idle now, the oldest of all
        slow.append(await held(server))
        assert [await is_open(each) for each in slow] == [False, True, True, True]
        assert await is_open(scraper)
        for _, writer in [scraper, *slow]:
            writer.close()

    served(test, HttpLimits(connections_max=4))
    assert "closed the oldest HTTP connection of 127.0.0.1, which has 3" in caplog.text


def test_who_is_being_answered_goes_last() -> None:
    async def test(server: HttpServer) -> None:
        asking = await held(server, b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await asking[0].readline()
        slow = await held(server)
        await held(server)
        assert not await is_open(slow)
        assert await is_open(asking)

    served(test, HttpLimits(connections_max=2))


def test_a_client_that_leaves_during_a_long_page_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: HttpServer) -> None:
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readline()
            writer.transport.abort()
        await until(lambda: not server._clients)

    served(test)  # on the loop that the broker runs on
    assert "bug" not in caplog.text


def test_many_long_pages_are_worked_on_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each turn of the loop one piece of one page, counted by a callback of every turn."""
    turns = 0
    worked: list[int] = []

    def counted(_: Ask) -> Page:
        def pieces() -> Iterator[bytes]:
            for _ in range(20):
                worked.append(turns)
                yield b"x"

        return Page(pieces())

    async def test(server: HttpServer) -> None:
        server._routes["/counted"] = counted  # type: ignore[index]

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        answers = await asyncio.gather(*(get(server, "/counted") for _ in range(10)))
        assert all(status == 200 for status, _, _ in answers)

    monkeypatch.setattr("moldau.broker.server.http._BUSY_SECONDS_MAX", 0.0)  # a piece is a turn's work
    served(test)
    assert len(worked) == 200
    assert len(set(worked)) == 200
