"""10,000 partitions open in one broker: memory for each, after they were made and after each was written to.

Also what a produce request costs when it goes to one of 10,000 partitions in turn instead of to one and the
same.
"""

from __future__ import annotations

import struct
import time

from bench import wire
from bench.client import Connection, RequestFailed
from bench.figures import Figure, Row, Start, Values
from bench.proc import open_files

TOPICS = 10
PARTITIONS = 1000


def measure(start: Start) -> Values:
    """Bytes a partition, seconds to make them, and CPU a request spread over all."""
    with start() as broker:
        with Connection(broker.port, 300) as connection:
            connection.create_topic("warm-up")
            connection.produce("warm-up", wire.batch([bytes(100)]))
            time.sleep(1)
            empty = broker.resident_bytes()
            began = time.monotonic()
            for number in range(TOPICS):
                connection.create_topic(f"many-{number}", PARTITIONS)
            _write_everywhere(connection, count=1)  # waits until the last partition is led
            made_s = time.monotonic() - began
            made = broker.resident_bytes()
            _write_everywhere(connection)
            written = broker.resident_bytes()
            before = broker.cpu()
            _write_everywhere(connection)
            used = broker.cpu() - before
        total = TOPICS * PARTITIONS
        return {
            "made_kb_each": (made - empty) / total / 1e3,
            "written_kb_each": (written - empty) / total / 1e3,
            "make_ms_each": made_s / total * 1e3,
            "request_cpu_us": used.total_s / total * 1e6,
            "open_files": open_files(broker.pid),
        }


def _write_everywhere(connection: Connection, count: int = PARTITIONS) -> None:
    """One record into each partition, the last partitions of each topic first."""
    batch = wire.batch([bytes(100)])
    for number in range(TOPICS):
        topic = f"many-{number}"
        error_at = wire.produce_error_at(topic)
        for partition in range(PARTITIONS - 1, PARTITIONS - 1 - count, -1):
            deadline = time.monotonic() + 60
            while True:
                answer = connection.call(wire.produce_to(topic, partition, batch))
                (error,) = struct.unpack_from(">h", answer, error_at)
                if not error:
                    break
                if time.monotonic() > deadline:
                    raise RequestFailed(f"{topic}-{partition}: error {error}")
                time.sleep(0.01)


FIGURE = Figure(
    "partitions",
    "10,000 partitions in one broker",
    measure,
    (
        Row("made_kb_each", "memory each, made but not written", "kB"),
        Row("written_kb_each", "memory each, after a record in each", "kB", promise="<= 20"),
        Row("make_ms_each", "time to make one", "ms", 2),
        Row("request_cpu_us", "CPU of a 100-byte request, to each in turn", "µs"),
        Row("open_files", "open files", "", 0),
    ),
)
