"""Broker CPU for one produce request of 100 bytes, and requests a second, at 1, 10 and 100 connections.

Each connection has one request in flight (acks=1, one record of 100 bytes, batch of its own), so this is the
worst case for a broker: nothing is batched but what the broker itself gathers in a turn of its loop.
"""

from __future__ import annotations

from bench import wire
from bench.client import Connection
from bench.figures import Figure, Row, Start, Values
from bench.load import closed_loop

CONNECTIONS = (1, 10, 100)
SECONDS = 4.0
WARM_UP_S = 8.0  # a JVM compiles its hot paths meanwhile
TOPIC = "requests"


def measure(start: Start) -> Values:
    """CPU microseconds a request and requests a second for each number of connections."""
    values = {}
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
    return values


FIGURE = Figure(
    "requests",
    "One 100-byte produce request (acks=1, one in flight a connection)",
    measure,
    (
        Row("cpu_us_1", "broker CPU a request, 1 connection", "µs"),
        Row("cpu_us_10", "broker CPU a request, 10 connections", "µs"),
        Row("cpu_us_100", "broker CPU a request, 100 connections", "µs", promise="<= 9"),
        Row("system_us_100", "of which in the kernel, 100 connections", "µs"),
        Row("requests_per_s_1", "requests a second, 1 connection", "1/s", 0),
        Row("requests_per_s_10", "requests a second, 10 connections", "1/s", 0),
        Row("requests_per_s_100", "requests a second, 100 connections", "1/s", 0),
    ),
    "The load generator shares the two cores; requests a second are what both together reach.",
)
