"""The HTTP port with TLS and a login: what is open, what is asked for, what a browser without TLS is told."""

import asyncio
import base64
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import pytest
import uvloop

from moldau.broker.monitor.page import Ask, text_page
from moldau.broker.server.http import HttpServer
from moldau.broker.server.http_login import HttpLogins, guarded, users_of
from moldau.broker.server.http_tls import HttpTls
from moldau.broker.server.listener_tls import ListenerTls
from moldau.common.core.clock import SystemClock
from moldau.common.core.files import OsFiles
from moldau.common.core.network import SystemNetwork
from moldau.common.core.timers import LoopTimers
from moldau.common.core.workers import thread_pool
from moldau.common.credentials.certificates.authority import Authority
from moldau.common.credentials.tls.contexts import client_context
from moldau.common.credentials.tls.handshakes import Handshakes
from moldau.common.credentials.tls.options import TlsOptions
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import from_texts

ROUTES = {
    "/health": lambda ask: text_page("fine"),
    "/health/live": lambda ask: text_page("lives"),
    "/metrics": lambda ask: text_page("x" * 2_000_000),
}
NOW_MS, DAYS = 1_700_000_000_000, 20_000


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ({}, False),
        (basic("prometheus", "secret"), True),
        (basic("prometheus", "secret2"), False),
        (basic("prometheus", ""), False),
        (basic("nobody", "secret"), False),
        (basic("nobody", "nobody's password, of no length that matters"), False),
        (basic("", ""), False),
        ({"authorization": "Basic !!!"}, False),
        ({"authorization": "Basic /w=="}, False),
        ({"authorization": "Bearer t0ken"}, True),
        ({"authorization": "bearer t0ken "}, True),
        ({"authorization": "Bearer t0ken2"}, False),
        ({"authorization": "Bearer "}, False),
        ({"authorization": "Digest t0ken"}, False),
    ],
)
def test_who_is_admitted(headers: dict[str, str], admitted: bool) -> None:
    logins = HttpLogins("prometheus:secret, ops:o:ther", "t0ken")
    pages = guarded(ROUTES, lambda: logins)
    assert pages["/health"](Ask("/health", headers=headers)).status == (200 if admitted else 401)
    assert pages["/health/live"](Ask("/health/live", headers=headers)).status == 200


def test_without_a_login_every_page_is_open() -> None:
    pages = guarded(ROUTES, lambda: HttpLogins(None, None))
    assert pages["/metrics"](Ask("/metrics")).status == 200
    assert not HttpLogins("a:b", None).admits(Ask("/", headers={"authorization": "Bearer "}))
    assert not HttpLogins(None, "t").admits(Ask("/", headers=basic("", "")))


@pytest.mark.parametrize("text", ["prometheus", "a:b,c", ":x", "a:"])
def test_users_that_cannot_be_read_are_an_error_without_their_passwords(text: str) -> None:
    with pytest.raises(SettingError, match="is not name:password pairs") as raised:
        users_of(text)
    assert "prometheus" not in str(raised.value)


def read_page(port: int, path: str, context: ssl.SSLContext | None, login: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=100) as plain:
        client = plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{login}Connection: close\r\n\r\n".encode())
        page = b"".join(iter(lambda: client.recv(65536), b""))
        client.close()
        return page


def test_pages_over_tls(tmp_path: Path) -> None:
    authority = Authority.make("Test authority", NOW_MS, DAYS + 100)
    store = tmp_path / "broker.pem"
    store.write_text(authority.issue("broker", ["localhost"], NOW_MS, DAYS).keystore)
    settings = from_texts({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}).broker
    trust = TlsOptions(truststore_type="PEM", truststore_certificates=authority.certificate)

    async def get(port: int, path: str, context: ssl.SSLContext | None, login: str = "") -> bytes:
        # A blocking client: uvloop's drops what it has not given to its reader when the server closes.
        return await asyncio.to_thread(read_page, port, path, context, login)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as workers:
            tls = ListenerTls(
                "HTTP", "HTTPS", OsFiles(), lambda blocking: loop.run_in_executor(workers, blocking)
            )
            await tls.load(settings)
        secured = HttpTls(tls, Handshakes(loop, thread_pool), LoopTimers(loop))
        routes = guarded(ROUTES, lambda: HttpLogins(None, "t0ken"))
        server = HttpServer(routes, SystemClock(), perf_counter, wrap=secured.wrap)
        address = SystemNetwork(loop).listen("127.0.0.1", 0, 64)
        await server.serve(address)
        context = client_context(trust)
        try:
            async with asyncio.timeout(100):
                refused = await get(server.port, "/metrics", context)
                assert refused.startswith(b"HTTP/1.1 401")
                assert b"www-authenticate: bearer" in refused.lower()
                assert (await get(server.port, "/health/live", context)).endswith(b"lives\n")
                login = "Authorization: Bearer t0ken\r\n"
                page = await get(server.port, "/metrics", context, login)
                assert page.endswith(b"x" * 2_000_000 + b"\n"), len(page)
                assert b"this port speaks HTTPS" in await get(server.port, "/metrics", None)
                assert secured.failed_count == 1
        finally:
            await server.close()
            secured.close()

    uvloop.run(main())
