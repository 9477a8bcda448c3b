"""A service of a few routes on a free port, and plain bytes to it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.services.http.answers import json_answer, json_list_answer, live_answer
from moldau.services.http.application import Application, path_value
from moldau.services.http.bodies import pieces, read_bytes, read_json
from moldau.services.http.connections import ConnectionLimits
from moldau.services.http.problems import HttpProblem
from moldau.services.http.server import HttpServer, serving
from moldau.services.http.settings import HttpSettings, Listener

OFFERED = ("application/vnd.example.v1+json", "application/json")


async def _echo(request: Request) -> Response:
    return json_answer(request, await read_json(request))


async def _size(request: Request) -> Response:
    return json_answer(request, len(await read_bytes(request)))


async def _name(request: Request) -> Response:
    return json_answer(request, path_value(request, "name"))


async def _refuse(request: Request) -> Response:
    raise HttpProblem(40401, "there is no such thing")


async def _fail(request: Request) -> Response:
    raise RuntimeError("a bug")


async def _many(request: Request) -> Response:
    return json_list_answer(request, ("x" * 1000 for _ in range(int(request.query_params["count"]))))


async def _answer_each(request: Request) -> Response:
    async def answers() -> AsyncIterator[bytes]:
        async for piece in pieces(request):
            yield b"<" + piece + b">"

    return live_answer(answers(), "text/plain")


ROUTES = [
    Route("/echo", _echo, methods=["POST"]),
    Route("/size", _size, methods=["POST"]),
    Route("/names/{name}", _name),
    Route("/refused", _refuse),
    Route("/failed", _fail),
    Route("/many", _many),
    Route("/each", _answer_each, methods=["POST"]),
]


@contextlib.asynccontextmanager
async def service(limits: ConnectionLimits | None = None, **settings: Any) -> AsyncIterator[HttpServer]:
    application = Application(ROUTES, HttpSettings(**settings), offered=lambda path: OFFERED)
    server = HttpServer(application, [Listener("http", "127.0.0.1", 0)], limits=limits)
    async with serving(server):
        yield server


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the service does by itself."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


class Client:
    """A connection that sends bytes and reads responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, server: HttpServer) -> "Client":
        host, _, port = server.url.rpartition("//")[2].rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, body of the next response."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            return int(first.split()[1]), headers, await self._chunks()
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(first.split()[1]), headers, body

    async def chunk(self) -> bytes:
        size = int(await self.reader.readline(), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data

    async def _chunks(self) -> bytes:
        parts = []
        while part := await self.chunk():
            parts.append(part)
        return b"".join(parts)

    async def ended(self) -> bool:
        """Whether the server ends the connection (what it still sends is dropped)."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass
        return True

    async def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        return await self.response()


@contextlib.asynccontextmanager
async def client_of(server: HttpServer) -> AsyncIterator[Client]:
    client = await Client.connect(server)
    try:
        yield client
    finally:
        client.writer.close()
