"""Two ends of a TLS connection without sockets: a wire in memory, steps of handshakes that a test takes."""

import ssl
from collections.abc import Callable

from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.credentials.tls.handshakes import HandshakeStep
from moldau.common.credentials.tls.stream import TlsStream


class HandSteps:
    """Takes the steps of handshakes when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[HandshakeStep] = []

    def take_step(self, step: HandshakeStep) -> None:
        self.waiting.append(step)

    def run(self) -> int:
        steps, self.waiting = self.waiting, []
        for step in steps:
            step.compute()
        for step in steps:
            step.computed()
        return len(steps)


class Wire:
    """A stream's transport: what is written waits in `sent` until the test carries it on."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.reading = True
        self.closed = False
        self.aborted = False
        self.full = False
        self.high_bytes = self.low_bytes = 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("10.0.0.9", 5000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self.high_bytes, self.low_bytes = high, low

    def write(self, data: bytes) -> None:
        self.sent += data

    def writelines(self, parts: list[bytes]) -> None:
        for part in parts:
            self.write(part)

    def get_write_buffer_size(self) -> int:
        return len(self.sent) if self.full else 0

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class Application:
    """Keeps what it is told; its buffer has any size."""

    def __init__(self, buffer_bytes: int = 4096) -> None:
        self.got = bytearray()
        self.calls: list[str] = []
        self.transport: TlsStream | None = None
        self.buffer = bytearray(buffer_bytes)
        self.on_data: Callable[[], None] = lambda: None

    def connection_made(self, transport: TlsStream) -> None:
        self.transport = transport
        self.calls.append("made")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.got += self.buffer[:nbytes]
        self.on_data()

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return False

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


class Watched:
    """The handshakes' ends."""

    def __init__(self) -> None:
        self.secured_count = 0
        self.failures: list[Exception] = []
        self.foreign_bytes = b""

    def secured(self, stream: TlsStream) -> None:
        self.secured_count += 1

    def failed(self, stream: TlsStream, error: Exception) -> None:
        self.failures.append(error)

    def foreign(self, stream: TlsStream, first_bytes: bytes) -> bytes:
        self.foreign_bytes = first_bytes
        return b"no TLS"


class End:
    """One end: application, stream, wire."""

    def __init__(
        self, context: ssl.SSLContext, *, is_server: bool, host: str = "localhost", buffer_bytes: int = 4096
    ) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.steps = HandSteps()
        self.watched = Watched()
        self.wire = Wire()
        self.application = Application(buffer_bytes)
        self.stream = TlsStream(
            self.application,  # type: ignore[arg-type]
            context,
            handshakes=self.steps,  # type: ignore[arg-type]
            timers=self.timers,
            timeout_ms=30_000,
            watcher=self.watched,
            server_hostname=None if is_server else host,
            is_server=is_server,
        )
        self.stream.connection_made(self.wire)  # type: ignore[arg-type]

    def receive(self, data: bytes) -> None:
        """Bytes come from the wire, if it is read."""
        assert self.wire.reading or not data
        at = 0
        while at < len(data):
            view = self.stream.get_buffer(-1)
            piece = data[at : at + len(view)]
            view[: len(piece)] = piece
            self.stream.buffer_updated(len(piece))
            at += len(piece)

    def take(self) -> bytes:
        """What this end has sent."""
        sent, self.wire.sent = bytes(self.wire.sent), bytearray()
        return sent


def carry(one: End, other: End, piece_bytes: int = 1 << 30) -> None:
    """Steps are taken and bytes carried both ways, in pieces, until nothing moves."""
    moved = True
    while moved:
        moved = bool(one.steps.run() + other.steps.run())
        for source, target in ((one, other), (other, one)):
            data = source.take()
            for at in range(0, len(data), piece_bytes):
                target.receive(data[at : at + piece_bytes])
                target.steps.run()
            moved = moved or bool(data)
        for end in (one, other):
            end.timers.advance(0)


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, buffer_bytes: int = 4096) -> tuple[End, End]:
    """A server and a client after their handshake."""
    ends = (
        End(server, is_server=True, buffer_bytes=buffer_bytes),
        End(client, is_server=False, buffer_bytes=buffer_bytes),
    )
    carry(*ends)
    return ends
