"""One limit for the answers that clients do not take: smaller answers, and the slowest are closed."""

import pytest
from server_world import FakeListener, FakeTransport, Script, feed, framed, start

from moldau.broker.server.connection import Connection
from moldau.broker.server.response_memory import FETCH_BYTES_MAX, FETCH_BYTES_MIN

MB = 1_000_000
World = tuple[Connection, FakeTransport, Script, FakeListener]


def unread(world: World, size_bytes: int) -> None:
    """The client reads no more: so many bytes lie in the transport."""
    world[1].unsent_bytes = size_bytes
    world[0].pause_writing()


def take(world: World, size_bytes: int) -> None:
    """The client reads some."""
    world[1].unsent_bytes -= size_bytes
    if world[1].unsent_bytes <= 16 * 1024:
        world[0].resume_writing()


def test_the_more_is_unsent_the_less_a_fetch_gets_and_reading_gives_it_back() -> None:
    listener = FakeListener(limit_bytes=100 * MB)
    assert listener.room.fetch_bytes == FETCH_BYTES_MAX
    worlds = [start(listener) for _ in range(6)]
    rooms = []
    for world in worlds:
        unread(world, 9 * MB)
        rooms.append(listener.room.fetch_bytes)
    assert rooms == [FETCH_BYTES_MAX, 8 * MB, 5_750_000, 3_500_000, 1_250_000, FETCH_BYTES_MIN]
    for world in worlds:
        take(world, 9 * MB)
    assert listener.room.fetch_bytes == FETCH_BYTES_MAX
    assert listener.responses.used_bytes == 0


def test_at_the_limit_the_slowest_are_closed_and_who_reads_is_not() -> None:
    listener = FakeListener(limit_bytes=10 * MB)
    reading, idle, other = (start(listener) for _ in range(3))
    unread(reading, 4 * MB)
    listener.timers.advance(1)
    unread(idle, 4 * MB)
    listener.timers.advance(1_500)
    take(reading, 3 * MB)
    unread(other, 6 * MB)
    (closed,) = listener.closed_for_memory
    assert closed[0] is idle[0]
    assert "it has not taken 4,000,000 bytes of answers (0 bytes in 1.5 s)" in closed[1]
    assert "moldau.queued.max.response.bytes=10000000" in closed[1]
    assert listener.responses.used_bytes == 7 * MB
    listener.timers.advance(1)
    assert idle[1].aborted
    idle[0].connection_lost(None)
    assert listener.responses.used_bytes == 7 * MB


def test_a_connection_that_has_only_begun_is_not_judged_by_its_rate() -> None:
    listener = FakeListener(limit_bytes=10 * MB)
    small, large, last = (start(listener) for _ in range(3))
    unread(small, MB)
    unread(large, 8 * MB)
    unread(last, 2 * MB)
    assert [each for each, _ in listener.closed_for_memory] == [large[0]]


def test_who_takes_nothing_for_ten_seconds_is_closed_above_half_the_limit_only() -> None:
    listener = FakeListener(limit_bytes=10 * MB)
    idle, slow = start(listener), start(listener)
    unread(idle, 4 * MB)
    listener.timers.advance(600_000)
    assert not listener.closed_for_memory
    unread(slow, 4 * MB)
    assert listener.responses.full_within(0)
    for _ in range(20):
        take(slow, 20_000)
        listener.timers.advance(500)
    assert [each for each, _ in listener.closed_for_memory] == [idle[0]]
    assert not listener.responses.full_within(0)
    assert listener.responses.full_within(60_000)
    listener.timers.advance(600_000)
    assert not slow[0].closed


def test_answers_parked_behind_an_unfinished_one_count_and_hold_the_next_frames_back() -> None:
    connection, transport, script, listener = start(FakeListener(limit_bytes=100 * MB))
    feed(connection, framed(b"p0", *[b"e" * 30_000] * 7))
    assert len(script.seen) == 4  # 90 kB are parked
    assert listener.responses.used_bytes == 90_000
    script.slots[0][1].fill(b"0")
    assert len(script.seen) == 8
    assert transport.sent == b"0" + b"e" * 7 * 30_000
    assert listener.responses.used_bytes == 0


def test_a_large_late_answer_behind_an_unfinished_one_counts() -> None:
    connection, transport, script, listener = start(FakeListener(limit_bytes=100 * MB))
    feed(connection, framed(b"p0", b"b1", b"e2"))
    script.slots[1][1].fill([b"1" * 50_000, memoryview(b"1" * 50_000)])
    assert listener.responses.used_bytes == 100_000
    assert len(script.seen) == 2
    script.slots[0][1].fill(b"0")
    assert transport.sent == b"0" + b"1" * 100_000 + b"e2"
    assert listener.responses.used_bytes == 0


def test_a_lost_connection_leaves_nothing_behind() -> None:
    listener = FakeListener(limit_bytes=100 * MB)
    one, two = start(listener), start(listener)
    feed(one[0], framed(b"p0", b"e" * 100_000))
    unread(two, 5 * MB)
    assert listener.responses.used_bytes == 5 * MB + 100_000
    one[0].connection_lost(None)
    two[0].connection_lost(None)
    assert listener.responses.used_bytes == 0
    assert listener.responses.connection_count == 0


@pytest.mark.parametrize("limit_bytes", [-1, 0])
def test_no_limit(limit_bytes: int) -> None:
    listener = FakeListener(limit_bytes=limit_bytes)
    for _ in range(10):
        unread(start(listener), 500 * MB)
    assert not listener.closed_for_memory
    assert listener.room.fetch_bytes == FETCH_BYTES_MAX
