"""One GET request to a broker's port for health and metrics."""

from __future__ import annotations

import asyncio

from sim_client import Disconnected, SimClient


class _Get(asyncio.Protocol):
    """Sends the request, and keeps what comes until the other side ends."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.received = bytearray()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        request = f"GET {self._path} HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n"
        transport.write(request.encode())  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def get(client: SimClient, host: str, port: int, path: str) -> tuple[int, bytes]:
    """The status and the body. Disconnected when nothing whole comes."""
    try:
        _, protocol = await client.network.connect(host, port, lambda: _Get(path))
    except OSError as error:
        raise Disconnected(str(error)) from error
    await protocol.ended
    head, found, body = bytes(protocol.received).partition(b"\r\n\r\n")
    if not found:
        raise Disconnected("the answer broke off")
    return int(head.split()[1]), body
