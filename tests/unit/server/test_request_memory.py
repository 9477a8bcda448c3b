"""One limit for the request bytes of all connections: who waits, who goes on, who is closed."""

import random
import struct

import pytest
from kept import kept
from server_world import FakeListener, FakeTransport, Script, feed, framed, start

from moldau.broker.server import frame_buffer
from moldau.broker.server.connection import Connection

MB = 1_000_000
World = tuple[Connection, FakeTransport, Script, FakeListener]


def half_frame(size_bytes: int, sent_bytes: int) -> bytes:
    return struct.pack(">i", size_bytes) + b"e" * sent_bytes


def feed_while_read(world: World, data: bytes) -> bytes:
    """Give the connection what it reads; what is left when it stops to."""
    connection, transport, _, listener = world
    while data and transport.reading and not connection.closed:
        count = min(len(data), 50_000)
        feed(connection, data[:count])
        data = data[count:]
        listener.timers.advance(0)  # the next turn of the loop
    return data


@pytest.mark.parametrize("seed", range(20))
def test_half_frames_that_fill_the_limit_together_all_end(seed: int) -> None:
    rng = random.Random(seed)
    listener = FakeListener(limit_bytes=2 * MB)
    worlds = [start(listener) for _ in range(12)]
    frames = [
        [b"e" + bytes([number]) * rng.choice([10, 60_000, 300_000, 900_000, 3 * MB]) for _ in range(3)]
        for number in range(len(worlds))
    ]
    left = [framed(*each) for each in frames]
    kept_bytes = len(worlds) * 256 * 1024  # at most so much came before a connection was not read any more
    while any(left):
        able = [at for at, data in enumerate(left) if data and worlds[at][1].reading]
        assert able, f"seed {seed}: nobody can go on"
        at = rng.choice(able)
        count = rng.choice([1, 5_000, 100_000, 400_000])
        rest = feed_while_read(worlds[at], left[at][:count])
        left[at] = rest + left[at][count:]
        assert listener.requests.used_bytes <= 2 * MB + 3 * MB + kept_bytes, f"seed {seed}"
    for world, wanted in zip(worlds, frames, strict=True):
        assert world[2].seen == wanted
        assert world[0].own is None
    assert listener.requests.used_bytes == 0
    assert listener.requests.waiting_count == 0
    assert not listener.closed_for_memory


def test_who_began_first_goes_on_first() -> None:
    listener = FakeListener(limit_bytes=MB)
    worlds = [start(listener) for _ in range(4)]
    for world in worlds:
        feed_while_read(world, half_frame(2 * MB, MB))
    assert listener.requests.waiting_count == 3
    assert [each[1].reading for each in worlds] == [True, False, False, False]
    for world in worlds:
        assert world[1].reading
        feed_while_read(world, b"e" * (2 * MB + 4 - world[0].received_bytes))
        assert len(world[2].seen) == 1
    assert listener.requests.used_bytes == 0


def test_a_small_frame_never_waits() -> None:
    listener = FakeListener(limit_bytes=MB)
    holder, waiting, good = (start(listener) for _ in range(3))
    feed_while_read(holder, half_frame(5 * MB, 2 * MB))
    feed_while_read(waiting, half_frame(5 * MB, 2 * MB))
    assert not waiting[1].reading
    assert feed_while_read(good, framed(b"e" * 60_000)) == b""
    assert len(good[2].seen) == 1


def test_a_client_that_stalls_while_others_wait_is_closed_and_they_go_on() -> None:
    listener = FakeListener(limit_bytes=MB)
    stalled, waiting = start(listener), start(listener)
    feed_while_read(stalled, half_frame(2 * MB, MB))
    listener.timers.advance(60_000)
    assert not stalled[0].closed  # nobody waits: it may be as slow as it likes
    rest = feed_while_read(waiting, framed(b"e" * MB))
    assert rest
    listener.timers.advance(1_999)
    assert not stalled[0].closed
    listener.timers.advance(1)
    assert stalled[0].closed
    (closed,) = listener.closed_for_memory
    assert closed[0] is stalled[0]
    assert "made no progress for 2 s, with 1,000,004 bytes" in closed[1]
    assert "queued.max.request.bytes=1000000" in closed[1]
    listener.timers.advance(1)
    assert stalled[1].aborted
    assert feed_while_read(waiting, rest) == b""
    assert len(waiting[2].seen) == 1
    stalled[0].connection_lost(None)
    assert listener.requests.used_bytes == 0


def test_a_byte_now_and_then_is_no_progress_and_a_slow_client_that_goes_on_is_not_closed() -> None:
    listener = FakeListener(limit_bytes=MB)
    slow, dribbling, waiting = start(listener), start(listener), start(listener)
    feed_while_read(slow, half_frame(90 * MB, 100_000))
    feed_while_read(dribbling, half_frame(MB, 100_000))
    feed_while_read(waiting, framed(b"e" * MB))
    assert not waiting[1].reading
    for _ in range(4):
        feed_while_read(slow, b"e" * 16_384)
        feed_while_read(dribbling, b"e")
        listener.timers.advance(500)
    assert dribbling[0].closed
    assert not slow[0].closed


def test_frames_behind_a_blocked_one_count_and_do_not_stop_the_oldest_that_is_received() -> None:
    listener = FakeListener(limit_bytes=300_000)
    blocked = [start(listener) for _ in range(3)]
    for world in blocked:
        feed(world[0], framed(b"b") + framed(b"e" * 150_000)[:140_000])
        assert not world[1].reading
    assert listener.requests.used_bytes == 3 * (140_000)
    good = start(listener)
    assert feed_while_read(good, framed(b"e" * MB)) == b""
    other, third = start(listener), start(listener)
    feed_while_read(other, half_frame(MB, 500_000))
    feed_while_read(third, half_frame(MB, 500_000))
    assert (other[1].reading, third[1].reading) == (True, False)
    for _ in range(59):
        feed_while_read(other, b"e" * 5_000)  # too little, but it is the oldest and sends
        listener.timers.advance(500)
    closed = [each for each, _ in listener.closed_for_memory]
    assert other[0] in closed
    assert not any(world[0] in closed for world in blocked)
    assert third[1].reading


def test_the_answer_to_a_blocked_frame_lets_the_kept_frames_go_on_and_frees_them() -> None:
    listener = FakeListener(limit_bytes=300_000)
    world = start(listener)
    frames = framed(b"b", b"e" * 200_000, b"e2")
    feed(world[0], frames)
    assert listener.requests.used_bytes == len(frames) - 5
    world[2].slots[0][1].fill(b"1")
    assert len(world[2].seen) == 3
    assert listener.requests.used_bytes == 0
    assert world[1].reading


def test_a_lost_holder_and_a_lost_waiter_leave_nothing_behind() -> None:
    listener = FakeListener(limit_bytes=MB)
    holder, waiting, next_one = (start(listener) for _ in range(3))
    feed_while_read(holder, half_frame(2 * MB, MB))
    for world in (waiting, next_one):
        feed_while_read(world, half_frame(2 * MB, MB))
        assert not world[1].reading
    waiting[0].connection_lost(None)
    assert not next_one[1].reading
    holder[0].connection_lost(None)
    assert next_one[1].reading
    next_one[0].connection_lost(None)
    assert listener.requests.used_bytes == 0
    assert not listener.requests.depleted_within(0)


def test_a_large_request_counts_until_it_is_answered() -> None:
    listener = FakeListener(limit_bytes=MB)
    asking, waiting, third = (start(listener) for _ in range(3))
    feed_while_read(asking, framed(b"b" * 900_000))
    assert listener.requests.used_bytes == 900_000
    feed_while_read(third, half_frame(900_000, 200_000))  # the oldest frame that is received goes on
    rest = feed_while_read(waiting, framed(b"e" * 900_000))
    assert rest
    third[0].connection_lost(None)
    assert waiting[1].reading
    asking[2].slots[0][1].fill(b"done")
    assert feed_while_read(waiting, rest) == b""
    assert listener.requests.used_bytes == 0


def test_a_request_whose_client_is_gone_counts_as_long_as_it_is_worked_on() -> None:
    connection, _, script, listener = start(FakeListener(limit_bytes=MB))
    feed(connection, framed(b"b" * 200_000))
    connection.connection_lost(None)
    assert listener.requests.used_bytes == 200_000
    script.slots[0][1].fill(b"nobody reads this")
    assert listener.requests.used_bytes == 0


def test_waiting_is_told_to_monitoring() -> None:
    listener = FakeListener(limit_bytes=MB)
    holder, waiting = start(listener), start(listener)
    feed_while_read(holder, half_frame(2 * MB, 1_500_000))
    assert not listener.requests.depleted_within(60_000)
    feed_while_read(waiting, half_frame(2 * MB, MB))
    listener.timers.advance(300)
    assert listener.requests.depleted_ms == 300
    assert listener.requests.depleted_within(0)
    holder[0].connection_lost(None)
    listener.timers.advance(1_000)
    assert listener.requests.depleted_ms == 300
    assert listener.requests.depleted_within(60_000)
    assert not listener.requests.depleted_within(1_000)


def test_no_limit() -> None:
    listener = FakeListener(limit_bytes=-1)
    for _ in range(5):
        assert feed_while_read(start(listener), half_frame(20 * MB, 5 * MB)) == b""


def test_announced_bytes_take_no_buffer_of_bulk_producers_and_those_get_theirs_at_once() -> None:
    listener = FakeListener()
    frame_buffer._pool.clear()
    empty = kept(frame_buffer)
    bulk = start(listener)
    feed(bulk[0], framed(b"e" * MB))
    assert kept(frame_buffer) == empty + 1
    claiming = [start(listener) for _ in range(20)]
    for world in claiming:
        feed(world[0], half_frame(MB, 1))
        assert world[0].own is not None
        assert len(world[0].own.data) == 4096
    assert kept(frame_buffer) == empty + 1
    feed(bulk[0], half_frame(MB, 1))
    assert bulk[0].own is not None
    assert len(bulk[0].own.data) == 2 * 1024 * 1024
    assert kept(frame_buffer) == empty
    feed(bulk[0], b"e" * (MB - 1))
    assert kept(frame_buffer) == empty + 1


def test_a_client_that_sends_a_byte_now_and_then_counts_as_idle() -> None:
    connection, _, _, listener = start()
    feed(connection, half_frame(1000, 1))
    listener.tick = 50
    feed(connection, b"e")
    assert connection.idle_tick == 0
    feed(connection, b"e" * 998)
    assert connection.idle_tick == 50
