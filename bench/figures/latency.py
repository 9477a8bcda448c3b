"""End to end at 1,000 records of 100 bytes a second: from the producer's call to the consumer's hands.

Measured with librdkafka (linger 0, one producer, one consumer, both in one process) and with two raw sockets
(a produce request a record, a long-polling fetch), which leaves out the client library's own threads.
"""

from __future__ import annotations

import select
import struct
import time

from bench import native, wire
from bench.client import Connection, RequestFailed
from bench.figures import Figure, Row, Start, Values

RECORDS = 8_000
RATE_PER_S = 1_000
TOPIC = "latency"
SILENCE_S_MAX = 60.0


def measure(start: Start) -> Values:
    """Percentiles in milliseconds, by raw sockets and by librdkafka."""
    with start() as broker:
        with Connection(broker.port) as connection:
            connection.create_topic(TOPIC)
        raw_latencies(broker.port, RECORDS // 2)
        values = percentiles("raw", raw_latencies(broker.port, RECORDS))
        if native.available() is None:
            native.run("latency", broker.address, "warm-up", RECORDS // 2, 100, RATE_PER_S)
            found = native.run("latency", broker.address, "librdkafka", RECORDS, 100, RATE_PER_S)
            values |= {name: found[name] for name in ("p50_ms", "p99_ms", "p999_ms")}
    return values


def percentiles(prefix: str, latencies_s: list[float]) -> dict[str, float]:
    """In milliseconds, by name."""
    ordered = sorted(latencies_s)
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    return {f"{prefix}_{name}": ordered[int(len(ordered) * share)] * 1e3 for name, share in shares.items()}


def raw_latencies(port: int, count: int, topic: str = TOPIC, acks: int = 1) -> list[float]:
    """One record at a time on schedule; a fetch is always waiting at the broker. RequestFailed when a record
    is refused, or none comes for a while.
    """
    batch = wire.batch([bytes(100)])
    request = wire.produce(topic, batch, acks)
    records_at, error_at = wire.fetch_records_at(topic), wire.produce_error_at(topic)
    with Connection(port) as producer, Connection(port) as consumer:
        offset = _served_end(producer, topic)
        poller = select.poll()
        for one in (producer, consumer):
            poller.register(one.socket, select.POLLIN)
        consumer.socket.sendall(wire.fetch(topic, offset, 1 << 20))
        sent_at: dict[int, float] = {}
        latencies: list[float] = []
        next_at = last_at = time.perf_counter() + 0.01
        next_offset = position = offset
        while len(latencies) < count:
            wait_s = next_at - time.perf_counter()
            if wait_s <= 0 and next_offset < offset + count:
                sent_at[next_offset] = time.perf_counter()
                producer.socket.sendall(request)
                next_offset += 1
                next_at += 1 / RATE_PER_S
                wait_s = next_at - time.perf_counter()
            elif wait_s <= 0:  # all are sent
                wait_s = 1.0
                if time.perf_counter() > last_at + SILENCE_S_MAX:
                    raise RequestFailed(f"{count - len(latencies)} records of {topic} do not come")
            for descriptor, _ in poller.poll(max(0.0, wait_s * 1e3)):
                if descriptor == producer.socket.fileno():
                    (error,) = struct.unpack_from(">h", producer.receive(), error_at)
                    if error:
                        raise RequestFailed(f"Produce to {topic}: error {error}")
                    continue
                answer = consumer.receive()
                now = time.perf_counter()
                following = _end_of(answer, records_at)
                if following >= 0:
                    position, last_at = following, now
                for seen in [one for one in sent_at if one < following]:
                    latencies.append(now - sent_at.pop(seen))
                consumer.socket.sendall(wire.fetch(topic, position, 1 << 20))
        return latencies


def _served_end(connection: Connection, topic: str) -> int:
    """The topic's end offset; waits while the broker does not know yet that it leads it."""
    deadline = time.monotonic() + SILENCE_S_MAX
    while (offset := connection.end_offset(topic)) < 0:
        if time.monotonic() > deadline:
            raise RequestFailed(f"{topic} is not led by this broker")
        time.sleep(0.05)
    return offset


def _end_of(answer: memoryview, records_at: int) -> int:
    """The offset after the last record in an answer, or -1 when it is empty."""
    following, at = -1, records_at
    while at + 61 <= len(answer):
        base, length = struct.unpack_from(">qi", answer, at)
        (delta,) = struct.unpack_from(">i", answer, at + 23)
        following = base + delta + 1
        at += 12 + length
    return following


FIGURE = Figure(
    "latency",
    "End to end at 1,000 records a second",
    measure,
    (
        Row("raw_p50_ms", "raw sockets, median", "ms", 2, "<= 0.25"),
        Row("raw_p99_ms", "raw sockets, 99 %", "ms", 2, "<= 1"),
        Row("raw_p999_ms", "raw sockets, 99.9 %", "ms", 2),
        Row("p50_ms", "librdkafka, median", "ms", 2),
        Row("p99_ms", "librdkafka, 99 %", "ms", 2),
        Row("p999_ms", "librdkafka, 99.9 %", "ms", 2),
    ),
)
