"""A client that does small round trips at a steady pace and notes how long each takes.

    python -m bench.good_client kafka PORT TOPIC    a record in, the same record out
    python -m bench.good_client tls PORT TOPIC CA   the same over TLS; CA: the file of the authority
    python -m bench.good_client http PORT           GET /health, each on a connection of its own

A process of its own, so that it waits for the broker only, and not for the load beside it. A round trip is
due every few milliseconds, whether the one before it has ended or not, and its wait is counted from that
moment: a standstill of five seconds counts five hundred times and not once. A failed one is tried again, and
its wait ends with the first success.

Each line on stdin begins a stretch of that name; the end of stdin ends it all, and the waits are printed as
JSON, by stretch.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench import wire
from bench.client import Connection, RequestFailed
from bench.login import Connect, connector, plain
from moldau.testing.security import Login

KAFKA_EVERY_S = 0.01
HTTP_EVERY_S = 0.2
TIMEOUT_S = 120.0
HTTP_TIMEOUT_S = 15.0
_VALUE = bytes(100)


class RoundTrip:
    """One record produced and fetched again, on one connection."""

    def __init__(self, port: int, topic: str, connect: Connect = plain) -> None:
        self._port, self._topic, self._connect = port, topic, connect
        self._request = wire.produce(topic, wire.batch([_VALUE]))
        self._connection: Connection | None = None

    def __call__(self) -> None:
        """OSError or RequestFailed on failure; the next call reconnects."""
        try:
            self._go()
        except (OSError, RequestFailed):
            if self._connection is not None:
                self._connection.socket.close()
            self._connection = None
            raise

    def _go(self) -> None:
        if self._connection is None:
            self._connection = Connection(self._port, TIMEOUT_S, self._connect)
        answer = self._connection.call(self._request)
        error, offset = struct.unpack_from(">hq", answer, wire.produce_error_at(self._topic))
        if error:
            raise RequestFailed(f"Produce: error {error}")
        answer = self._connection.call(wire.fetch(self._topic, offset, 1 << 16))
        if len(answer) <= wire.fetch_records_at(self._topic):
            raise RequestFailed("Fetch: no record")


def health(port: int) -> None:
    """GET /health as a probe does it; OSError when no 200 comes."""
    with socket.create_connection(("127.0.0.1", port), HTTP_TIMEOUT_S) as one:
        one.sendall(b"GET /health HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := one.recv(65536):
            answer += piece
    if not answer.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(f"/health: {answer[:60]!r}")


class Stretches:
    """The waits by stretch; a round trip belongs to the one in which it was due."""

    def __init__(self) -> None:
        self.begun: list[tuple[float, str]] = []
        self.waits_ms: dict[str, list[float]] = {}
        self.failed: dict[str, int] = {}
        self.ended = threading.Event()

    def read_stdin(self) -> None:
        for line in sys.stdin:
            self.begun.append((time.monotonic(), line.strip()))
        self.begun.append((time.monotonic(), ""))
        self.ended.set()

    def note(self, due: float, now: float, failed: int) -> None:
        name = next((name for began, name in reversed(self.begun) if began <= due), "")
        if name:
            self.waits_ms.setdefault(name, []).append((now - due) * 1e3)
            self.failed[name] = self.failed.get(name, 0) + failed


def run(trip: Callable[[], None], every_s: float) -> None:
    """Print "ready" after the first round trip, then keep the pace until stdin ends."""
    trip()
    print("ready", flush=True)
    stretches = Stretches()
    threading.Thread(target=stretches.read_stdin, daemon=True).start()
    due = time.monotonic()
    while not stretches.ended.is_set() or due < stretches.begun[-1][0]:
        time.sleep(max(0.0, due - time.monotonic()))
        failed = 0
        while True:
            try:
                trip()
                break
            except (OSError, RequestFailed):
                failed += 1
                if stretches.ended.is_set() and time.monotonic() > stretches.begun[-1][0] + TIMEOUT_S:
                    break
                time.sleep(every_s)
        stretches.note(due, time.monotonic(), failed)
        due += every_s
    print(json.dumps({"waits_ms": stretches.waits_ms, "failed": stretches.failed}), flush=True)


if __name__ == "__main__":
    kind, port_text, *rest = sys.argv[1:]
    if kind == "http":
        run(lambda: health(int(port_text)), HTTP_EVERY_S)
    elif kind == "tls":
        over_tls = connector(Login("SSL", Path(rest[1])))
        run(RoundTrip(int(port_text), rest[0], over_tls), KAFKA_EVERY_S)
    else:
        run(RoundTrip(int(port_text), rest[0]), KAFKA_EVERY_S)
