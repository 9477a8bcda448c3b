"""Attacks by record batches: a few hundred bytes that unpack to a million records, or honest and many."""

from __future__ import annotations

import struct
import time

import cramjam
import crc32c

from bench import wire
from bench.attacks import Attack, Target
from bench.client import Connection

MANY = 1_000_000
HONEST = 100_000
YEAR_MS = 365 * 24 * 3600 * 1000
TOPIC = "attacked"
ZSTD = 4
LIST_OFFSETS_ROWS = 10
BOMB_RECORDS, BOMB_VALUE_BYTES = 1_000, 100_000


def compressed(records: bytes, count: int, first_ms: int, max_ms: int) -> bytes:
    """A zstd batch whose header has the given count and timestamps."""
    payload = bytes(cramjam.zstd.compress(records, 3))
    rest = struct.pack(">hiqqqhii", ZSTD, count - 1, first_ms, max_ms, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, crc32c.crc32c(rest)) + rest


def bomb() -> bytes:
    """A million times the same keyless record of seven bytes, and a header timestamp a year ahead."""
    now_ms = int(time.time() * 1000)
    return compressed(b"\x0c\0\0\0\x01\0\0" * MANY, MANY, now_ms, now_ms + YEAR_MS)


def bomb_backwards() -> bytes:
    """The same with a largest timestamp before the first one."""
    now_ms = int(time.time() * 1000)
    return compressed(b"\x0c\0\0\0\x01\0\0" * MANY, MANY, now_ms, now_ms - 1000)


def honest_batch() -> bytes:
    """A hundred thousand records with keys of their own, all as they should be."""
    now_ms = int(time.time() * 1000)
    records = bytearray()
    for number in range(HONEST):
        body = b"\0\0" + wire.varint(number) + b"\x08" + struct.pack(">i", number) + b"\x02v\0"
        records += wire.varint(len(body)) + body
    return compressed(bytes(records), HONEST, now_ms, now_ms)


def large_when_unpacked() -> bytes:
    """A hundred megabytes of zeros in a thousand records: right in every field, and a few kilobytes."""
    now_ms = int(time.time() * 1000)
    records = bytearray()
    for number in range(BOMB_RECORDS):
        body = b"\0\0" + wire.varint(number) + b"\x01" + wire.varint(BOMB_VALUE_BYTES)
        body += bytes(BOMB_VALUE_BYTES) + b"\0"
        records += wire.varint(len(body)) + body
    return compressed(bytes(records), BOMB_RECORDS, now_ms, now_ms)


def produce_rows(records: bytes, rows: int) -> bytes:
    """Produce version 7 with the same batch and partition in several rows."""
    body = struct.pack(">hhii", -1, 1, 30_000, 1) + wire.string(TOPIC) + struct.pack(">i", rows)
    body += (struct.pack(">ii", 0, len(records)) + records) * rows
    return wire.frame(wire.PRODUCE, 7, body)


def offsets_by_time(rows: int) -> bytes:
    """ListOffsets version 1 for a moment that only a look into the batch can find, in several rows."""
    body = struct.pack(">ii", -1, 1) + wire.string(TOPIC) + struct.pack(">i", rows)
    body += struct.pack(">iq", 0, 1) * rows
    return wire.frame(wire.LIST_OFFSETS, 1, body)


def _plain(port: int) -> None:
    with Connection(port) as connection:
        connection.create_topic(TOPIC)


def _compacted(port: int) -> None:
    with Connection(port) as connection:
        connection.create_topic(TOPIC, configs={"cleanup.policy": "compact"})


def _stored(port: int) -> None:
    _plain(port)
    with Connection(port) as connection:
        connection.produce(TOPIC, large_when_unpacked())


def _strike_by_time(target: Target) -> None:
    target.ask(offsets_by_time(LIST_OFFSETS_ROWS))
    while not target.over:
        target.ask_at_once(offsets_by_time(1), 4)


ATTACKS = (
    Attack(
        "bomb",
        "zstd batch of a million records in a few hundred bytes, timestamp in the future, two rows",
        lambda target: target.repeat(produce_rows(bomb(), 2)),
        _plain,
    ),
    Attack(
        "bomb-backwards",
        "the same, largest timestamp before the first",
        lambda target: target.repeat(produce_rows(bomb_backwards(), 2)),
        _plain,
    ),
    Attack(
        "bomb-compacted",
        "the same (future), to a compacted topic",
        lambda target: target.repeat(produce_rows(bomb(), 2)),
        _compacted,
    ),
    Attack(
        "honest-compacted",
        "batches of 100,000 honest records to a compacted topic",
        lambda target: target.repeat(produce_rows(honest_batch(), 1)),
        _compacted,
    ),
    Attack(
        "offsets-by-time",
        "ListOffsets by time over a stored batch of 100 MB unpacked, ten rows, then four at once",
        _strike_by_time,
        _stored,
    ),
)
