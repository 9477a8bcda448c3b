"""TLS: what holds for connections also holds for those whose handshake has not ended."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvloop
from http_service import OFFERED, ROUTES, Client, until

from moldau.services.http.application import Application
from moldau.services.http.connections import ConnectionLimits
from moldau.services.http.server import HttpServer, serving
from moldau.services.http.settings import HttpSettings, Listener
from moldau.testing.authority import Authority

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
WAIT_SECONDS = 90.0
Scene = Callable[[HttpServer, ssl.SSLContext], Awaitable[None]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=sorted(LOOPS))
def run(request: pytest.FixtureRequest, authority: Authority) -> Callable[[Scene, ConnectionLimits], None]:
    own = authority.issue("localhost")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own.certificate, own.key)
    trusting = ssl.create_default_context(cafile=str(authority.certificate))

    def run_scene(scene: Scene, limits: ConnectionLimits) -> None:
        async def main() -> None:
            application = Application(ROUTES, HttpSettings(), offered=lambda path: OFFERED)
            server = HttpServer(application, [Listener("https", "127.0.0.1", 0)], tls=tls, limits=limits)
            async with asyncio.timeout(WAIT_SECONDS), serving(server):
                await scene(server, trusting)
            assert not server.connections.open

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main())

    return run_scene


def address(server: HttpServer) -> tuple[str, int]:
    return "localhost", int(server.url.rpartition(":")[2])


@contextlib.asynccontextmanager
async def secured(server: HttpServer, context: ssl.SSLContext) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(*address(server), ssl=context)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


async def ask(server: HttpServer, context: ssl.SSLContext) -> int:
    async with secured(server, context) as client:
        return (await client.ask("GET", "/names/a"))[0]


def silent(server: HttpServer) -> socket.socket:
    """A connection that says nothing."""
    return socket.create_connection(address(server), WAIT_SECONDS)


def ended(connection: socket.socket) -> bool:
    connection.settimeout(WAIT_SECONDS)
    with contextlib.suppress(ConnectionError):
        return connection.recv(1) == b""
    return True


def test_requests_and_many_at_once(run: Callable[[Scene, ConnectionLimits], None]) -> None:
    async def scene(server: HttpServer, context: ssl.SSLContext) -> None:
        async with secured(server, context) as client:
            for _ in range(3):
                assert (await client.ask("GET", "/names/a"))[0] == 200
            assert (await client.ask("POST", "/size", b"x" * 300_000))[2] == b"300000"
        assert await asyncio.gather(*(ask(server, context) for _ in range(20))) == [200] * 20
        await until(lambda: not server.connections.open)
        assert server.connections.accepted_count == 21

    run(scene, ConnectionLimits())


def test_a_request_that_is_sent_with_the_end_of_the_handshake(
    run: Callable[[Scene, ConnectionLimits], None],
) -> None:
    """The bytes may arrive before the HTTP connection has taken over."""

    async def scene(server: HttpServer, context: ssl.SSLContext) -> None:
        def talk() -> bytes:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
            with socket.create_connection(address(server), WAIT_SECONDS) as connection:
                while True:
                    try:
                        tls.do_handshake()
                        break
                    except ssl.SSLWantReadError:
                        connection.sendall(outgoing.read())
                        incoming.write(connection.recv(65536))
                tls.write(b"GET /names/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
                connection.sendall(outgoing.read())  # the handshake's last bytes and the request, together
                while True:
                    with contextlib.suppress(ssl.SSLWantReadError):
                        return tls.read(12)
                    data = connection.recv(65536)
                    assert data
                    incoming.write(data)

        for _ in range(5):
            assert await asyncio.to_thread(talk) == b"HTTP/1.1 200"

    run(scene, ConnectionLimits())


def test_silent_connections_count_and_make_room(run: Callable[[Scene, ConnectionLimits], None]) -> None:
    async def scene(server: HttpServer, context: ssl.SSLContext) -> None:
        silent_ones = [silent(server) for _ in range(30)]
        await until(lambda: server.connections.accepted_count == 30)
        assert len(server.connections.open) == 5
        assert await ask(server, context) == 200
        for each in silent_ones[:20]:
            assert await asyncio.to_thread(ended, each)
        for each in silent_ones:
            each.close()
        await until(lambda: not server.connections.open)

    run(scene, ConnectionLimits(connections_max=5, head_seconds=WAIT_SECONDS))


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_no_handshake_no_connection(run: Callable[[Scene, ConnectionLimits], None], sent: bytes) -> None:
    """One that says nothing, one that stops within its first message, one that speaks no TLS."""

    async def scene(server: HttpServer, context: ssl.SSLContext) -> None:
        connection = silent(server)
        connection.sendall(sent)
        assert await asyncio.to_thread(ended, connection) or sent
        connection.close()
        await until(lambda: not server.connections.open)
        server.connections.limits = ConnectionLimits()  # a handshake on a busy machine may take longer
        assert await ask(server, context) == 200

    run(scene, ConnectionLimits(head_seconds=0.3))


def test_the_end_does_not_wait_for_handshakes(run: Callable[[Scene, ConnectionLimits], None]) -> None:
    left: list[socket.socket] = []

    async def scene(server: HttpServer, context: ssl.SSLContext) -> None:
        left.extend(silent(server) for _ in range(3))
        await until(lambda: len(server.connections.open) == 3)

    run(scene, ConnectionLimits(head_seconds=10 * WAIT_SECONDS))
    for each in left:
        assert ended(each)
        each.close()
