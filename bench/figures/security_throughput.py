"""Ready-made batches of a mebibyte in and out over TLS and in the clear: what a gigabyte costs the broker.

Both go through the same broker in turn. TLS 1.3 with the cipher that both ends prefer, a certificate of
P-256. A megabyte is 10^6 bytes of payload.
"""

from __future__ import annotations

from bench import wire
from bench.client import Connection
from bench.figures import Figure, Row, Start, Values
from bench.load import stream_batches, stream_fetches
from bench.login import connector
from bench.secured import SecuredProcess, gathered, running

RECORD_BYTES = 1024
MEASURED_BYTES = 512 << 20
WARM_UP_BYTES = 128 << 20


def measure(start: Start) -> Values:
    """CPU seconds a gigabyte and megabytes a second, in and out, with and without TLS, and their ratios."""
    with running(start, "PLAINTEXT", "SSL", "MUTUAL", authorizer=False) as broker:
        values = gathered(
            {
                "in the clear": lambda: _streams(broker, "PLAINTEXT", "plain"),
                "over TLS": lambda: _streams(broker, "SSL", "tls"),
            }
        )
    for way in ("produce", "consume"):
        tls, plain = (values.get(f"{kind}_{way}_cpu_s_per_gb") for kind in ("tls", "plain"))
        if tls and plain:
            values[f"{way}_ratio"] = tls / plain
    return values


def _streams(broker: SecuredProcess, listener: str, name: str) -> Values:
    port, connect = broker.ports[listener], connector(broker.security.login(listener))
    batch = wire.batch([bytes(RECORD_BYTES)] * 950)
    with Connection(port, connect=connect) as connection:
        connection.create_topic(name)
    stream_batches(port, name, batch, WARM_UP_BYTES, connect=connect)
    stream_fetches(port, name, 0, WARM_UP_BYTES, connect=connect)
    before = broker.cpu()
    written = stream_batches(port, name, batch, MEASURED_BYTES, connect=connect)
    between = broker.cpu()
    read = stream_fetches(port, name, 0, MEASURED_BYTES, connect=connect)
    after = broker.cpu()
    return {
        f"{name}_produce_cpu_s_per_gb": (between - before).total_s / (written.payload_bytes / 1e9),
        f"{name}_consume_cpu_s_per_gb": (after - between).total_s / (read.payload_bytes / 1e9),
        f"{name}_produce_mb_per_s": written.payload_bytes / written.seconds / 1e6,
        f"{name}_consume_mb_per_s": read.payload_bytes / read.seconds / 1e6,
    }


FIGURE = Figure(
    "security-throughput",
    "TLS: batches of 1 MB, one connection",
    measure,
    (
        Row("tls_produce_cpu_s_per_gb", "broker CPU a GB produced over TLS", "s", 2),
        Row("plain_produce_cpu_s_per_gb", "the same in the clear", "s", 2),
        Row("produce_ratio", "TLS over clear", "", 2),
        Row("tls_consume_cpu_s_per_gb", "broker CPU a GB consumed over TLS", "s", 2),
        Row("plain_consume_cpu_s_per_gb", "the same in the clear", "s", 2),
        Row("consume_ratio", "TLS over clear", "", 2),
        Row("tls_produce_mb_per_s", "produce over TLS", "MB/s", 0),
        Row("tls_consume_mb_per_s", "consume over TLS", "MB/s", 0),
    ),
)
