"""Broker CPU for one produce request of 100 bytes, and requests a second, at 1, 10 and 100 connections.

Each connection has one request in flight (acks=1, one record of 100 bytes, batch of its own), so this is the
worst case for a broker: nothing is batched but what the broker itself gathers in a turn of its loop.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

from bench import wire
from bench.brokers import accepts, wait_until
from bench.client import Connection
from bench.figures import Figure, Row, Start, Values
from bench.load import closed_loop
from bench.proc import cpu_time
from moldau.testing.ports import reserve_port

ROOT = Path(__file__).parents[2]

CONNECTIONS = (1, 10, 100)
SECONDS = 4.0
WARM_UP_S = 8.0  # a JVM compiles its hot paths meanwhile
TOPIC = "requests"


def measure(start: Start) -> Values:
    """CPU microseconds a request and requests a second for each number of connections."""
    values = {"reference_us_100": _reference_us()}
    with start() as broker:
        with Connection(broker.port) as connection:
            connection.create_topic(TOPIC)
        request = wire.produce(TOPIC, wire.batch([bytes(100)]))
        closed_loop(broker.port, TOPIC, request, 10, WARM_UP_S)
        for count in CONNECTIONS:
            before = broker.cpu()
            load = closed_loop(broker.port, TOPIC, request, count, SECONDS)
            used = broker.cpu() - before
            values[f"cpu_us_{count}"] = used.total_s / load.requests * 1e6
            values[f"system_us_{count}"] = used.system_s / load.requests * 1e6
            values[f"requests_per_s_{count}"] = load.requests / load.seconds
    values["ratio_100"] = values["cpu_us_100"] / values["reference_us_100"]
    return values


def _reference_us() -> float:
    """What `bench/reference.py` costs a request at 100 connections: the kernel, the loop and one call."""
    reserved, size = reserve_port(), wire.produce_response_bytes(TOPIC)
    port = reserved.number
    answer = struct.pack(">i", size - 4) + bytes(size - 4)
    process = subprocess.Popen([sys.executable, "-m", "bench.reference", str(port), answer.hex()], cwd=ROOT)
    try:
        if not wait_until(lambda: accepts(port), lambda: process.poll() is None):
            raise RuntimeError(f"the reference loop ended with exit code {process.returncode}")
        request = wire.produce(TOPIC, wire.batch([bytes(100)]))
        closed_loop(port, TOPIC, request, 100, 0.5)
        before = cpu_time(process.pid)
        load = closed_loop(port, TOPIC, request, 100, SECONDS / 2)
        return (cpu_time(process.pid) - before).total_s / load.requests * 1e6
    finally:
        process.terminate()
        process.wait(10)
        reserved.release()


FIGURE = Figure(
    "requests",
    "One 100-byte produce request (acks=1, one in flight a connection)",
    measure,
    (
        Row("cpu_us_1", "broker CPU a request, 1 connection", "µs"),
        Row("cpu_us_10", "broker CPU a request, 10 connections", "µs"),
        Row("cpu_us_100", "broker CPU a request, 100 connections", "µs", promise="<= 9"),
        Row("system_us_100", "of which in the kernel, 100 connections", "µs"),
        Row("reference_us_100", "the reference loop (reads, answers, does nothing), 100 connections", "µs"),
        Row("ratio_100", "broker over reference loop, 100 connections", "", 2),
        Row("requests_per_s_1", "requests a second, 1 connection", "1/s", 0),
        Row("requests_per_s_10", "requests a second, 10 connections", "1/s", 0),
        Row("requests_per_s_100", "requests a second, 100 connections", "1/s", 0),
    ),
    "The load generator shares the two cores; requests a second are what both together reach.",
)
