"""Clients that send slowly, without end, or read nothing: they cost their own connection."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from http_service import Client, client_of, service, until

from moldau.services.http.connections import ConnectionLimits, Connections
from moldau.services.http.server import HttpServer

WAIT_SECONDS = 90.0
LIMIT_SECONDS = 100.0
"""A busy event loop may swallow pytest's own timeout: a signal's exception ends the callback that it hits."""
HASTY = ConnectionLimits(head_bytes_max=2048, head_seconds=0.1, idle_seconds=0.3, send_seconds=0.2)


def run(
    talk: Callable[[HttpServer], Awaitable[None]], limits: ConnectionLimits = HASTY, **settings: Any
) -> None:
    async def main() -> None:
        async with asyncio.timeout(LIMIT_SECONDS), service(limits, **settings) as server:
            await talk(server)
            async with client_of(server) as client:  # others are still served
                assert (await client.ask("GET", "/names/a"))[0] == 200

    asyncio.run(main())


@pytest.mark.parametrize(
    "head",
    [
        b"GET /names/" + b"a" * 3000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /names/" + b"a" * 400_000,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 3000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 400_000,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 500 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"a" * 400_000,
    ],
)
def test_heads_are_bounded(head: bytes) -> None:
    async def talk(server: HttpServer) -> None:
        async with client_of(server) as client:
            client.send(head)
            try:
                status, _, body = await client.response()
            except (asyncio.IncompleteReadError, ConnectionError):
                return  # cut off while it still sent
            assert status in (400, 431)
            assert json.loads(body)["error_code"] == status
            assert await client.ended()

    run(talk, ConnectionLimits(head_bytes_max=2048))


def test_a_head_that_does_not_end() -> None:
    async def talk(server: HttpServer) -> None:
        async with client_of(server) as client:
            client.send(b"GET / HTTP/1.1\r\nHost:")
            assert (await client.response())[0] == 408
            assert await client.ended()

    run(talk)


def test_a_connection_that_says_nothing_ends() -> None:
    async def talk(server: HttpServer) -> None:
        async with client_of(server) as silent:
            assert await silent.reader.read() == b""

    run(talk)


def test_a_body_that_does_not_end() -> None:
    async def talk(server: HttpServer) -> None:
        async with client_of(server) as client:
            client.send(b"POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345")
            status, _, _ = await client.response()
            assert status == 408
            assert await client.ended()

    run(talk, idle_timeout_ms=100)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_request_gets_400(request_bytes: bytes) -> None:
    async def talk(server: HttpServer) -> None:
        async with client_of(server) as client:
            client.send(request_bytes)
            assert (await client.response())[0] == 400
            assert await client.ended()

    run(talk, ConnectionLimits())


def test_an_upgrade_is_answered_as_it_is() -> None:
    async def talk(server: HttpServer) -> None:
        async with client_of(server) as client:
            status, _, body = await client.ask("GET", "/names/a", Connection="Upgrade", Upgrade="h2c")
            assert (status, body) == (200, b'"a"')

    run(talk, ConnectionLimits())


@pytest.mark.parametrize("count", [2_000, 100_000])
def test_a_client_that_reads_nothing_is_cut_off(count: int) -> None:
    """A response of 2 MB does not vanish into the kernel's buffers, which would count it as sent."""

    async def talk(server: HttpServer) -> None:
        host, _, port = server.url.rpartition("//")[2].rpartition(":")
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
        sock.send(b"GET /many?count=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % count)
        await until(lambda: server.connections.cut_off_count > 0)
        sock.close()

    run(talk)


def test_many_connections_cost_the_idle_ones_of_the_busiest_host() -> None:
    async def talk(server: HttpServer) -> None:
        clients = [await Client.connect(server) for _ in range(4)]
        clients[0].send(b"POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n1")
        assert (await clients[1].ask("GET", "/names/a"))[0] == 200
        await until(lambda: len(server.connections.open) == 4)
        async with client_of(server) as fifth:
            assert (await fifth.ask("GET", "/names/a"))[0] == 200
            assert await clients[1].ended()  # the oldest idle one
            clients[0].send(b"2")
            assert (await clients[0].response())[2] == b"2"
        assert server.connections.evicted_count == 1
        for client in clients:
            client.writer.close()

    run(talk, ConnectionLimits(connections_max=4))


def test_pipelined_requests_are_answered_in_turn() -> None:
    async def talk(server: HttpServer) -> None:
        async with client_of(server) as client:
            client.send(b"".join(b"GET /names/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % n for n in range(50)))
            for number in range(50):
                assert (await client.response())[2] == b'"%d"' % number

    run(talk, ConnectionLimits())


class Held:
    """A place among the open connections."""

    def __init__(self, host: str, *, idle: bool = False, unfinished: bool = False) -> None:
        self.host, self.is_idle, self.is_unfinished, self.gone = host, idle, unfinished, False

    def abort(self) -> None:
        self.gone = True


def test_bodies_that_do_not_come_give_way_to_other_hosts() -> None:
    connections = Connections(ConnectionLimits(connections_max=6))
    upload = Held("b", unfinished=True)
    flood = [Held("a", unfinished=True) for _ in range(4)]
    at_work = Held("a")
    for each in (upload, *flood, at_work):
        assert connections.admit(each)
    new = [Held("c"), Held("c")]
    assert all(connections.admit(each) for each in new)
    assert [each.gone for each in flood] == [True, True, False, False]
    assert not upload.gone
    assert not at_work.gone
    idle = Held("c", idle=True)
    assert connections.admit(idle)
    assert connections.admit(Held("d"))
    assert idle.gone, "idle ones go first"


def test_when_all_are_at_work_a_new_one_is_refused() -> None:
    connections = Connections(ConnectionLimits(connections_max=2))
    assert connections.admit(Held("a"))
    assert connections.admit(Held("a"))
    assert not connections.admit(Held("b"))


def test_bodies_that_are_never_ended_do_not_lock_others_out() -> None:
    async def talk(server: HttpServer) -> None:
        clients = [await Client.connect(server) for _ in range(4)]
        for each in clients:
            each.send(b"POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n1")
        await until(lambda: sum(each.is_unfinished for each in server.connections.open) == 4)
        async with client_of(server) as fifth:
            assert (await fifth.ask("GET", "/names/a"))[0] == 200
        assert server.connections.evicted_count == 1
        assert await clients[0].ended()
        for each in clients:
            each.writer.close()

    run(talk, ConnectionLimits(connections_max=4, idle_seconds=WAIT_SECONDS))
