"""TLS for the HTTP port: the same stream as on Kafka's listeners, below asyncio's reader and writer."""

import asyncio

from moldau.broker.server.listener_tls import ListenerTls
from moldau.common.core.timers import Timers
from moldau.common.credentials.tls.handshakes import Handshakes
from moldau.common.credentials.tls.stream import TlsStream

_BUFFER_BYTES = 16 * 1024
_HANDSHAKE_MS = 5_000
_NO_TLS = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 31\r\nConnection: close\r\n\r\n"
    b"this port speaks HTTPS: use it\n"
)

# One event loop, one thread: it is filled and copied in one call.
_view = memoryview(bytearray(_BUFFER_BYTES))


class HttpTls:
    """Wraps the connections of the HTTP port."""

    def __init__(self, tls: ListenerTls, handshakes: Handshakes, timers: Timers) -> None:
        self.tls = tls
        self.failed_count = 0
        self._handshakes = handshakes
        self._timers = timers

    def wrap(self, protocol: asyncio.Protocol) -> TlsStream:
        """A new connection's protocol for the socket, with this one above it."""
        return TlsStream(
            _Received(protocol),
            self.tls.context,
            handshakes=self._handshakes,
            timers=self._timers,
            timeout_ms=_HANDSHAKE_MS,
            watcher=self,
        )

    def close(self) -> None:
        """No more handshakes."""
        self._handshakes.close()

    def secured(self, stream: TlsStream) -> None:
        """A certificate that the client shows names nobody here."""

    def failed(self, stream: TlsStream, error: Exception) -> None:
        """Counted only: who looks for open ports is no news."""
        self.failed_count += 1

    def foreign(self, stream: TlsStream, first_bytes: bytes) -> bytes:
        """A browser is told; others are not."""
        self.failed_count += 1
        return _NO_TLS if first_bytes[:4] in (b"GET ", b"HEAD") else b""


class _Received(asyncio.BufferedProtocol):
    """A protocol that is given its data, above a transport that asks for a buffer."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _view

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(_view[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
