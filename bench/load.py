"""Load generators of one thread on raw sockets; they cost the machine little, and count instead of timing.

closed_loop     so many connections, each with one small request in flight
closed_loop_tls the same over TLS
stream_batches  one connection, ready-made produce requests of about a mebibyte, a few in flight
stream_fetches  one connection, fetches one after the other from an offset on
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench import wire
from bench.client import Connection, RequestFailed
from bench.login import Connect, plain


@dataclass(frozen=True, slots=True)
class Load:
    """What was done: requests (or fetches), payload bytes, and how long it took."""

    requests: int
    payload_bytes: int
    seconds: float


def closed_loop(port: int, topic: str, request: bytes, connections: int, seconds: float) -> Load:
    """Send the same produce request over and over; every answer is checked for its error code."""
    return closed_loop_over({port: request}, topic, connections, seconds)


def closed_loop_over(requests: Mapping[int, bytes], topic: str, connections: int, seconds: float) -> Load:
    """As `closed_loop`, to several brokers: to each port its own request, and so many connections to each."""
    size, error_at = wire.produce_response_bytes(topic), wire.produce_error_at(topic)
    poller = select.epoll()
    sockets = {}
    for port, request in requests.items():
        for _ in range(connections):
            one = socket.create_connection(("127.0.0.1", port), 30)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.setblocking(False)
            poller.register(one.fileno(), select.EPOLLIN)
            sockets[one.fileno()] = one, request
    began = time.monotonic()
    ends = began + seconds
    for one, request in sockets.values():
        one.send(request)
    in_flight, done, sending = len(sockets), 0, True
    while in_flight:
        if sending and time.monotonic() > ends:
            sending = False
        for descriptor, _ in poller.poll(30):
            one, request = sockets[descriptor]
            answer = one.recv(65536)
            # An answer is smaller than a segment and comes whole; anything else is the broker's error.
            if len(answer) != size or answer[error_at : error_at + 2] != b"\0\0":
                raise RequestFailed(f"unexpected answer to Produce: {answer[:60].hex()}")
            done += 1
            if sending:
                one.send(request)
            else:
                in_flight -= 1
    took = time.monotonic() - began
    for one, _ in sockets.values():
        one.close()
    return Load(done, 0, took)


def closed_loop_tls(
    port: int,
    topic: str,
    request: bytes,
    connections: int,
    seconds: float,
    connect: Connect,
    begin: Callable[[], None] = lambda: None,
) -> Load:
    """As `closed_loop`, over connections of another kind. An answer may come in several TLS records.

    Handshakes, logins and the first request of each connection do not count: `begin` is called after them.
    """
    size, error_at = wire.produce_response_bytes(topic), wire.produce_error_at(topic)
    poller = select.epoll()
    sockets, answers = {}, {}
    for _ in range(connections):
        one = connect(port, 30)
        one.setblocking(False)
        poller.register(one.fileno(), select.EPOLLIN)
        sockets[one.fileno()], answers[one.fileno()] = one, b""
    began, ends = 0.0, float("inf")
    for one in sockets.values():
        one.send(request)
    in_flight, done, sending = len(sockets), -connections, True
    while in_flight:
        if sending and time.monotonic() > ends:
            sending = False
        for descriptor, _ in poller.poll(30):
            one, answer = sockets[descriptor], answers[descriptor]
            try:
                while len(answer) < size:
                    piece = one.recv(65536)
                    if not piece:
                        raise RequestFailed("the broker closed a connection")
                    answer += piece
            except (ssl.SSLWantReadError, BlockingIOError):
                answers[descriptor] = answer
                continue
            answers[descriptor] = b""
            if len(answer) != size or answer[error_at : error_at + 2] != b"\0\0":
                raise RequestFailed(f"unexpected answer to Produce: {answer[:60].hex()}")
            done += 1
            if done == 0:
                began = time.monotonic()
                ends = began + seconds
                begin()
            if sending:
                one.send(request)
            else:
                in_flight -= 1
    took = time.monotonic() - began
    for one in sockets.values():
        one.close()
    return Load(done, 0, took)


def stream_batches(
    port: int, topic: str, batch: bytes, total_bytes: int, in_flight_max: int = 4, connect: Connect = plain
) -> Load:
    """Produce the same batch until so many bytes are written."""
    request = wire.produce(topic, batch)
    count = max(1, total_bytes // len(batch))
    error_at = wire.produce_error_at(topic)
    with Connection(port, connect=connect) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        began = time.monotonic()
        sent = answered = 0
        while answered < count:
            while sent < count and sent - answered < in_flight_max:
                connection.socket.sendall(request)
                sent += 1
            answer = connection.receive()
            if answer[error_at] or answer[error_at + 1]:
                raise RequestFailed(f"Produce: {bytes(answer).hex()}")
            answered += 1
        return Load(count, count * len(batch), time.monotonic() - began)


def stream_fetches(
    port: int,
    topic: str,
    first_offset: int,
    total_bytes: int,
    max_bytes: int = 1 << 20,
    connect: Connect = plain,
) -> Load:
    """Fetch from an offset on, reading each answer's last batch header to know the next offset."""
    records_at = wire.fetch_records_at(topic)
    requests = got = 0
    offset = first_offset
    with Connection(port, connect=connect) as connection:
        began = time.monotonic()
        while got < total_bytes:
            answer = connection.call(wire.fetch(topic, offset, max_bytes))
            records = answer[records_at:]
            if not len(records):
                break
            offset = _next_offset(records)
            got += len(records)
            requests += 1
        return Load(requests, got, time.monotonic() - began)


def _next_offset(records: memoryview) -> int:
    """The offset after the last whole batch."""
    at, following = 0, -1
    while at + 61 <= len(records):
        base, length = struct.unpack_from(">qi", records, at)
        if at + 12 + length > len(records):
            break
        (delta,) = struct.unpack_from(">i", records, at + 23)
        following = base + delta + 1
        at += 12 + length
    if following < 0:
        raise RequestFailed("an answer to Fetch without a whole batch")
    return following
