"""TLS between a transport and a protocol: a protocol of the wire below, a transport to the application above.

    socket -> | wire buffer, shared | -> incoming BIO -> OpenSSL -> the application's buffer
    socket <- transport <- | at most two records | <- OpenSSL <- backlog of plain parts <- the application

Not asyncio's or uvloop's own TLS, because that shakes hands on the event loop (1,000 connections at once hold
it for a second), keeps 256 KiB a connection, and encrypts all that it is given at once. Here

* a handshake is computed in workers (handshakes.py). A server's connection exists for the application from
  the start, so that it is counted and limited, and gets no data before the handshake is done;
* nothing is allocated before the first bytes come: an empty connection costs what it does without TLS;
* answers are encrypted as the socket takes them, `TURN_BYTES` in a turn of the loop. What waits is the
  backlog, which `get_write_buffer_size` counts, so limits on unsent bytes hold as without TLS;
* while the application does not read, the wire is not read.

There is no renegotiation (the context forbids it). The end of the wire without close_notify is an end as any
other: frames carry their lengths. Not here: contexts (contexts.py), what failures mean (failures.py).
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Any, Protocol, cast

from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.credentials.tls.handshakes import Handshakes

Buffer = bytes | bytearray | memoryview

TURN_BYTES = 512 * 1024
_WIRE_BUFFER_BYTES = 64 * 1024
_INCOMING_BYTES = 32 * 1024  # fed to OpenSSL at once: its buffer keeps the size that it once had
_RECORD_BYTES = 16 * 1024
_RECORD_HEADER_BYTES = 5
_EARLY_BYTES_MAX = 18 * 1024
_SMALL_PART_BYTES = 4096
_WIRE_UNSENT_MAX = 128 * 1024
_DEFAULT_HIGH_BYTES = 64 * 1024
_HANDSHAKE_RECORD = 0x16

# One event loop, one thread: a read fills this buffer and is taken over before the next read begins.
_wire_view = memoryview(bytearray(_WIRE_BUFFER_BYTES))
_NOTHING = memoryview(b"")


class State(Enum):
    """Where a connection is."""

    SHAKING = "shaking hands"
    OPEN = "open"
    CLOSING = "closing: the backlog is sent, nothing is read"
    CLOSED = "closed"


class Watcher(Protocol):
    """Who is told of handshakes."""

    def secured(self, stream: "TlsStream") -> None:
        """The handshake is done; `stream.ssl_object` says with whom. It may close the stream."""

    def failed(self, stream: "TlsStream", error: Exception) -> None:
        """The handshake failed (ssl.SSLError), took too long (TimeoutError), or the other end went away
        (ConnectionError). The stream is closed after this."""

    def foreign(self, stream: "TlsStream", first_bytes: bytes) -> bytes:
        """The other end does not speak TLS; what to send before the connection is closed."""


class TlsStream(asyncio.Transport, asyncio.BufferedProtocol):
    """One connection's end."""

    __slots__ = (
        "_application",
        "_backlog",
        "_backlog_bytes",
        "_context",
        "_delivering",
        "_early",
        "_handshakes",
        "_high_bytes",
        "_incoming",
        "_is_server",
        "_low_bytes",
        "_made",
        "_outcome",
        "_outgoing",
        "_reading",
        "_sending_later",
        "_server_hostname",
        "_stepping",
        "_timeout",
        "_timeout_ms",
        "_timers",
        "_watcher",
        "_wire",
        "_wire_full",
        "_writing_paused",
        "ssl_object",
        "state",
    )

    def __init__(
        self,
        application: asyncio.BufferedProtocol,
        context: ssl.SSLContext,
        *,
        handshakes: Handshakes,
        timers: Timers,
        timeout_ms: float,
        watcher: Watcher,
        server_hostname: str | None = None,
        is_server: bool = True,
    ) -> None:
        """`application`'s connection_made is called when the wire is connected on a server, and after the
        handshake in a client."""
        super().__init__()
        self.state = State.SHAKING
        self.ssl_object: ssl.SSLObject | None = None
        self._application = application
        self._context = context
        self._handshakes = handshakes
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._watcher = watcher
        self._server_hostname = server_hostname
        self._is_server = is_server
        self._wire: asyncio.Transport | None = None
        self._incoming: ssl.MemoryBIO | None = None
        self._outgoing: ssl.MemoryBIO | None = None
        self._early = bytearray()  # came while a step is computed
        self._stepping = False
        self._outcome: Exception | None = None
        self._timeout: TimerHandle | None = None
        self._made = False  # the application knows this connection
        self._reading = True
        self._delivering = False
        self._backlog: deque[Buffer] = deque()
        self._backlog_bytes = 0
        self._wire_full = False
        self._sending_later = False
        self._writing_paused = False
        self._high_bytes = _DEFAULT_HIGH_BYTES
        self._low_bytes = _DEFAULT_HIGH_BYTES // 4

    # The wire's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)
        self._limit_wire()
        self._timeout = self._timers.call_later(self._timeout_ms, self._timed_out)
        if self._is_server:
            self._made = True
            self._application.connection_made(self)
        else:
            self._step(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        shaking, self.state = self.state is State.SHAKING, State.CLOSED
        self._stop_timeout()
        if shaking:
            self._watcher.failed(self, exc or ConnectionResetError("the connection ended in the handshake"))
        self._backlog.clear()
        self._backlog_bytes = 0
        if self._made:
            self._application.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _wire_view

    def buffer_updated(self, nbytes: int) -> None:
        if self.state is State.OPEN:
            self._deliver(_wire_view[:nbytes])
        elif self.state is State.SHAKING:
            self._shake(bytes(_wire_view[:nbytes]))

    def eof_received(self) -> bool:
        if self.state is State.OPEN:
            self._application.eof_received()
        return False

    def pause_writing(self) -> None:
        self._wire_full = True
        self._control_writing()

    def resume_writing(self) -> None:
        self._wire_full = False
        self._send()

    # The handshake

    def _shake(self, data: bytes) -> None:
        self._early += data
        if self._stepping:
            return
        if not self._reading:  # uvloop reads after connection_made, whatever that has paused
            assert self._wire is not None
            self._wire.pause_reading()
            return
        early = self._early
        if self.ssl_object is None and early[0] != _HANDSHAKE_RECORD:
            self._refuse_foreign(bytes(early))
            return
        # Bytes that come one by one would each cost a step; of a record that is too long, OpenSSL says so.
        end = _whole_records_end(early) or (len(early) if len(early) > _EARLY_BYTES_MAX else 0)
        if end:
            self._early = early[end:]
            self._step(bytes(early[:end]))

    def _refuse_foreign(self, data: bytes) -> None:
        self._stop_timeout()
        self.state = State.CLOSING
        assert self._wire is not None
        self._wire.write(self._watcher.foreign(self, data))
        self._wire.close()

    def _step(self, data: bytes) -> None:
        """Have the next step computed; until then the wire is not read, so that OpenSSL has it alone."""
        if self._incoming is None:
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._incoming.write(data)
        assert self._wire is not None
        self._stepping = True
        self._wire.pause_reading()
        self._handshakes.take_step(self)

    def compute(self) -> None:
        """One step of the handshake, in a worker."""
        if self.state is not State.SHAKING:
            return
        assert self._incoming is not None
        assert self._outgoing is not None
        try:
            if self.ssl_object is None:
                self.ssl_object = self._context.wrap_bio(
                    self._incoming,
                    self._outgoing,
                    server_side=self._is_server,
                    server_hostname=self._server_hostname,
                )
            self.ssl_object.do_handshake()
        except Exception as error:
            self._outcome = error
        else:
            self._outcome = None

    def computed(self) -> None:
        """The step is taken."""
        self._stepping = False
        outcome, self._outcome = self._outcome, None
        if self.state is not State.SHAKING:
            return
        assert self._wire is not None
        self._flush()  # also the alert of a handshake that failed
        if isinstance(outcome, ssl.SSLWantReadError):
            if self._reading:
                self._wire.resume_reading()
            if self._early:
                self._shake(b"")
        elif outcome is not None:
            self._give_up(outcome)
        else:
            self._open()

    def _open(self) -> None:
        assert self._wire is not None
        self._stop_timeout()
        self.state = State.OPEN
        self._watcher.secured(self)
        if self.state is not State.OPEN:
            return
        if not self._made:
            self._made = True
            self._application.connection_made(self)
        early, self._early = self._early, bytearray()
        if self._reading:
            self._wire.resume_reading()
        self._deliver(memoryview(early))
        self._send()

    def _timed_out(self) -> None:
        if self.state is State.SHAKING:
            self._give_up(TimeoutError(f"the handshake took more than {self._timeout_ms / 1000:g} s"))

    def _give_up(self, error: Exception) -> None:
        self._stop_timeout()
        self.state = State.CLOSING
        self._watcher.failed(self, error)
        assert self._wire is not None
        if isinstance(error, TimeoutError):
            self._wire.abort()  # it may not take what it was sent either
        else:
            self._wire.close()

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    # Reading

    def _deliver(self, data: memoryview = _NOTHING) -> None:
        """Hand over what has come before and `data`, as long as the application reads; the rest is kept. Its
        buffer is filled as far as goes: a call of it costs more than a record.
        """
        incoming, tls, application = self._incoming, self.ssl_object, self._application
        assert incoming is not None
        assert tls is not None
        if self._delivering:
            incoming.write(data)
            return
        self._delivering = True
        at, end, more = 0, len(data), True
        try:
            while more and self._reading and self.state is State.OPEN:
                if at >= end and not (incoming.pending or tls.pending()):
                    break
                buffer = cast(memoryview, application.get_buffer(-1))
                room, got = len(buffer), 0
                try:
                    while got < room:
                        if not (incoming.pending or tls.pending()):
                            if at >= end:
                                break
                            at += incoming.write(data[at : at + _INCOMING_BYTES])
                        try:
                            count = cast(int, tls.read(room - got, buffer[got:] if got else buffer))
                        except ssl.SSLWantReadError:  # a part of a record
                            if at >= end:
                                more = False
                                break
                            at += incoming.write(data[at : at + _INCOMING_BYTES])
                            continue
                        if not count:
                            raise ssl.SSLZeroReturnError
                        got += count
                except ssl.SSLError as error:
                    self._delivered(got)
                    self._ended(error)
                    return
                self._delivered(got)
            if self.state is State.OPEN:
                if at < end:
                    incoming.write(data[at:])
                self._flush()  # answers of TLS itself: new keys
        finally:
            self._delivering = False

    def _delivered(self, count: int) -> None:
        if count and self.state is State.OPEN:
            self._application.buffer_updated(count)

    def _ended(self, error: ssl.SSLError) -> None:
        """close_notify, or bytes that are no TLS."""
        if self.state is not State.OPEN:
            return
        if isinstance(error, ssl.SSLZeroReturnError):
            self._application.eof_received()
            self.close()
        else:
            self._flush()
            self.abort()

    def pause_reading(self) -> None:
        self._reading = False
        if self.state in (State.SHAKING, State.OPEN) and not self._stepping and self._wire is not None:
            self._wire.pause_reading()

    def resume_reading(self) -> None:
        if self._reading:
            return
        self._reading = True
        if self.state in (State.SHAKING, State.OPEN) and not self._stepping and self._wire is not None:
            self._wire.resume_reading()
            if not self._delivering:
                self._timers.call_later(0, self._take_kept)

    def _take_kept(self) -> None:
        """What came while the application did not read."""
        if self.state is State.OPEN:
            self._deliver()
        elif self.state is State.SHAKING and self._early and not self._stepping:
            self._shake(b"")

    def is_reading(self) -> bool:
        return self._reading

    # Writing

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if self.state not in (State.SHAKING, State.OPEN):
            return
        small: list[Buffer] = []  # parts that go into one record
        for part in list_of_data:
            size_bytes = len(part)
            self._backlog_bytes += size_bytes
            if size_bytes <= _SMALL_PART_BYTES:
                small.append(part)
                continue
            if small:
                self._backlog.append(b"".join(small))
                small = []
            self._backlog.append(part)
        if small:
            self._backlog.append(b"".join(small) if len(small) > 1 else small[0])
        if not self._sending_later:
            self._send()

    def _send(self) -> None:
        """Encrypt what the socket takes, and a turn's share at most."""
        tls, outgoing, wire = self.ssl_object, self._outgoing, self._wire
        if self.state not in (State.OPEN, State.CLOSING) or tls is None or outgoing is None or wire is None:
            return
        backlog = self._backlog
        sent_bytes = 0
        records: list[bytes] = []
        try:
            while backlog and not self._wire_full and sent_bytes < TURN_BYTES:
                part = backlog.popleft()
                size_bytes = len(part)
                if size_bytes > _RECORD_BYTES:
                    view = memoryview(part)
                    part, rest = view[:_RECORD_BYTES], view[_RECORD_BYTES:]
                    backlog.appendleft(rest)
                    size_bytes = _RECORD_BYTES
                if size_bytes:
                    tls.write(part)
                    records.append(outgoing.read())
                sent_bytes += size_bytes
                self._backlog_bytes -= size_bytes
                if len(records) >= 4:
                    wire.writelines(records)
                    records = []
            if records:
                wire.writelines(records)
        except ssl.SSLError:
            self.abort()
            return
        if backlog and not self._wire_full and not self._sending_later:
            self._sending_later = True
            self._timers.call_later(0, self._send_later)
        self._control_writing()
        if not backlog and self.state is State.CLOSING:
            self._say_goodbye()

    def _send_later(self) -> None:
        self._sending_later = False
        self._send()

    def _flush(self) -> None:
        """Send what OpenSSL has to say by itself."""
        if self._outgoing is not None and self._outgoing.pending and self._wire is not None:
            self._wire.write(self._outgoing.read())

    def _control_writing(self) -> None:
        if self.state is not State.OPEN:
            return
        if self._wire is None:
            return
        # What the wire holds within its limit does not count: no call says when it has gone. More than that,
        # and the wire not full: it has not tried to send it yet, which it does in this turn of the loop.
        wire_bytes = self._wire.get_write_buffer_size()
        untried = not self._wire_full and wire_bytes > min(self._high_bytes, _WIRE_UNSENT_MAX)
        size_bytes = self._backlog_bytes + (wire_bytes if self._wire_full or untried else 0)
        if untried and not self._sending_later:
            self._sending_later = True
            self._timers.call_later(0, self._send_later)
        if not self._writing_paused and size_bytes > self._high_bytes:
            self._writing_paused = True
            self._application.pause_writing()
        elif self._writing_paused and size_bytes <= self._low_bytes:
            self._writing_paused = False
            self._application.resume_writing()

    def get_write_buffer_size(self) -> int:
        wire_bytes = 0 if self._wire is None else self._wire.get_write_buffer_size()
        return self._backlog_bytes + wire_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = _DEFAULT_HIGH_BYTES if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low
        self._limit_wire()

    def _limit_wire(self) -> None:
        """The wire is full no later than the application is to pause, and goes on no earlier than that is to:
        so its calls are enough to know when."""
        if self._wire is not None:
            high_bytes = min(self._high_bytes, _WIRE_UNSENT_MAX)
            self._wire.set_write_buffer_limits(high=high_bytes, low=min(self._low_bytes, high_bytes))

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def can_write_eof(self) -> bool:
        return False

    # The end

    def close(self) -> None:
        """Send the backlog and close_notify, then close the wire."""
        if self.state is State.SHAKING:
            self._stop_timeout()
            self.state = State.CLOSED
            if self._wire is not None:
                self._wire.close()
        elif self.state is State.OPEN:
            self.state = State.CLOSING
            if not self._backlog:
                self._say_goodbye()

    def _say_goodbye(self) -> None:
        self.state = State.CLOSED
        assert self.ssl_object is not None
        assert self._wire is not None
        with contextlib.suppress(ssl.SSLError):  # the other end's close_notify is not waited for
            self.ssl_object.unwrap()
        self._flush()
        self._wire.close()

    def abort(self) -> None:
        self._stop_timeout()
        self.state = State.CLOSED
        self._backlog.clear()
        self._backlog_bytes = 0
        if self._wire is not None:
            self._wire.abort()

    def is_closing(self) -> bool:
        return self.state in (State.CLOSING, State.CLOSED)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self.ssl_object
        return default if self._wire is None else self._wire.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._application

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._application = cast(asyncio.BufferedProtocol, protocol)


def _whole_records_end(data: bytearray) -> int:
    """Where the last record ends that has come whole: | type 1 | version 2 | length 2 | length bytes | ..."""
    end = 0
    while len(data) >= end + _RECORD_HEADER_BYTES:
        after = end + _RECORD_HEADER_BYTES + int.from_bytes(data[end + 3 : end + 5], "big")
        if after > len(data):
            break
        end = after
    return end
