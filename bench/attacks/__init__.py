"""What a hostile client may do to a broker with few bytes or many rows, each bounded in time: the rows of
`bench/figures/hostile.py`.

An attack prepares what it needs (not measured) and strikes until its time is up, at least once. Everything is
built from ready-made bytes on plain sockets, so that the attacker costs the machine little: what others wait
for is the broker.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

STRIKE_S = 5.0
ANSWER_TIMEOUT_S = 150.0


@dataclass(frozen=True, slots=True)
class Attack:
    """One row of the table: how to prepare it and how to strike."""

    name: str
    title: str
    strike: Callable[[Target], object]
    prepare: Callable[[int], None] | None = None  # given the broker's port
    kafka: bool = True  # whether it makes sense against Apache Kafka
    probes_http: bool = False  # the longest wait of a health probe is measured, too
    settings: Mapping[str, str] = field(default_factory=dict)


class Target:
    """The broker under attack, and what became of the requests."""

    def __init__(self, port: int, http_port: int, seconds: float = STRIKE_S) -> None:
        self.port = port
        self.http_port = http_port
        self.answered = 0
        self.answered_bytes = 0
        self.closed = 0
        self._ends = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        """Whether the time of the attack is up."""
        return time.monotonic() >= self._ends

    def wait(self) -> None:
        """Hold what is held until the time is up."""
        time.sleep(max(0.0, self._ends - time.monotonic()))

    def connect(self, port: int | None = None) -> socket.socket:
        """One more connection."""
        return socket.create_connection(("127.0.0.1", port or self.port), ANSWER_TIMEOUT_S)

    def ask(self, request: bytes) -> bool:
        """Send a request on a connection of its own and read its answer away; False when it was closed."""
        with self.connect() as one:
            try:
                one.sendall(request)
                self.read_answer(one)
            except ConnectionError:
                self.closed += 1
                return False
        return True

    def read_answer(self, one: socket.socket) -> None:
        """Read one answer away; ConnectionError when the connection ends first."""
        buffer = bytearray(1 << 20)
        head = b""
        while len(head) < 4:
            piece = one.recv(4 - len(head))
            if not piece:
                raise ConnectionError("closed")
            head += piece
        (left,) = struct.unpack(">i", head)
        self.answered_bytes += left + 4
        while left:
            count = one.recv_into(buffer, min(left, len(buffer)))
            if not count:
                raise ConnectionError("closed")
            left -= count
        self.answered += 1

    def repeat(self, request: bytes) -> None:
        """Ask the same until the time is up, at least once, on one connection after the other."""
        self.ask(request)
        while not self.over:
            self.ask(request)

    def ask_at_once(self, request: bytes, connections: int) -> None:
        """The same request on so many connections at the same time; waits for all answers."""
        sockets = [self.connect() for _ in range(connections)]
        for one in sockets:
            self.send_what_fits(one, request)
        for one in sockets:
            try:
                self.read_answer(one)
            except (ConnectionError, TimeoutError):
                self.closed += 1
            one.close()

    def send_what_fits(self, one: socket.socket, data: bytes, timeout_s: float = 2.0) -> int:
        """Send as much as the broker takes within the time; the count of bytes. A close is counted."""
        one.setblocking(False)
        view, sent, ends = memoryview(data), 0, time.monotonic() + timeout_s
        try:
            while sent < len(data) and time.monotonic() < ends:
                if select.select([], [one], [], max(0.0, ends - time.monotonic()))[1]:
                    sent += one.send(view[sent : sent + (1 << 18)])
        except ConnectionError:
            self.closed += 1
        finally:
            one.setblocking(True)
            one.settimeout(ANSWER_TIMEOUT_S)
        return sent


def all_attacks() -> list[Attack]:
    """In the order of the table."""
    from bench.attacks import connections, records, rows

    return [*records.ATTACKS, *connections.ATTACKS, *rows.ATTACKS]
