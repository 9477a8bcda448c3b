"""Writes that go to the primary: as they came, once."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from moldau.services.http.application import Application
from moldau.services.http.assembly import server_of
from moldau.services.http.server import HttpServer, serving
from moldau.services.http.settings import Listener
from moldau.services.registry.forwarding import Forwarder
from moldau.services.registry.problems import RegistryProblem
from moldau.services.registry.settings import RegistrySettings
from moldau.testing.authority import Authority

HERE = Listener("http", "127.0.0.1", 0)


async def _tell(request: Request) -> Response:
    headers = {
        name: request.headers.get(name) for name in ("authorization", "accept", "x-forward", "x-other")
    }
    path = f"{request.method} {request.scope['raw_path'].decode()}?{request.url.query}"
    return PlainTextResponse(f"{path} {headers} {(await request.body()).decode()}", 409)


def through(talk: Callable[[str], Awaitable[Any]], url: str | None = None, **settings: Any) -> Any:
    """What a conversation gives with an instance that forwards to one that tells what it got."""
    forwarder = Forwarder(RegistrySettings(**settings))

    async def run() -> Any:
        primary = HttpServer(
            Application([Route("/{all:path}", _tell, methods=["POST", "DELETE"])], RegistrySettings()), [HERE]
        )
        async with serving(primary):

            async def forward(request: Request) -> Response:
                return await forwarder(url or primary.url, request, await request.body())

            def translate(failure: Exception) -> Any:
                from moldau.services.http.problems import HttpProblem

                return (
                    HttpProblem(failure.error_code, failure.message)
                    if isinstance(failure, RegistryProblem)
                    else None
                )

            routes = [Route("/{all:path}", forward, methods=["POST", "DELETE"])]
            instance = HttpServer(Application(routes, RegistrySettings(), translate=translate), [HERE])
            async with serving(instance):
                return await talk(instance.url)

    return asyncio.run(run())


def test_a_request_arrives_as_it_came() -> None:
    async def talk(url: str) -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            response = await client.post(
                f"{url}/subjects/a%2Fb/versions?normalize=true",
                content=b'{"schema":"x"}',
                headers={"Authorization": "Basic YTpi", "Accept": "application/json", "X-Other": "1"},
            )
        assert response.status_code == 409
        assert response.text == (
            "POST /subjects/a%2Fb/versions?normalize=true {'authorization': 'Basic YTpi', "
            "'accept': 'application/json', 'x-forward': 'true', 'x-other': None} {\"schema\":\"x\"}"
        )
        assert response.headers["content-type"].startswith("text/plain")

    through(talk)


def test_instances_speak_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("localhost")
    settings = RegistrySettings(
        listeners=("https://localhost:0",),
        ssl_keystore_type="PEM",
        ssl_keystore_location=str(own.store),
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(authority.certificate),
    )

    async def run(forwarder: Forwarder) -> Response:
        routes = [Route("/{all:path}", _tell, methods=["POST", "DELETE"])]
        async with serving(server_of(Application(routes, settings), settings, 8081)) as primary:
            scope = {"type": "http", "method": "DELETE", "path": "/s", "query_string": b"", "headers": []}
            return await forwarder(primary.url, Request(scope), b"")

    assert asyncio.run(run(Forwarder(settings))).status_code == 409
    with pytest.raises(RegistryProblem, match="certificate"):  # who trusts others only
        asyncio.run(run(Forwarder(RegistrySettings())))


def test_a_forwarded_request_is_not_forwarded_again() -> None:
    async def talk(url: str) -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            response = await client.delete(f"{url}/subjects/s", headers={"X-Forward": "true"})
        assert (response.status_code, response.json()["error_code"]) == (500, 50004)

    through(talk)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://127.0.0.1:1"])
def test_a_primary_that_is_gone(url: str) -> None:
    async def talk(own: str) -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            response = await client.delete(f"{own}/subjects/s")
        assert (response.status_code, response.json()["error_code"]) == (500, 50003)
        assert url in response.json()["message"]

    through(talk, url)


@pytest.mark.parametrize(
    "sent", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"]
)
def test_a_primary_that_answers_nonsense(sent: bytes) -> None:
    async def run() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(sent)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
        with pytest.raises(RegistryProblem) as problem:
            await Forwarder(RegistrySettings())(f"http://127.0.0.1:{port}", Request(scope), b"")
        assert problem.value.error_code == 50003
        server.close()

    asyncio.run(run())


def test_a_primary_that_does_not_answer() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
        forwarder = Forwarder(RegistrySettings(leader_read_timeout_ms=50))
        with pytest.raises(RegistryProblem, match="did not answer in time"):
            await forwarder(f"http://127.0.0.1:{port}", Request(scope), b"")
        server.close()

    asyncio.run(run())
