"""What connections hold before their login is bounded in all, and takes nothing from others."""

import struct

from server_world import FakeListener, feed, start

from moldau.broker.server.connection import Connection
from moldau.broker.server.login_frames import LoginFrames
from moldau.common.core.client_state import ClientState

KB = 1024


def before_login(listener: FakeListener, frames: LoginFrames) -> Connection:
    connection, _, _, _ = start(listener)
    connection.login_frames = frames
    return connection


def half_frame(connection: Connection, sent_bytes: int) -> None:
    feed(connection, struct.pack(">i", 524_288) + b"e" * sent_bytes)


def test_half_frames_before_the_login_are_bounded_and_the_oldest_is_closed() -> None:
    listener = FakeListener(limit_bytes=8_000 * KB)
    state = ClientState(16_000 * KB, listener.clock)
    frames = LoginFrames(state.logins)
    connections = [before_login(listener, frames) for _ in range(200)]
    for connection in connections:
        half_frame(connection, 200 * KB)
    closed = [connection for connection in connections if connection.closed]
    assert closed == connections[: len(closed)], "the oldest"
    assert 150 < len(closed) < 200
    held_bytes = sum(len(each.own.data) for each in connections if each.own is not None)
    assert held_bytes <= state.used_bytes <= 4_000 * KB, "a quarter of the budget"
    assert listener.requests.used_bytes == 0, "large requests of others do not wait"
    assert "had not logged in" in listener.closed_for_memory[0][1]
    for connection in connections:
        connection.connection_lost(None)
    assert state.used_bytes == 0


def test_a_login_in_one_piece_is_never_refused() -> None:
    listener = FakeListener()
    state = ClientState(1_000 * KB, listener.clock)
    frames = LoginFrames(state.logins)
    for _ in range(50):
        half_frame(before_login(listener, frames), 100 * KB)
    honest = before_login(listener, frames)
    feed(honest, struct.pack(">i", 100 * KB) + b"e" * (60 * KB))
    feed(honest, b"e" * (40 * KB))
    assert not honest.closed
    assert honest.own is None
