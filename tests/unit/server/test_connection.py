"""A connection against a fake transport: order, blocking, back-pressure, cut frames."""

import random
import struct
from collections.abc import Callable

import pytest

from moldau.server.connection import Connection, Parts, PeerError, Slot


class FakeTransport:
    def __init__(self) -> None:
        self.sent = bytearray()
        self.reading = True
        self.closed = False
        self.connection: Connection | None = None
        self.full_after_bytes: int | None = None

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 5000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None:
        self.sent += data
        if self.full_after_bytes is not None and len(self.sent) >= self.full_after_bytes:
            assert self.connection is not None
            self.connection.pause_writing()

    def writelines(self, parts: list[bytes]) -> None:
        for part in parts:
            self.write(part)

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closed = True


class FakeListener:
    tick = 0
    frame_bytes_max = 100_000_000

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.gone = 0

    def admit(self, connection: Connection) -> bool:
        return True

    def forget(self, connection: Connection) -> None:
        self.gone += 1

    def peer_failed(self, connection: Connection, kind: str, sentence: str) -> None:
        self.failures.append(sentence)


class Script:
    """Answers by the first byte: e echo, p park, b park and block, n block and fill, else a PeerError."""

    def __init__(self) -> None:
        self.slots: list[tuple[bytes, Slot]] = []
        self.seen: list[bytes] = []
        self.foreign_bytes = b""

    def frame(self, connection: Connection, view: memoryview) -> Parts | None:
        content = bytes(view)
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

    def foreign(self, connection: Connection, first_bytes: bytes) -> None:
        self.foreign_bytes = first_bytes
        connection.close()


def start() -> tuple[Connection, FakeTransport, Script, FakeListener]:
    script, listener, transport = Script(), FakeListener(), FakeTransport()
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


@pytest.mark.parametrize("seed", range(30))
def test_frames_do_not_depend_on_how_the_bytes_were_cut(seed: int) -> None:
    rng = random.Random(seed)
    contents = [b"e" + rng.randbytes(rng.choice([0, 1, 7, 300, 70_000, 300_000])) for _ in range(12)]
    connection, transport, script, _ = start()
    data = framed(*contents)
    while data:
        count = rng.choice([1, 2, 3, 5, 50, 4_000, 100_000, 500_000])
        feed(connection, data[:count])
        data = data[count:]
    assert script.seen == contents
    assert transport.sent == b"".join(contents)
    assert connection.own is None  # an idle connection owns no buffer


def test_answers_leave_in_the_order_of_the_requests() -> None:
    connection, transport, script, _ = start()
    feed(connection, framed(b"p1", b"e2", b"p3", b"e4"))
    (_, one), (_, three) = script.slots
    three.fill(b"3")
    assert transport.sent == b""
    one.fill(b"1")
    assert transport.sent == b"1e23e4"


def test_a_blocking_answer_holds_the_next_frames_back_and_stops_reading() -> None:
    connection, transport, script, _ = start()
    feed(connection, framed(b"p0", b"b1", b"e2", b"b3", b"e4"))
    assert script.seen == [b"p0", b"b1"]
    assert not transport.reading
    script.slots[1][1].fill(
        b"1"
    )  # the blocking one is done: the next frame's turn, but no answer overtakes p0
    assert script.seen == [b"p0", b"b1", b"e2", b"b3"]
    assert transport.sent == b""
    script.slots[0][1].fill(b"0")
    assert transport.sent == b"01e2"
    script.slots[2][1].fill(None)
    assert transport.sent == b"01e2e4"
    assert transport.reading


def test_a_slot_that_is_filled_at_once_does_not_nest() -> None:
    connection, transport, script, _ = start()
    feed(connection, framed(*[b"n%d" % i for i in range(3000)]))
    assert len(script.seen) == 3000
    assert transport.sent == b"".join(b"n%d" % i for i in range(3000))


def test_a_client_that_does_not_read_gets_no_further_answers() -> None:
    connection, transport, script, _ = start()
    transport.full_after_bytes = 4
    feed(connection, framed(b"e1", b"e2", b"e3", b"e4"))
    assert script.seen == [b"e1", b"e2"]
    assert not transport.reading
    transport.full_after_bytes = None
    connection.resume_writing()
    assert transport.sent == b"e1e2e3e4"
    assert transport.reading


def test_a_length_that_claims_much_costs_only_what_came() -> None:
    connection, _, _, _ = start()
    feed(connection, struct.pack(">i", 90_000_000) + b"e" * 10)
    assert connection.own is not None
    assert len(connection.own) <= 2 * 1024 * 1024  # of which only what was received is touched
    feed(connection, b"e" * 3_000_000)
    assert len(connection.own) <= 8 * 1024 * 1024


@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\n", struct.pack(">i", -1), struct.pack(">i", 0), b"\x16\x03\x01\x02\x00"]
)
def test_bytes_that_are_no_frame_are_named_and_the_connection_ends(head: bytes) -> None:
    connection, transport, script, _ = start()
    feed(connection, framed(b"e1") + head)
    assert transport.sent == b"e1"
    assert script.foreign_bytes.startswith(head[:4])
    assert transport.closed
    assert connection.own is None


def test_a_broken_peer_loses_its_connection_and_nothing_else_is_read() -> None:
    connection, transport, script, listener = start()
    feed(connection, framed(b"e1", b"x", b"e2"))
    assert transport.closed
    assert len(listener.failures) == 1
    assert script.seen == [b"e1", b"x"]


def test_who_waits_for_a_lost_connection_is_told() -> None:
    connection, transport, _, listener = start()
    told: list[str] = []
    on_lost: Callable[[], None] = lambda: told.append("lost")  # noqa: E731
    slot = connection.park(blocking=True, on_lost=on_lost)
    connection.connection_lost(None)
    slot.fill(b"too late")
    assert told == ["lost"]
    assert transport.sent == b""
    assert listener.gone == 1


def test_many_parked_answers_hold_the_next_frames_back() -> None:
    connection, transport, script, _ = start()
    feed(connection, framed(*[b"p%d" % i for i in range(1000)]))
    assert len(script.seen) < 1000
    while script.slots:
        content, slot = script.slots.pop(0)
        slot.fill(content)
    assert len(script.seen) == 1000
    assert transport.sent == b"".join(b"p%d" % i for i in range(1000))


def test_frames_behind_many_parked_answers_are_moved_now_and_then_and_not_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved: list[int] = []
    keep = Connection._keep

    def counted(self: Connection, rest: memoryview) -> None:
        moved.append(len(rest))
        keep(self, rest)

    monkeypatch.setattr(Connection, "_keep", counted)
    connection, _, script, _ = start()
    feed(connection, framed(*[b"p%d" % i for i in range(2000)]))
    while script.slots:
        script.slots.pop(0)[1].fill(b"done")
    assert len(script.seen) == 2000
    assert len(moved) < 20
