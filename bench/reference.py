"""The floor under every request: a uvloop server that answers each frame with ready-made bytes and does
nothing else.

What it costs is the kernel, the event loop and one Python call. A broker's cost a request is best read beside
it, for it moves with the machine as the broker's does.

    python -m bench.reference PORT ANSWER_HEX
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

import uvloop


class Echo(asyncio.BufferedProtocol):
    """Receives into one buffer; a request of the load generator always comes whole."""

    def __init__(self, answer: bytes) -> None:
        self._buffer = bytearray(1 << 16)
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._transport.write(self._answer)  # type: ignore[attr-defined]


async def serve(port: int, answer: bytes) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(lambda: Echo(answer), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(serve(int(sys.argv[1]), bytes.fromhex(sys.argv[2])))
