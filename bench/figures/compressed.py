"""Compressed batches: what it costs the broker that it looks into them.

Ready-made batches over a raw socket, in each codec, so that the producer costs next to nothing: of a hundred
records of 100 bytes, as a producer with little to say sends them, and of a thousand records of 1 KiB. Values
are JSON of few words and some digits, which pack to a third or less. A gigabyte is 10^9 bytes of values,
before compression.

`moldau.records.check=false` leaves the look out; Apache Kafka has no such setting and always looks.
"""

from __future__ import annotations

import random
import time

from bench.brokers import BrokerProcess
from bench.client import Connection
from bench.figures import Figure, Row, Start, Values
from bench.load import stream_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

CODECS = ("none", "lz4", "snappy", "zstd", "gzip")
SHAPES = {"small": (100, 100), "large": (1000, 1024)}
UNPACKED_BYTES = {"small": 100_000_000, "large": 400_000_000}
WARM_UP_SHARE = 4


def measure(start: Start) -> Values:
    """Megabytes a second and CPU seconds a gigabyte for each codec and size, with the look and without."""
    values: dict[str, float] = {}
    with start() as broker:
        with Connection(broker.port) as connection:
            connection.create_topic("looked-at")
            connection.create_topic("trusted", configs=_trusting(broker))
        for codec in CODECS:
            for shape in SHAPES:
                for topic, suffix in (("looked-at", ""), ("trusted", "_off")):
                    if topic == "trusted" and not _trusting(broker):
                        continue
                    rate, cpu = _produced(broker, topic, codec, shape)
                    values[f"{codec}_{shape}_mb_per_s{suffix}"] = rate
                    values[f"{codec}_{shape}_cpu_s_per_gb{suffix}"] = cpu
    return values


def _trusting(broker: BrokerProcess) -> dict[str, str]:
    return {"moldau.records.check": "false"} if broker.name == "Moldau" else {}


def _produced(broker: BrokerProcess, topic: str, codec: str, shape: str) -> tuple[float, float]:
    """(megabytes a second, the broker's CPU seconds a gigabyte), both before compression."""
    batch, unpacked_bytes = _batch(codec, *SHAPES[shape])
    count = UNPACKED_BYTES[shape] // unpacked_bytes
    stream_batches(broker.port, topic, batch, count // WARM_UP_SHARE * len(batch))
    before = broker.cpu()
    load = stream_batches(broker.port, topic, batch, count * len(batch))
    used = broker.cpu() - before
    sent_bytes = load.requests * unpacked_bytes
    return sent_bytes / load.seconds / 1e6, used.total_s / (sent_bytes / 1e9)


def _batch(codec: str, records: int, value_bytes: int) -> tuple[bytes, int]:
    """A batch, and how many bytes its values have."""
    rng = random.Random(7)
    words = [rng.randbytes(4).hex() for _ in range(200)]
    now_ms = int(time.time() * 1000)
    rows = []
    for index in range(records):
        text = ""
        while len(text) < value_bytes:
            text += f'{{"{rng.choice(words)}":"{rng.choice(words)}","n":{rng.randrange(1000)}}},'
        rows.append(Record(index, now_ms, None, text[:value_bytes].encode()))
    return build_batch(rows, compression=codec), records * value_bytes


def _rows() -> tuple[Row, ...]:
    rows = []
    for codec in CODECS:
        for shape, (records, value_bytes) in SHAPES.items():
            what = f"{codec}, {records:,} records of {value_bytes:,} bytes"
            rows += [
                Row(f"{codec}_{shape}_mb_per_s", f"{what}", "MB/s", 0),
                Row(f"{codec}_{shape}_cpu_s_per_gb", f"{what}: broker CPU a GB", "s", 2),
                Row(f"{codec}_{shape}_cpu_s_per_gb_off", f"{what}: without the look", "s", 2),
            ]
    return tuple(rows)


FIGURE = Figure("compressed", "Compressed batches, looked into", measure, _rows())
