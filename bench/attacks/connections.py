"""Hostile connections: wrong lengths, unread responses, many connections, slow ones."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterator

from bench import wire
from bench.attacks import Attack, Target
from bench.client import Connection

CLAIMING = 1_500
CLAIMED_BYTES = 1 << 20
HALF_FRAMES, HALF_FRAME_BYTES = 60, 16 << 20
NEVER_READING = 20
FETCHES_EACH = 20
FETCH_BYTES = 50 << 20
STORED_BYTES = 60 << 20
IDLE = 9_000
SLOW_HTTP = 100
PIPELINING, PIPELINED = 20, 20_000
TOPIC = "attacked"


def _claim(target: Target) -> None:
    """Connections that each announce a mebibyte and send one byte of it."""
    with _opened(target, CLAIMING) as sockets:
        for one in sockets:
            one.sendall(struct.pack(">i", CLAIMED_BYTES) + b"\0")
        target.wait()


def _half_frames(target: Target) -> None:
    """Connections that each send all but the last byte of a frame of 16 MiB."""
    half = struct.pack(">i", HALF_FRAME_BYTES) + bytes(HALF_FRAME_BYTES - 1)
    with _opened(target, HALF_FRAMES) as sockets:
        for one in sockets:
            target.send_what_fits(one, half, 0.2)
        target.wait()


def _one_byte_a_time(target: Target) -> None:
    """Connections that send a frame a byte at a time, as slowly as the attack lasts."""
    request = wire.metadata(TOPIC)
    with _opened(target, 1_000) as sockets:
        position = 0
        while not target.over and position < len(request):
            for one in sockets:
                one.send(request[position : position + 1])
            position += 1
            time.sleep(0.1)


def _store(port: int) -> None:
    batch = wire.batch([random.Random(1).randbytes(1000)] * 900)
    with Connection(port) as connection:
        connection.create_topic(TOPIC)
        for _ in range(STORED_BYTES // len(batch)):
            connection.produce(TOPIC, batch)


def _never_read(target: Target) -> None:
    """Consumers that ask for 50 MiB twenty times over and read nothing."""
    fetches = wire.fetch(TOPIC, 0, FETCH_BYTES) * FETCHES_EACH
    with _opened(target, NEVER_READING, receive_buffer_bytes=4096) as sockets:
        for one in sockets:
            one.sendall(fetches)
        target.wait()


def _pipeline(target: Target) -> None:
    """Connections that send thousands of small requests and read no answer."""
    requests = wire.frame(wire.METADATA, 4, struct.pack(">ib", -1, 0)) * PIPELINED
    with _opened(target, PIPELINING, receive_buffer_bytes=4096) as sockets:
        for one in sockets:
            target.send_what_fits(one, requests, 0.2)
        target.wait()


def _idle(target: Target) -> None:
    """Connections that say nothing."""
    with _opened(target, IDLE):
        target.wait()


def _slow_http(target: Target) -> None:
    """A hundred connections to the HTTP port that never end their request, renewed when they are closed."""
    sockets: list[socket.socket] = []
    while not target.over:
        while len(sockets) < SLOW_HTTP:
            one = target.connect(target.http_port)
            with contextlib.suppress(OSError):
                one.sendall(b"GET /health HTTP/1.1\r\n")
            one.setblocking(False)
            sockets.append(one)
        for one in list(sockets):
            try:
                if not one.recv(4096):
                    raise ConnectionError("closed")
            except BlockingIOError:
                continue
            except OSError:
                target.closed += 1
                sockets.remove(one)
                one.close()
        time.sleep(0.05)
    for one in sockets:
        one.close()


@contextlib.contextmanager
def _opened(target: Target, count: int, receive_buffer_bytes: int = 0) -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            one = socket.socket()
            if receive_buffer_bytes:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            one.connect(("127.0.0.1", target.port))
            sockets.append(one)
        yield sockets
    finally:
        for one in sockets:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                try:
                    if not one.recv(1):
                        target.closed += 1
                except ConnectionError:
                    target.closed += 1
            one.close()


ATTACKS = (
    Attack("claimed-length", "frames of five bytes that claim 1 MiB, on 1,500 connections", _claim),
    Attack("half-frames", "60 connections with all but the last byte of 16 MiB", _half_frames),
    Attack("byte-by-byte", "1,000 connections that send a byte at a time", _one_byte_a_time),
    Attack(
        "never-reading", "20 consumers that ask for 50 MiB twenty times and read nothing", _never_read, _store
    ),
    Attack(
        "pipelining", "20 connections with 20,000 Metadata requests each, no answer read", _pipeline, _store
    ),
    Attack("idle", "9,000 idle connections", _idle),
    Attack(
        "slow-http",
        "100 HTTP connections that never end their request: the broker's /health meanwhile",
        _slow_http,
        kafka=False,
        probes_http=True,
    ),
)
