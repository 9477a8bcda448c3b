"""A connection against a fake transport: order, blocking, back-pressure, cut frames."""

import random
import struct
from collections.abc import Callable

import pytest
from server_world import FakeListener, Script, feed, framed, start

from moldau.broker.handlers.parts import exchange
from moldau.broker.server import holds
from moldau.broker.server.connection import Connection, Parts


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
    connection, _, _, listener = start()
    sent = 14
    feed(connection, struct.pack(">i", 90_000_000) + b"e" * 10)
    assert connection.own is not None
    assert len(connection.own.data) <= 4096
    while sent < 90_000_000:
        count = min(sent, 90_000_004 - sent)
        feed(connection, b"e" * count)
        sent += count
        held = 0 if connection.own is None else connection.own.limit
        assert held <= max(4096, 4 * sent)
        assert listener.requests.used_bytes == (held if held > 64 * 1024 else 0)
    assert sent == 90_000_004
    assert connection.own is None


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


def test_many_small_requests_at_once_take_turns_and_none_is_lost() -> None:
    listener = FakeListener()
    listener.seconds_a_look = 0.0001
    many = framed(*[b"e%d" % i for i in range(1000)])
    worlds = [start(listener) for _ in range(3)]
    for connection, transport, script, _ in worlds:
        feed(connection, many)
        assert 5 < len(script.seen) < 20
        assert not transport.reading
    counts = [len(script.seen) for _, _, script, _ in worlds]
    turns = 0
    while not all(transport.reading for _, transport, _, _ in worlds):
        listener.turns._next()  # one turn of the loop
        turns += 1
        now_counts = [len(script.seen) for _, _, script, _ in worlds]
        assert sum(after != before for after, before in zip(now_counts, counts, strict=True)) == 1
        counts = now_counts
        assert turns < 1000
    for _, transport, _, _ in worlds:
        assert transport.sent == b"".join(b"e%d" % i for i in range(1000))


def test_an_answer_that_comes_meanwhile_does_not_cut_a_waiting_turn_short() -> None:
    connection, transport, script, listener = start()
    listener.seconds_a_look = 1.0
    feed(connection, framed(b"p0", *[b"e%d" % i for i in range(10)]))
    seen = len(script.seen)
    script.slots[0][1].fill(b"p0")
    assert len(script.seen) == seen
    connection.pause_writing()
    connection.resume_writing()
    assert len(script.seen) == seen
    while not transport.reading:
        listener.turns._next()
    assert transport.sent == b"p0" + b"".join(b"e%d" % i for i in range(10))


def test_a_connection_that_ends_while_it_waits_for_its_turn_handles_nothing_more() -> None:
    connection, _, script, listener = start()
    listener.seconds_a_look = 1.0
    feed(connection, framed(*[b"e%d" % i for i in range(10)]))
    seen = len(script.seen)
    connection.connection_lost(None)
    listener.turns._next()
    assert len(script.seen) == seen < 10


@pytest.mark.parametrize("chunk_bytes", [70_000, 262_144, 3_000_000])
def test_large_frames_are_whole_however_they_come(chunk_bytes: int) -> None:
    rng = random.Random(chunk_bytes)
    sizes = [5_000_000, 2 * 1024 * 1024 - 4, 2 * 1024 * 1024 - 3, 12, 40_000_000, 300_000]
    contents = [b"e" + rng.randbytes(size) for size in sizes]
    connection, transport, script, listener = start()
    data = framed(*contents)
    for at in range(0, len(data), chunk_bytes):
        feed(connection, data[at : at + chunk_bytes])
    assert script.seen == contents
    assert transport.sent == b"".join(contents)
    assert connection.own is None
    assert listener.requests.used_bytes == 0


def test_a_large_frame_may_be_kept_for_longer_than_its_call() -> None:
    kept: list[memoryview | bytes] = []

    class Keeping(Script):
        def request(self, connection: Connection, view: memoryview, position: int, end: int) -> Parts | None:
            kept.append(exchange.kept(view[position + 4 : end]))
            return None

    connection, _, _, _ = start()
    connection.dispatcher = Keeping()
    contents = [b"1" * 5_000_000, b"2" * 1_000_000, b"3" * 5_000_000, b"4" * 10]
    feed(connection, framed(*contents))
    assert [bytes(each) for each in kept] == contents
    assert [type(each) for each in kept] == [memoryview, bytes, memoryview, bytes]


def test_a_muted_connection_is_answered_and_handles_nothing_more_until_its_time_is_over() -> None:
    connection, transport, script, listener = start()
    feed(connection, framed(b"p1"))
    connection.mute(1000)
    connection.mute(3000)  # by another quota: the longer time counts
    feed(connection, framed(b"e2", b"e3"))
    assert script.seen == [b"p1"]
    assert not transport.reading
    script.slots[0][1].fill(b"one")
    assert bytes(transport.sent) == b"one"
    listener.timers.advance(2999)
    assert script.seen == [b"p1"]
    listener.timers.advance(1)
    assert script.seen == [b"p1", b"e2", b"e3"]
    assert bytes(transport.sent) == b"onee2e3"
    assert transport.reading
    assert connection.session.mutes == 0


def test_a_muted_connection_that_ends_stays_ended() -> None:
    connection, transport, script, listener = start()
    connection.mute(1000)
    feed(connection, framed(b"e1"))
    connection.connection_lost(None)
    listener.timers.advance(1000)
    assert not script.seen
    assert not transport.sent


def test_a_muted_connection_that_ends_leaves_no_timer() -> None:
    connection, _, _, listener = start()
    connection.mute(1e9)
    connection.mute(1e9)
    connection.connection_lost(None)
    assert not listener.muted
    assert not connection.mute_timers
    listener.timers.advance(10**9)
    connection.mute(1000)  # a handler that ends after its client
    assert not listener.muted


def test_a_connection_is_unmuted_at_once_when_its_quota_is_gone() -> None:
    connection, transport, script, listener = start()
    connection.mute(1e9)
    feed(connection, framed(b"e1", b"e2"))
    assert script.seen == []
    connection.unmute()
    assert script.seen == [b"e1", b"e2"]
    assert transport.reading
    connection.mute(1000)
    feed(connection, framed(b"e3"))
    listener.timers.advance(999)
    assert script.seen == [b"e1", b"e2"]
    listener.timers.advance(1)
    assert script.seen == [b"e1", b"e2", b"e3"]


def test_a_muted_connection_holds_no_memory_of_the_request_that_was_answered() -> None:
    connection, _, script, listener = start()
    feed(connection, framed(b"b" + bytes(1_000_000)))
    connection.mute(1000)
    assert listener.requests.used_bytes > 0
    script.slots[0][1].fill(b"done")
    assert listener.requests.used_bytes == 0
    assert connection.held


def test_large_frames_of_many_connections_are_read_one_a_turn() -> None:
    listener = FakeListener()
    worlds = [start(listener) for _ in range(5)]
    content = b"e" * 10_000_000
    frame = framed(content)
    for connection, transport, _, _ in worlds:
        feed(connection, frame[:1_500_000])
        assert not transport.reading
    turns = 0
    while not all(script.seen for _, _, script, _ in worlds):
        listener.turns._next()
        turns += 1
        able = [each for each in worlds if each[1].reading and not each[2].seen]
        assert len(able) <= 1
        for connection, _, _, _ in able:
            buffer = connection.get_buffer(-1)
            assert len(buffer) <= 512 * 1024
            buffer[:] = b"e" * len(buffer)
            connection.buffer_updated(len(buffer))
        assert turns < 1000
    assert [script.seen for _, _, script, _ in worlds] == [[content]] * 5


@pytest.mark.parametrize("bit", [holds.UNREAD, holds.CLOSED, holds.MUTED])
def test_what_becomes_of_a_connection_while_its_memory_goes_to_another_holds(bit: int) -> None:
    connection, _, script, listener = start()
    feed(connection, framed(b"b" + bytes(1_000_000)))
    happens = {
        holds.UNREAD: connection.pause_writing,
        holds.CLOSED: connection.close,
        holds.MUTED: lambda: connection.mute(1000),
    }
    free = listener.requests.end_handling

    def other_goes_on(size_bytes: int) -> None:
        free(size_bytes)
        happens[bit]()  # as its request may do, with a response to this connection, say

    listener.requests.end_handling = other_goes_on  # type: ignore[method-assign]
    script.slots[0][1].fill(b"done")
    assert connection.held == bit


def test_a_quota_that_goes_while_its_memory_goes_to_another_does_not_mute_for_ever() -> None:
    connection, _, script, listener = start()
    feed(connection, framed(b"b" + bytes(1_000_000)))
    connection.mute(1000)
    free = listener.requests.end_handling

    def other_goes_on(size_bytes: int) -> None:
        free(size_bytes)
        connection.unmute()

    listener.requests.end_handling = other_goes_on  # type: ignore[method-assign]
    script.slots[0][1].fill(b"done")
    assert not connection.held
    feed(connection, framed(b"e1"))
    assert script.seen[-1] == b"e1"
