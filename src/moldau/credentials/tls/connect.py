"""A client's TLS connection on an event loop: connect, shake hands, check the server's name."""

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar

from moldau.core.network import Network
from moldau.core.timers import Timers
from moldau.credentials.tls.failures import failure_of
from moldau.credentials.tls.handshakes import Handshakes
from moldau.credentials.tls.stream import TlsStream

AnyProtocol = TypeVar("AnyProtocol", bound=asyncio.BufferedProtocol)


class TlsConnectError(ConnectionError):
    """The handshake with a server failed; the message says why."""


async def connect_tls(
    network: Network,
    host: str,
    port: int,
    make_protocol: Callable[[], AnyProtocol],
    context: ssl.SSLContext,
    *,
    handshakes: Handshakes,
    timers: Timers,
    timeout_ms: float,
    server_hostname: str | None = None,
) -> tuple[asyncio.Transport, AnyProtocol]:
    """As `network.connect`, over TLS: the protocol's connection_made is called after the handshake.
    `server_hostname` is the name in the certificate, if it is not `host`. OSError, also TlsConnectError."""
    protocol = make_protocol()
    outcome = _Outcome(asyncio.get_running_loop().create_future())

    def make_stream() -> TlsStream:
        return TlsStream(
            protocol,
            context,
            handshakes=handshakes,
            timers=timers,
            timeout_ms=timeout_ms,
            watcher=outcome,
            server_hostname=server_hostname or host,
            is_server=False,
        )

    _, stream = await network.connect(host, port, make_stream)
    try:
        await outcome.done
    except BaseException:
        stream.abort()
        raise
    return stream, protocol


class _Outcome:
    """Tells the one who waits of the handshake's end."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.done = done

    def secured(self, stream: TlsStream) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def failed(self, stream: TlsStream, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(TlsConnectError(failure_of(error).sentence))

    def foreign(self, stream: TlsStream, first_bytes: bytes) -> bytes:
        self.failed(stream, ConnectionError("it does not speak TLS"))
        return b""


__all__ = ["TlsConnectError", "connect_tls"]
