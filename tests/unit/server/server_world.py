"""A connection's world without sockets: a transport that remembers, a listener with memory limits, a script
of answers.
"""

import struct

from moldau.broker.handlers.parts.broker import ResponseRoom
from moldau.broker.handlers.parts.exchange import Slot
from moldau.broker.server.commit_backlog import CommitBacklog
from moldau.broker.server.connection import Connection
from moldau.broker.server.interfaces import Parts, PeerError
from moldau.broker.server.login_counts import LoginCounts
from moldau.broker.server.request_memory import RequestMemory
from moldau.broker.server.response_memory import ResponseMemory
from moldau.broker.server.turns import Turns
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers


class FakeTransport:
    def __init__(self) -> None:
        self.sent = bytearray()
        self.reading = True
        self.closed = False
        self.connection: Connection | None = None
        self.aborted = False
        self.full_after_bytes: int | None = None
        self.unsent_bytes = 0  # set by tests whose client does not read

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 5000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None:
        self.sent += data
        if self.full_after_bytes is not None and len(self.sent) >= self.full_after_bytes:
            assert self.connection is not None
            self.connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def writelines(self, parts: list[bytes]) -> None:
        for part in parts:
            self.write(part)

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class FakeListener:
    name, security_protocol = "PLAINTEXT", "PLAINTEXT"
    accepted_count = 0
    tick = 0
    frame_bytes_max = 100_000_000
    login_frames = None

    def __init__(self, limit_bytes: int = -1) -> None:
        self.failed_logins: list[str] = []
        self.logins = LoginCounts()
        self.failures: list[str] = []
        self.closed_for_memory: list[tuple[Connection, str]] = []
        self.gone = 0
        self.muted: dict[Connection, None] = {}
        self.delayed: dict[Connection, object] = {}
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.room = ResponseRoom()
        self.requests = RequestMemory(limit_bytes, self.timers, self.clock)
        self.backlog = CommitBacklog(self.clock.monotonic_ms)
        self.seconds = 0.0
        self.seconds_a_look = 0.0  # how far the clock has moved each time a connection looks at it
        self.turns = Turns(self.timers, self._now_seconds)
        self.responses = ResponseMemory(limit_bytes, self.room, self.timers, self.clock)

    def _now_seconds(self) -> float:
        self.seconds += self.seconds_a_look
        return self.seconds

    def admit(self, connection: Connection) -> bool:
        return True

    def forget(self, connection: Connection) -> None:
        self.gone += 1

    def held_too_long(self, connection: Connection, sentence: str) -> None:
        self.closed_for_memory.append((connection, sentence))

    def login_failed(self, connection: Connection, reason: str) -> None:
        self.failed_logins.append(reason)

    def peer_failed(self, connection: Connection, kind: str, sentence: str) -> None:
        self.failures.append(sentence)


class Script:
    """Answers by the first byte: e echo, p park, b park and block, n block and fill, else a PeerError."""

    takes_empty_frames = False

    def __init__(self) -> None:
        self.slots: list[tuple[bytes, Slot]] = []
        self.seen: list[bytes] = []
        self.foreign_bytes = b""

    def request(self, connection: Connection, view: memoryview, position: int, end: int) -> Parts | None:
        content = bytes(view[position + 4 : end])
        self.seen.append(content)
        match content[:1]:
            case b"e":
                return content
            case b"p" | b"b":
                self.slots.append((content, connection.park(blocking=content[:1] == b"b")))
                return None
            case b"n":
                connection.park(blocking=True).fill([content[:1], content[1:]])
                return None
        raise PeerError("nonsense", repr(content))

    def other_protocol(self, connection: Connection, first_bytes: bytes) -> None:
        self.foreign_bytes = first_bytes
        connection.close()


def start(
    listener: FakeListener | None = None,
) -> tuple[Connection, FakeTransport, Script, FakeListener]:
    """A new connection; of `listener` if several share one."""
    script, listener, transport = Script(), listener or FakeListener(), FakeTransport()
    connection = Connection(listener, script)  # type: ignore[arg-type]
    transport.connection = connection
    connection.transport = transport  # type: ignore[assignment]
    return connection, transport, script, listener


def feed(connection: Connection, data: bytes) -> None:
    while data:
        buffer = connection.get_buffer(-1)
        count = min(len(buffer), len(data))
        assert count > 0
        buffer[:count] = data[:count]
        connection.buffer_updated(count)
        data = data[count:]


def framed(*contents: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(content)) + content for content in contents)
