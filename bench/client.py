"""A blocking connection for the parts of a measurement that are not timed: make topics, fill logs, ask for
the end.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping

from bench import wire
from bench.login import Connect, plain


class RequestFailed(Exception):
    """The broker answered with an error code."""


class Connection:
    """One socket to the broker on loopback."""

    def __init__(self, port: int, timeout_s: float = 60.0, connect: Connect = plain) -> None:
        self.socket = connect(port, timeout_s)
        self._buffer = bytearray(1 << 20)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, request: bytes) -> memoryview:
        """Send a request; the answer with its length in front, valid until the next call."""
        self.socket.sendall(request)
        return self.receive()

    def receive(self) -> memoryview:
        """The next answer with its length in front, valid until the next call."""
        self._fill(0, 4)
        (size,) = struct.unpack_from(">i", self._buffer)
        if size + 4 > len(self._buffer):
            self._buffer = bytearray(self._buffer[:4]) + bytearray(size)
        self._fill(4, size + 4)
        return memoryview(self._buffer)[: size + 4]

    def _fill(self, start: int, end: int) -> None:
        view = memoryview(self._buffer)
        while start < end:
            count = self.socket.recv_into(view[start:end])
            if not count:
                raise ConnectionError("the broker closed the connection")
            start += count

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic and wait until it can be written."""
        answer = self.call(wire.create_topic(topic, partitions, configs))
        (error,) = struct.unpack_from(">h", answer, 4 + 4 + 4 + 4 + 2 + len(topic))
        if error not in (0, 36):
            raise RequestFailed(f"CreateTopics: error {error}")
        deadline = time.monotonic() + 60
        while self.end_offset(topic) < 0:
            if time.monotonic() > deadline:
                raise RequestFailed(f"{topic} has no leader")
            time.sleep(0.02)

    def produce(self, topic: str, records: bytes) -> None:
        """Write a batch and check that it was taken."""
        answer = self.call(wire.produce(topic, records))
        (error,) = struct.unpack_from(">h", answer, wire.produce_error_at(topic))
        if error:
            raise RequestFailed(f"Produce: error {error}")

    def end_offset(self, topic: str) -> int:
        """The log end offset of partition 0, or -1 while the partition is not served."""
        answer = self.call(wire.latest_offset(topic))
        at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
        error, _, offset = struct.unpack_from(">hqq", answer, at)
        return -1 if error else int(offset)
