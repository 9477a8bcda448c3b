"""Broker CPU for one produce request of 100 bytes over TLS, and the same in the clear.

As in `requests`: every connection has one request in flight (acks=1), so nothing is batched but what the
broker gathers itself. The client over TLS costs more than the one in the clear, and shares the two cores.
"""

from __future__ import annotations

from bench import wire
from bench.brokers import BrokerProcess
from bench.client import Connection
from bench.figures import Figure, Row, Start, Values
from bench.load import Load, closed_loop_tls
from bench.login import Connect, connector
from bench.proc import CpuTime
from bench.secured import SecuredProcess, gathered, running

CONNECTIONS = (10, 100)
SECONDS = 3.0
WARM_UP_S = 5.0
TOPIC = "requests"


def measure(start: Start) -> Values:
    """CPU microseconds a request for each number of connections, over TLS and in the clear."""
    with running(start, "PLAINTEXT", "SSL", "MUTUAL", authorizer=False) as broker:
        with Connection(broker.port) as connection:
            connection.create_topic(TOPIC)
        values = gathered(
            {
                "in the clear": lambda: _requests(broker, "PLAINTEXT", "plain"),
                "over TLS": lambda: _requests(broker, "SSL", "tls"),
            }
        )
    if "tls_cpu_us_100" in values and "plain_cpu_us_100" in values:
        values["ratio_100"] = values["tls_cpu_us_100"] / values["plain_cpu_us_100"]
    return values


def _requests(broker: SecuredProcess, listener: str, name: str) -> Values:
    port, connect = broker.ports[listener], connector(broker.security.login(listener))
    request = wire.produce(TOPIC, wire.batch([bytes(100)]))
    closed_loop_tls(port, TOPIC, request, 10, WARM_UP_S, connect)
    values = {}
    for count in CONNECTIONS:
        used, load = cpu_of_requests(broker, port, TOPIC, request, count, SECONDS, connect)
        values[f"{name}_cpu_us_{count}"] = used.total_s / load.requests * 1e6
        values[f"{name}_per_s_{count}"] = load.requests / load.seconds
    return values


def cpu_of_requests(
    broker: BrokerProcess,
    port: int,
    topic: str,
    request: bytes,
    connections: int,
    seconds: float,
    connect: Connect,
) -> tuple[CpuTime, Load]:
    """What so many connections did, and what it cost the broker without their handshakes and logins."""
    begun: list[CpuTime] = []
    load = closed_loop_tls(
        port, topic, request, connections, seconds, connect, lambda: begun.append(broker.cpu())
    )
    return broker.cpu() - begun[0], load


FIGURE = Figure(
    "security-requests",
    "TLS: one 100-byte produce request (acks=1, one in flight a connection)",
    measure,
    (
        Row("tls_cpu_us_10", "broker CPU a request over TLS, 10 connections", "µs"),
        Row("plain_cpu_us_10", "the same in the clear", "µs"),
        Row("tls_cpu_us_100", "broker CPU a request over TLS, 100 connections", "µs"),
        Row("plain_cpu_us_100", "the same in the clear", "µs"),
        Row("ratio_100", "TLS over clear, 100 connections", "", 2),
        Row("tls_per_s_100", "requests a second over TLS, 100 connections", "1/s", 0),
    ),
)
